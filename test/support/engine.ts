import { createHash, randomBytes } from 'node:crypto'
import {
  connect,
  type OrbitClient,
  type PublishResult,
  type QueryResult,
  type Registration,
} from '../../src/client/index.js'
import { createPageMemory, type PageMemory } from './page-memory.js'

/**
 * A small engine over the client library: pages in shared memory whose content is a function of key, rank, layer and
 * segment, so that every byte of a restored page can be checked without a stored copy. One session a rank and one of a
 * scheduler.
 */

/** How the pages of a rank lie in its memory. */
export type EngineLayout = 'split' | 'packed' | 'strided' | 'page-first'
export const ENGINE_LAYOUTS: readonly EngineLayout[] = ['split', 'packed', 'strided', 'page-first']

export interface EngineShape {
  readonly layout: EngineLayout
  readonly layers: number
  /** Bytes of K of one page and layer; V has as many. */
  readonly segmentBytes: number
  readonly pages: number
  readonly tpSize: number
  /** Part of the namespace: engines with different salts never see each other's pages. */
  readonly salt: string
  readonly slotCount: number
  /** UUID of the CUDA device that the pages lie on; empty: shared memory of the host. */
  readonly device: string
  readonly headDim: number
  readonly oracle: PageOracle
}

/** What pages hold, and what they may hold after a restore. */
export interface PageOracle {
  content(key: Uint8Array, rank: number, layer: number, segment: number, bytes: number): Uint8Array
  accepts(layer: number, segment: number, published: Uint8Array, restored: Uint8Array): boolean
}

/** Random bytes that come back as they were. */
export const EXACT: PageOracle = {
  content: segmentOf,
  accepts: (_layer, _segment, published, restored) => Buffer.compare(published, restored) === 0,
}

/** Two segments of 1,000 bytes: padded to sectors, on no boundary. */
export const SHAPE: EngineShape = {
  layout: 'split',
  layers: 3,
  segmentBytes: 1_000,
  pages: 32,
  tpSize: 1,
  salt: 'test',
  slotCount: 8,
  device: '',
  headDim: 64,
  oracle: EXACT,
}

export const BLOCK_TOKENS = 16
/** Before the first and after the last page: nothing may ever be written there. */
const MARGIN_BYTES = 4_096
const POISON = 0xa5
const GUARD = 0x5a

/** `count` keys that a name stands for, one after the other. */
export function keysNamed(name: string, count: number): Buffer {
  return Buffer.concat(Array.from({ length: count }, (_, i) => createHash('sha256').update(`${name} ${i}`).digest()))
}

/** Key i of a list. */
export function keyAt(keys: Uint8Array, i: number): Uint8Array {
  return keys.subarray(i * 32, (i + 1) * 32)
}

/** What segment `segment` (K 0, V 1) of a layer of a rank holds for a key. */
export function segmentOf(key: Uint8Array, rank: number, layer: number, segment: number, bytes: number): Buffer {
  const hash = createHash('shake128', { outputLength: bytes })
  return hash
    .update(key)
    .update(Uint8Array.of(rank, layer, segment))
    .digest()
}

/** Pages, or just what REGISTER says of pages in shared memory. */
type RegisteredPages = PageMemory | Extract<Registration['memory'][number], { readonly fd: number }>

/** REGISTER of one rank of a shape, without its instance. */
export function registrationOf(shape: EngineShape, rank: number, memory: RegisteredPages, instanceId: Uint8Array) {
  const { layout, layers, segmentBytes, pages, tpSize, salt, slotCount, headDim } = shape
  const place = placeOf(shape)
  const registration: Registration = {
    instanceId,
    namespaceInputs: new Map([
      ['model', Buffer.from('orbitkv test engine')],
      ['salt', Buffer.from(salt)],
    ]),
    tpRank: rank,
    tpSize,
    ppRank: 0,
    ppSize: 1,
    worldSize: tpSize,
    pageFirst: layout === 'page-first',
    device: 'device' in memory ? memory.device : { kind: 'host', uuid: new Uint8Array(16) },
    groups: [{ id: 0, kind: 'full-attention', blockTokens: BLOCK_TOKENS, window: 0 }],
    regions: Array.from({ length: layers }, (_, layer) => ({
      layer: `layer.${String(layer).padStart(3, '0')}`,
      group: 0,
      allocation: 0,
      offsetBytes: place.offsetBytes(layer, 0, 0),
      pageCount: pages,
      pageStrideBytes: place.pageStrideBytes,
      segments: 2 as const,
      segmentBytes,
      segmentStrideBytes: place.segmentStrideBytes,
      dtype: 'bfloat16',
      kvRole: 'packed' as const,
      headDim,
      heads: 8,
    })),
    memory: ['registered' in memory ? memory.registered : memory],
    slotCount,
  }
  return registration
}

