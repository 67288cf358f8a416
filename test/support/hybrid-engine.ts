import { createHash, randomBytes } from 'node:crypto'
import { connect, createEngineMemory, type EngineMemory, type OrbitClient } from '../../src/client/index.js'

/** An engine of a hybrid model over the client library: attention, a sliding window and recurrent state. */

export const HYBRID_GROUPS = [
  { id: 0, kind: 'full-attention', blockTokens: 16, window: 0 },
  { id: 1, kind: 'sliding-window', blockTokens: 16, window: 30 },
  { id: 2, kind: 'checkpoint', blockTokens: 32, window: 0 },
] as const

/** One tensor that a rank has a page of for every block of its group. */
export interface HybridLayer {
  readonly layer: string
  readonly group: number
  readonly bytes: number
}

/** Which layers a rank of (tp, pp) has. */
export interface HybridRankShape {
  readonly tpRank: number
  readonly ppRank: number
  readonly layers: readonly HybridLayer[]
}

export const STATE_BYTES = 9 * 1024 * 1024
/** A page of every kind: the state is a small convolution tensor and a temporal one of 9 MiB. */
export const HYBRID_LAYERS: readonly HybridLayer[] = [
  { layer: 'attention.0', group: 0, bytes: 1_000 },
  { layer: 'attention.1', group: 0, bytes: 5_000 },
  { layer: 'window.0', group: 1, bytes: 3_000 },
  { layer: 'state.conv', group: 2, bytes: 4_000 },
  { layer: 'state.temporal', group: 2, bytes: STATE_BYTES },
]

const PAGES = [16, 16, 3] as const
const GUARD = 0x5a

/** The key of block `block`, the same in every group. */
export function blockKey(block: number): Buffer {
  return createHash('sha256').update(`hybrid ${block}`).digest()
}

/** What a layer of a rank holds for a block. */
export function contentOf({ tpRank, ppRank }: HybridRankShape, { layer, bytes }: HybridLayer, block: number): Buffer {
  const name = `${tpRank} ${ppRank} ${layer} ${block}`
  return createHash('shake128', { outputLength: bytes }).update(name).digest()
}

/** One source of a lease and the page it goes to. */
export interface HybridPair {
  readonly group: number
  readonly source: number
  readonly page: number
}

/** One rank: its session, its pages, and what is in them. */
export class HybridRank {
  readonly shape: HybridRankShape
  readonly client: OrbitClient
  readonly memory: EngineMemory

  constructor(shape: HybridRankShape, client: OrbitClient, memory: EngineMemory) {
    this.shape = shape
    this.client = client
    this.memory = memory
  }

  has(group: number): boolean {
    return this.shape.layers.some((layer) => layer.group === group)
  }

  page(layer: HybridLayer, page: number): Uint8Array {
    const at = (placesOf(this.shape).get(layer.layer) as number) + page * layer.bytes
    return this.memory.view.subarray(at, at + layer.bytes)
  }

  /** Computes blocks of a group into pages 0 … n - 1 and publishes them. */
  async publish(group: number, blocks: readonly number[]): Promise<void> {
    if (blocks.length === 0 || !this.has(group)) return
    for (const layer of this.shape.layers) {
      if (layer.group !== group) continue
      for (const [page, block] of blocks.entries()) this.page(layer, page).set(contentOf(this.shape, layer, block))
    }
    const items = { keys: Buffer.concat(blocks.map(blockKey)), pages: Uint32Array.from(blocks, (_, page) => page) }
    await this.client.publish({ groups: [{ group, layers: null, items }] })
  }

  /** Fills everything with guard bytes and redeems the lease for the groups that this rank has. */
  async restore(lease: number, pairs: readonly HybridPair[]): Promise<number> {
    this.memory.view.fill(GUARD)
    const groups = HYBRID_GROUPS.map(({ id }) => ({
      group: id,
      pairs: Uint32Array.from(pairs.filter(({ group }) => group === id).flatMap(({ source, page }) => [source, page])),
    })).filter(({ group, pairs: list }) => list.length > 0 && this.has(group))
    return (await this.client.restore({ lease, groups })).bytes
  }

