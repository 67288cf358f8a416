import type { GroupSpec, RegionSpec } from '../../src/shared/layout/regions.js'
import type { Identity } from './oracle.js'

/** How an engine lays its pages out; small, so that many fit a simulated disk. */
export interface ModelPlan {
  readonly layout: 'packed' | 'adjacent' | 'split' | 'page-first'
  readonly layers: number
  /** Words of one segment of the layers with even and with odd numbers: two sizes make several granules. */
  readonly wordsEven: number
  readonly wordsOdd: number
  readonly groups: 1 | 2
  /** Blocks of group 1 hold this many times the tokens of group 0. */
  readonly tokensFactor: 1 | 2
  /** What group 1 is. */
  readonly second: GroupSpec['kind']
  /** Tokens of its window. */
  readonly windowTokens: number
  readonly ranks: 1 | 2
  readonly pages: number
}

export const BLOCK_TOKENS = 16

/** One stored segment of a page: where the engine has it, and who its content is. */
export interface Segment {
  readonly layer: number
  readonly segment: number
  readonly offsetBytes: number
  readonly pageStrideBytes: number
  readonly words: number
}

/**
 * A model: what every engine of it registers, and where it keeps each segment of a page. Computed here from the plan
 * alone, so that the Manager's own geometry is held against an independent one.
 */
export class Model {
  readonly number: number
  readonly plan: ModelPlan
  readonly regions: readonly RegionSpec[]
  readonly bytes: number
  /** By group: every segment in stored order. */
  readonly segments: readonly (readonly Segment[])[]

  constructor(number: number, plan: ModelPlan) {
    this.number = number
    this.plan = plan
    const laid = plan.layout === 'page-first' ? pageFirst(plan) : layerByLayer(plan)
    this.regions = laid.regions
    this.bytes = laid.bytes
    this.segments = Array.from({ length: this.groups }, (_, group) =>
      laid.regions.flatMap((region, layer) => (region.group === group ? segmentsOf(region, layer) : [])),
    )
  }

  get groups(): number {
    return groupsOf(this.plan)
  }

  blockTokens(group: number): number {
    return group === 0 ? BLOCK_TOKENS : BLOCK_TOKENS * this.plan.tokensFactor
  }

  spec(group: number): GroupSpec {
    const kind = group === 0 ? 'full-attention' : this.plan.second
    const windowTokens = kind === 'sliding-window' ? this.plan.windowTokens : 0
    return { kind, blockTokens: this.blockTokens(group), windowTokens }
  }

  /**
   * The blocks of a group that resuming at `tokens` needs from `firstBlock` on; null: nobody can resume there. Written
   * here once more, so that the Manager's rules are held against others.
   */
  needed(group: number, tokens: number, firstBlock: number): readonly number[] | null {
    const { kind, blockTokens, windowTokens } = this.spec(group)
    if (tokens % blockTokens !== 0) return null
    const end = tokens / blockTokens
    const blocks: number[] = []
    for (let block = 0; block < end; block++) {
      const wanted =
        kind === 'full-attention' ||
        (kind === 'checkpoint' ? block === end - 1 : (end - 1 - block) * blockTokens < windowTokens)
      if (wanted && block >= firstBlock) blocks.push(block)
      if (wanted && kind === 'checkpoint' && block < firstBlock) return null
    }
    return blocks
  }

  /** Blocks of a group that `blocks` blocks of group 0 are. */
  blocksOf(group: number, blocks: number): number {
    return Math.floor((blocks * BLOCK_TOKENS) / this.blockTokens(group))
  }

  pageBytes(group: number): number {
    return (this.segments[group] as readonly Segment[]).reduce((sum, { words }) => sum + words * 4, 0)
  }

  who(key: number, group: number, rank: number, segment: Segment): Identity {
    return { salt: this.number, key: key * 4 + group, layer: segment.layer, rank, segment: segment.segment }
  }
}

/** Bytes between two regions that nobody may touch. */
const GAP_BYTES = 64