/** Where segments lie. */
function placeOf({ layout, layers, segmentBytes, pages }: EngineShape) {
  const pair = 2 * segmentBytes
  const strides =
    layout === 'split'
      ? { layer: pair * pages, page: segmentBytes, segment: segmentBytes * pages }
      : layout === 'packed'
        ? { layer: pair * pages, page: pair, segment: segmentBytes }
        : { layer: pair, page: pair * layers, segment: segmentBytes }
  return {
    pageStrideBytes: strides.page,
    segmentStrideBytes: strides.segment,
    offsetBytes: (layer: number, segment: number, page: number) =>
      MARGIN_BYTES + layer * strides.layer + page * strides.page + segment * strides.segment,
    bytes: 2 * MARGIN_BYTES + layers * pair * pages,
  }
}

/** Bytes that an engine memory of a shape needs, with its margins. */
export function memoryBytesOf(shape: EngineShape): number {
  return placeOf(shape).bytes
}

/** The pages of one rank and its session. */
export class EngineRank {
  readonly rank: number
  readonly shape: EngineShape
  readonly client: OrbitClient
  readonly memory: PageMemory

  constructor(shape: EngineShape, rank: number, client: OrbitClient, memory: PageMemory) {
    this.shape = shape
    this.rank = rank
    this.client = client
    this.memory = memory
  }

  segment(layer: number, segment: number, page: number): Uint8Array {
    const at = placeOf(this.shape).offsetBytes(layer, segment, page)
    return this.memory.view.subarray(at, at + this.shape.segmentBytes)
  }

  /** The model ran: page holds what belongs to the key. */
  compute(key: Uint8Array, page: number): void {
    for (let layer = 0; layer < this.shape.layers; layer++) {
      for (const segment of [0, 1]) {
        this.segment(layer, segment, page).set(this.#published(key, layer, segment))
      }
    }
  }

  #published(key: Uint8Array, layer: number, segment: number): Uint8Array {
    const { oracle, segmentBytes } = this.shape
    return oracle.content(key, this.rank, layer, segment, segmentBytes)
  }

  /** Everything becomes guard bytes, the given pages poison. */
  poison(pages: Iterable<number>): void {
    this.memory.view.fill(GUARD)
    for (const page of pages) {
      for (let layer = 0; layer < this.shape.layers; layer++) {
        for (const segment of [0, 1]) this.segment(layer, segment, page).fill(POISON)
      }
    }
  }

  /** Segments of a page that are not what may have come of the key's. */
  wrongSegments(key: Uint8Array, page: number): number {
    let wrong = 0
    for (let layer = 0; layer < this.shape.layers; layer++) {
      for (const segment of [0, 1]) {
        const published = this.#published(key, layer, segment)
        if (!this.shape.oracle.accepts(layer, segment, published, this.segment(layer, segment, page))) wrong++
      }
    }
    return wrong
  }

  /** True when every byte outside the given pages still is a guard byte. */
  guardsIntact(pages: Iterable<number>): boolean {
    const outside = Uint8Array.from(this.memory.view)
    for (const page of pages) {
      for (let layer = 0; layer < this.shape.layers; layer++) {
        for (const segment of [0, 1]) {
          const at = placeOf(this.shape).offsetBytes(layer, segment, page)
          outside.fill(GUARD, at, at + this.shape.segmentBytes)
        }
      }
    }
    return outside.every((byte) => byte === GUARD)
  }

  /** Bytes of the given pages that are not poison. */
  touched(pages: Iterable<number>): number {
    let touched = 0
    for (const page of pages) {
      for (let layer = 0; layer < this.shape.layers; layer++) {
        for (const segment of [0, 1])
          for (const byte of this.segment(layer, segment, page)) if (byte !== POISON) touched++
      }
    }
    return touched
  }
}

/** What a lease holds. */
export type Ready = Extract<QueryResult, { kind: 'ready' }>

export class TestEngine {
  readonly shape: EngineShape
  readonly instanceId: Uint8Array
  readonly ranks: readonly EngineRank[]
  readonly scheduler: OrbitClient
  #request = 0

  private constructor(shape: EngineShape, instanceId: Uint8Array, ranks: EngineRank[], scheduler: OrbitClient) {
    this.shape = shape
    this.instanceId = instanceId
    this.ranks = ranks
    this.scheduler = scheduler
  }