  /** Names of layers and blocks whose bytes are not what was published, and `outside` when another byte changed. */
  wrong(pairs: readonly HybridPair[]): string[] {
    const wrong: string[] = []
    for (const layer of this.shape.layers) {
      for (const { source, page } of pairs.filter(({ group }) => group === layer.group)) {
        const held = this.page(layer, page)
        if (!contentOf(this.shape, layer, source).equals(held)) wrong.push(`${layer.layer} ${source}`)
        held.fill(GUARD)
      }
    }
    if (!Buffer.alloc(this.memory.bytes, GUARD).equals(this.memory.view)) wrong.push('outside')
    return wrong
  }
}

/** Offset of each layer; a page between any two is nobody's. */
function placesOf({ layers }: HybridRankShape): Map<string, number> {
  const places = new Map<string, number>()
  let offsetBytes = 4096
  for (const { layer, group, bytes } of layers) {
    places.set(layer, offsetBytes)
    offsetBytes += (PAGES[group] as number) * bytes + 4096
  }
  return places.set('', offsetBytes)
}

export class HybridEngine {
  readonly ranks: readonly HybridRank[]
  #requests = 0

  private constructor(ranks: readonly HybridRank[]) {
    this.ranks = ranks
  }

  static async start(socketPath: string, shapes: readonly HybridRankShape[]): Promise<HybridEngine> {
    const instanceId = randomBytes(16)
    const tpSize = 1 + Math.max(...shapes.map(({ tpRank }) => tpRank))
    const ppSize = 1 + Math.max(...shapes.map(({ ppRank }) => ppRank))
    const ranks: HybridRank[] = []
    for (const shape of shapes) {
      const places = placesOf(shape)
      const memory = createEngineMemory(places.get('') as number)
      const client = await connect({ socketPath, role: 'worker', engine: 'hybrid', engineVersion: '1' })
      await client.register({
        instanceId,
        namespaceInputs: new Map([['model', Buffer.from('hybrid')]]),
        tpRank: shape.tpRank,
        tpSize,
        ppRank: shape.ppRank,
        ppSize,
        worldSize: tpSize * ppSize,
        pageFirst: false,
        device: { kind: 'host', uuid: new Uint8Array(16) },
        memory: [memory],
        groups: HYBRID_GROUPS,
        regions: shape.layers.map(({ layer, group, bytes }) => ({
          layer,
          group,
          allocation: 0,
          offsetBytes: places.get(layer) as number,
          pageCount: PAGES[group] as number,
          pageStrideBytes: bytes,
          segments: 1 as const,
          segmentBytes: bytes,
          segmentStrideBytes: bytes,
          dtype: 'bfloat16',
          kvRole: group === 2 ? ('state' as const) : ('packed' as const),
          headDim: 64,
          heads: 1,
        })),
        slotCount: 4,
      })
      ranks.push(new HybridRank(shape, client, memory))
    }
    return new HybridEngine(ranks)
  }

  /** Asks where the first `blocks` blocks of the request can be resumed. */
  async query(blocks: number) {
    const client = (this.ranks[0] as HybridRank).client
    const groups = HYBRID_GROUPS.map(({ id, blockTokens }) => {
      const count = Math.floor((blocks * 16) / blockTokens)
      return { group: id, firstBlock: 0, keys: Buffer.concat(Array.from({ length: count }, (_, i) => blockKey(i))) }
    })
    return await client.query({ requestId: ++this.#requests, revision: 0, allowSsd: true, groups })
  }

  /** Everything published has been written; then nothing of it is in DRAM. */
  /** Waits until the Manager knows that nothing runs any more: see TestEngine. */
  async settled(): Promise<void> {
    const { client } = this.ranks[0] as HybridRank
    while ((await client.inspect('')).get('operationsOpen') !== 0);
  }

  async toSsd(): Promise<void> {
    for (const { client } of this.ranks) await client.sync(true)
    await (this.ranks[0] as HybridRank).client.dropDram()
  }

  async stop(): Promise<void> {
    for (const { client, memory } of this.ranks) {
      await client.close()
      memory.close()
    }
  }
}