/** A group without a layer is no group, and page-first storage has one. */
function groupsOf(plan: ModelPlan): number {
  return plan.layout === 'page-first' ? 1 : Math.min(plan.groups, plan.layers)
}

/** Values of one vector. */
const HEAD_DIM = 64

function layerWords(plan: ModelPlan, layer: number): number {
  return layer % 2 === 0 ? plan.wordsEven : plan.wordsOdd
}

function layerByLayer(plan: ModelPlan): { regions: RegionSpec[]; bytes: number } {
  const regions: RegionSpec[] = []
  let offsetBytes = GAP_BYTES
  for (let layer = 0; layer < plan.layers; layer++) {
    const segmentBytes = layerWords(plan, layer) * 4
    const segments = plan.layout === 'packed' ? 1 : 2
    const apart = plan.layout === 'split'
    const spanBytes = plan.pages * segmentBytes + GAP_BYTES
    regions.push({
      ...named(plan, layer),
      offsetBytes,
      pageCount: plan.pages,
      pageStrideBytes: plan.layout === 'adjacent' ? 2 * segmentBytes : segmentBytes,
      segments,
      segmentBytes,
      segmentStrideBytes: apart ? spanBytes : segmentBytes,
    })
    offsetBytes += plan.layout === 'adjacent' ? 2 * plan.pages * segmentBytes + GAP_BYTES : segments * spanBytes
  }
  return { regions, bytes: offsetBytes }
}

/** Pages of all layers interleaved, with a gap at the end of every page. */
function pageFirst(plan: ModelPlan): { regions: RegionSpec[]; bytes: number } {
  let pageStrideBytes = GAP_BYTES
  for (let layer = 0; layer < plan.layers; layer++) pageStrideBytes += layerWords(plan, layer) * 4
  const regions: RegionSpec[] = []
  let offsetBytes = GAP_BYTES
  for (let layer = 0; layer < plan.layers; layer++) {
    const segmentBytes = layerWords(plan, layer) * 4
    regions.push({
      ...named(plan, layer),
      offsetBytes,
      pageCount: plan.pages,
      pageStrideBytes,
      segments: 1,
      segmentBytes,
      segmentStrideBytes: segmentBytes,
    })
    offsetBytes += segmentBytes
  }
  return { regions, bytes: GAP_BYTES + plan.pages * pageStrideBytes }
}

function named(plan: ModelPlan, layer: number) {
  const segmentBytes = layerWords(plan, layer) * 4
  return {
    layer: `layer.${layer}`,
    group: layer % groupsOf(plan),
    allocation: 0,
    dtype: 'bfloat16',
    kvRole: plan.layout === 'page-first' ? (layer % 4 < 2 ? ('k' as const) : ('v' as const)) : ('packed' as const),
    // A key and a value of one head, or a layout that says nothing of heads.
    headDim: segmentBytes % (2 * HEAD_DIM * 2) === 0 ? HEAD_DIM : 0,
    heads: segmentBytes % (2 * HEAD_DIM * 2) === 0 ? 1 : 0,
  }
}

function segmentsOf(region: RegionSpec, layer: number): Segment[] {
  return Array.from({ length: region.segments }, (_, segment) => ({
    layer,
    segment,
    offsetBytes: region.offsetBytes + segment * region.segmentStrideBytes,
    pageStrideBytes: region.pageStrideBytes,
    words: region.segmentBytes / 4,
  }))
}

/** 32 bytes that stand for block `block` of chain `chain`. The same for every model: only namespaces tell them apart. */
export function keyBytes(key: number, target: Uint8Array, at: number): void {
  let state = Math.imul(key + 1, 0x9e3779b1)
  for (let index = 0; index < 32; index++) {
    state = Math.imul(state ^ (state >>> 15), 0x85ebca6b) + index
    target[at + index] = state >>> 24
  }
}

export function keysOf(keys: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(keys.length * 32)
  for (const [index, key] of keys.entries()) keyBytes(key, bytes, index * 32)
  return bytes
}
