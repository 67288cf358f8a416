import { invariant } from '../../shared/base/invariant.js'
import { NO_CODE, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST } from '../../shared/layout/records.js'
import type { Context } from '../context.js'
import type { RankStaging, SsdCopiesReply, SsdLane } from '../lanes/ssd-lane.js'
import type { RankHold } from '../sessions/session.js'
import type { SourcePlace } from '../storage/ports.js'
import type { PublishItem, SavePart, SaveTarget } from './parts.js'
import { SsdSave, type SsdSaveEnds } from './ssd-save.js'

/** A block that is written from its pages, and its extent. */
export interface PlacedBlock {
  readonly item: PublishItem
  readonly place: SourcePlace
}

/**
 * True when one PUBLISH brings all of a block: then it may go to the SSD straight from its pages. Blocks that others
 * bring parts of, or have begun, assemble in DRAM and are written from there: what DRAM and SSD hold of a generation
 * comes from the same pages, and nobody writes over what another has brought.
 */
export function comesWhole({ storage }: Context, rank: number, { entry, claimed, offered }: PublishItem): boolean {
  if (!claimed || !storage.untouched(entry)) return false
  const { granules, rankGranules } = storage.geometryOf(entry)
  const [first, end] = rankGranules[rank] ?? [0, 0]
  if (first !== 0 || end !== granules.length || offered.length !== granules.length) return false
  return offered.every(({ granule, firstItem, itemCount }, at) => {
    return granule === at && firstItem === 0 && itemCount === granules[at]?.itemCount
  })
}

/** TARGET descriptors of blocks that have an extent each. `codeOf`: the held coding that a granule is, or NO_CODE. */
export function targetsOf(
  context: Context,
  hold: RankHold,
  blocks: readonly PlacedBlock[],
  codeOf: (entry: number, granule: number) => number = () => NO_CODE,
): Float64Array {
  const { storage } = context
  const out: number[] = []
  for (const [object, { item, place }] of blocks.entries()) {
    const { entry } = item
    let { fileOffsetBytes } = place
    for (const [index, granule] of storage.geometryOf(entry).granules.entries()) {
      const { bytes } = storage.granule(entry, index)
      const target = new Array<number>(TARGET.doubles).fill(0)
      target[TARGET.template] = hold.templates[item.group] as number
      target[TARGET.granule] = index
      target[TARGET.page] = item.page
      target[TARGET.poolOffsetBytes] = storage.granuleOffset(entry, index)
      target[TARGET.file] = place.file
      target[TARGET.fileOffsetBytes] = fileOffsetBytes
      target[TARGET.bytes] = bytes
      target[TARGET.object] = object
      target[TARGET.itemCount] = granule.itemCount
      target[TARGET.code] = codeOf(entry, index)
      out.push(...target)
      fileOffsetBytes += bytes
    }
  }
  return Float64Array.from(out)
}

/** One part of a publication on its way to DRAM and to the SSD at once: every block has an extent from the start. */
export class DirectSave extends SsdSave {
  readonly #targets: Float64Array

  constructor(
    context: Context,
    lane: SsdLane,
    staging: RankStaging,
    hold: RankHold,
    part: SavePart,
    blocks: readonly PlacedBlock[],
    target: SaveTarget,
    ends: SsdSaveEnds,
  ) {
    super(context, lane, staging, part, target, ends)
    this.entries = blocks.map(({ item }) => item.entry)
    this.#targets = targetsOf(context, hold, blocks)
  }

  start(job: number): void {
    this.begin(job, 'write', this.#targets, TARGET.doubles)
  }

  copied({ status }: SsdCopiesReply): void {
    invariant(!this.said, 'the copies of a write end once')
    this.said = true
    this.ends.saved({ status, list: EMPTY_LIST })
  }
}