  /** Connects and registers every rank, then attaches the scheduler. */
  static async start(
    socketPath: string,
    parts: Partial<EngineShape> = {},
    allowUids: readonly number[] = [],
  ): Promise<TestEngine> {
    const shape = { ...SHAPE, ...parts }
    const instanceId = randomBytes(16)
    const greeting = { socketPath, allowUids, engine: 'test', engineVersion: '1' }
    const ranks: EngineRank[] = []
    for (let rank = 0; rank < shape.tpSize; rank++) {
      const memory = createPageMemory(shape.device, memoryBytesOf(shape))
      const client = await connect({ ...greeting, role: 'worker' })
      await client.register(registrationOf(shape, rank, memory, instanceId))
      ranks.push(new EngineRank(shape, rank, client, memory))
    }
    const scheduler = await connect({ ...greeting, role: 'scheduler' })
    await scheduler.attach(instanceId)
    return new TestEngine(shape, instanceId, ranks, scheduler)
  }

  get rank(): EngineRank {
    return this.ranks[0] as EngineRank
  }

  /** Engine bytes of one block on one rank. */
  get blockBytes(): number {
    return this.shape.layers * 2 * this.shape.segmentBytes
  }

  /** Computes the blocks of `keys` into pages 0 … n - 1 and publishes them by every rank, or by the ones named. */
  async publish(keys: Uint8Array, ranks: readonly EngineRank[] = this.ranks): Promise<PublishResult[]> {
    return await Promise.all(ranks.map((rank) => this.publishLayers(rank, keys, null)))
  }

  /** As publish, one rank, the given layers only; null: all. */
  async publishLayers(rank: EngineRank, keys: Uint8Array, layers: readonly number[] | null): Promise<PublishResult> {
    const count = keys.length / 32
    for (let page = 0; page < count; page++) rank.compute(keyAt(keys, page), page)
    rank.memory.flush()
    const items = { keys, pages: Uint32Array.from({ length: count }, (_, page) => page) }
    return await rank.client.publish({
      groups: [{ group: 0, layers: layers === null ? null : Uint32Array.from(layers), items }],
    })
  }

  async find(keys: Uint8Array, allowSsd = true): Promise<QueryResult> {
    const groups = [{ group: 0, firstBlock: 0, keys }]
    return await this.scheduler.query({ requestId: ++this.#request, revision: 0, allowSsd, groups })
  }

  /** How many blocks from the start are findable; the lease is given back. */
  async hits(keys: Uint8Array): Promise<number> {
    const found = await this.find(keys)
    if (found.kind !== 'ready') return 0
    await this.scheduler.release('lease', found.lease)
    return (found.boundaries[0] ?? 0) / BLOCK_TOKENS
  }

  /**
   * Restores every block of a lease by every rank into pages spread over its memory, between guards. Returns the number
   * of wrong segments.
   * @throws what the restore ends with
   */
  async restore(keys: Uint8Array, lease: number, ranks: readonly EngineRank[] = this.ranks): Promise<number> {
    const count = keys.length / 32
    const pages = spread(count, this.shape.pages)
    for (const rank of ranks) {
      rank.poison(pages)
      rank.memory.flush()
    }
    const pairs = Uint32Array.from(pages.flatMap((page, source) => [source, page]))
    await Promise.all(ranks.map((rank) => rank.client.restore({ lease, groups: [{ group: 0, pairs }] })))
    let wrong = 0
    for (const rank of ranks) {
      rank.memory.fetch()
      for (const [i, page] of pages.entries()) wrong += rank.wrongSegments(keyAt(keys, i), page)
      if (!rank.guardsIntact(pages)) throw new Error(`rank ${rank.rank}: a restore wrote outside its pages`)
    }
    return wrong
  }

  /**
   * Waits until the Manager knows that nothing runs any more. A restore's slot is written by the lane that copied: the
   * Manager hears of it later, and until then holds its blocks and believes in the bytes of one that failed.
   */
  async settled(): Promise<void> {
    while ((await this.scheduler.inspect('')).get('operationsOpen') !== 0);
  }

  /** Everything published is findable and its writes have ended; then nothing but held pages is left in DRAM. */
  async toSsd(): Promise<void> {
    for (const { client } of this.ranks) await client.sync(true)
    await this.scheduler.dropDram()
  }

  /** Unregisters, disconnects and unmaps. */
  async stop(): Promise<void> {
    await this.scheduler.close()
    for (const { client, memory } of this.ranks) {
      await client.close()
      memory.close()
    }
  }
}

/** `count` pages far apart, in falling order, so that neighbours of a restored page are guards. */
export function spread(count: number, pages: number): number[] {
  const step = Math.floor(pages / count)
  if (step < 1) throw new Error(`Cannot spread ${count} blocks over ${pages} pages`)
  return Array.from({ length: count }, (_, i) => pages - 1 - i * step)
}
