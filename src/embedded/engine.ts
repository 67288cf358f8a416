import { randomBytes } from 'node:crypto'
import type { OrbitClient } from '../client/client.js'
import { uuidBytes } from '../client/device-memory.js'
import type { InProcessSession } from '../client/in-process.js'
import type { OperationResult } from '../client/operations.js'
import type { PublishResult, TransferOptions, WaitOptions } from '../client/requests.js'
import { KEY_BYTES } from '../shared/layout/wire/limits.js'
import { type EngineLayout, layoutOf, regionsOf, type Shape, segmentOffset } from './engine-layout.js'
import type { DevicePages, EngineHost } from './host.js'

/** What an engine registers: its pages, and what makes their bytes meaningful. */
export interface EngineOptions extends Shape, WaitOptions {
  /** Name of the model: pages of another model are never found. */
  readonly model: string
  /** Whatever else makes bytes meaningful: revision, hash seed, salt, adapter. */
  readonly namespace?: Readonly<Record<string, string | Uint8Array>>
  /** Tokens of one block; 16 unless given. */
  readonly blockTokens?: number
  /** Type of the elements; bfloat16 unless given. */
  readonly dtype?: string
  /** Values of one head's vector: TurboQuant codes such vectors, and stores pages without it as they are. */
  readonly headDim?: number
  /** Heads of one layer of this rank; 0, not told, unless given. */
  readonly heads?: number
  /**
   * Where the pages lie: `native` memory, made and zeroed by the runtime, unless given; or a SharedArrayBuffer or a
   * Uint8Array over one, at least as long as the pages, which stays readable after close(); or memory of a CUDA device
   * that this process has allocated (cudaMalloc) and frees after close().
   */
  readonly memory?: 'native' | SharedArrayBuffer | Uint8Array | DevicePages
  /** One of several ranks that share `instance`: an engine answers queries once all of them have registered. */
  readonly rank?: { readonly instance: Uint8Array; readonly tpRank: number; readonly tpSize: number }
  /** Restores and publications at once; 64 unless given. */
  readonly slots?: number
}

/** Keys of blocks, 32 bytes each: one after the other, or apart. */
export type Keys = Uint8Array | readonly Uint8Array[]

export interface FindOptions extends WaitOptions {
  /** False: what is only on SSD counts as absent. */
  readonly allowSsd?: boolean
}

/**
 * What a query found: the longest prefix of the keys that can be restored now. It is kept until the restore, release(),
 * or the end of the lease.
 */
export interface Found {
  /** `busy`: over budget now; ask again later, or compute. */
  readonly kind: 'hit' | 'miss' | 'busy'
  /** Blocks from the first key on; 0 unless a hit. */
  readonly blocks: number
  /** Of these, by where the query found them. */
  readonly blocksDram: number
  readonly blocksSsd: number
  readonly lease: number | null
  /** Gives back what is not restored. Idempotent. */
  release(options?: WaitOptions): Promise<void>
}

/** One rank of an engine in this process, with its pages and its session. Owned by the thread that registered it. */
export class Engine {
  /** All pages, empty when they lie on a device. Do not touch those that a restore or publication owns. */
  readonly bytes: Uint8Array
  readonly layout: EngineLayout
  /** The session itself, for what this class does not offer: several groups, partial layers, renewals. */
  readonly session: OrbitClient
  readonly #host: EngineHost
  readonly #mapping: number
  readonly #lanesEnded: () => void
  #requests = 0
  #closed: Promise<void> | null = null

  /** Use OrbitKV.register(). */
  constructor(host: EngineHost, session: InProcessSession, layout: EngineLayout, bytes: Uint8Array, mapping: number) {
    this.#host = host
    this.session = session.client
    this.#lanesEnded = session.lanesEnded
    this.layout = layout
    this.bytes = bytes
    this.#mapping = mapping
  }

  /** Bytes of one segment of one page: `segment` 0 is K, 1 is V. @throws RangeError outside the layout, or on a device. */
  segment(layer: number, page: number, segment = 0): Uint8Array {
    const at = segmentOffset(this.layout, layer, page, segment)
    if (this.bytes.length === 0) throw new RangeError('Cannot show pages that lie on a device: copy them there')
    return this.bytes.subarray(at, at + this.layout.segmentBytes)
  }

  /** All segments of one page: layers in order, K before V. */
  segments(page: number): Uint8Array[] {
    const { layers, segments } = this.layout
    return layers.flatMap((_, layer) => Array.from({ length: segments }, (_, part) => this.segment(layer, page, part)))
  }

  /**
   * Saves pages under their keys, `pages[i]` under key i; the first publication of a key wins. The pages are the
   * runtime's until it settles, also when the signal cancels it. Found by queries when it resolves.
   * @throws RangeError, CapacityError, IoError, ProtocolError, CancelledError, ClosedError
   */
  async publish(
    keys: Keys,
    pages: ArrayLike<number>,
    options: TransferOptions & { readonly partialOk?: boolean } = {},
  ): Promise<PublishResult> {
    const items = { keys: joined(keys), pages: Uint32Array.from(pages) }
    return await this.session.publish(
      { partialOk: options.partialOk ?? false, groups: [{ group: 0, layers: null, items }] },
      options,
    )
  }

  /**
   * Finds how many of the keys, from the first on, can be restored, and keeps them. On the `dram` route it also waits
   * for their reads from SSD. @throws RangeError, ProtocolError, CapacityError, CancelledError, ClosedError
   */
  async query(keys: Keys, options: FindOptions = {}): Promise<Found> {
    const answer = await this.session.query(
      {
        requestId: ++this.#requests,
        revision: 0,
        allowSsd: options.allowSsd ?? true,
        groups: [{ group: 0, firstBlock: 0, keys: joined(keys) }],
      },
      options,
    )
    if (answer.kind !== 'ready') return { ...NOTHING, kind: answer.kind }
    const { lease, blocksDram, blocksSsd } = answer
    return {
      kind: 'hit',
      blocks: blocksDram + blocksSsd,
      blocksDram,
      blocksSsd,
      lease,
      release: async (released = {}) => {
        if (this.#closed === null) await this.session.release('lease', lease, released)
      },
    }
  }

  /**
   * Fills pages from what a query found, block i into `pages[i]`; fewer pages than blocks restore a shorter prefix. All
   * or nothing. The pages are the runtime's until it settles, also when the signal cancels it. Ends the lease.
   * @throws RangeError when there are more pages than blocks; CorruptionError, IoError, CapacityError, ProtocolError,
   * CancelledError, ClosedError: then no page holds anything to rely on.
   */
  async restore(found: Found, pages: ArrayLike<number>, options: TransferOptions = {}): Promise<OperationResult> {
    const { lease, blocks } = found
    if (lease === null || pages.length > blocks) {
      throw new RangeError(`Cannot restore ${pages.length} pages: the query found ${blocks} blocks`)
    }
    const pairs = Uint32Array.from({ length: 2 * pages.length }, (_, i) => (i % 2 === 0 ? i / 2 : (pages[i >> 1] ?? 0)))
    return await this.session.restore({ lease, groups: [{ group: 0, pairs }] }, options)
  }

  /** Leaves: waits for what owns pages, then gives the memory back. Idempotent; a signal ends the wait alone. */
  async close(options: WaitOptions = {}): Promise<void> {
    if (options.signal !== undefined && this.#closed === null) await this.session.close(options)
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    await this.session.close()
    await this.#host.release(this.#mapping)
    this.#host.left(this)
  }

  /** For the runtime: every lane has ended, nothing touches the pages any more. */
  lanesEnded(): void {
    this.#lanesEnded()
  }
}

const NOTHING = { blocks: 0, blocksDram: 0, blocksSsd: 0, lease: null, release: async () => {} } as const

/** @throws RangeError */
function joined(keys: Keys): Uint8Array {
  const bytes = keys instanceof Uint8Array ? keys : Buffer.concat(keys as Uint8Array[])
  if (bytes.length % KEY_BYTES === 0) return bytes
  throw new RangeError(`Cannot take ${bytes.length} bytes of keys: each has ${KEY_BYTES}`)
}

/** Registers an engine; what was acquired before a failure, or before the signal, is given back. */
export async function registerEngine(host: EngineHost, options: EngineOptions): Promise<Engine> {
  const layout = layoutOf(options)
  const { mapping, bytes } = await acquire(host, options.memory ?? 'native', layout.bytes)
  try {
    const session = await host.connect(options)
    try {
      await session.client.register(registration(options, layout, mapping), options)
      return new Engine(host, session, layout, bytes, mapping)
    } catch (error) {
      await session.client.close()
      throw error
    }
  } catch (error) {
    await host.release(mapping)
    throw error
  }
}

async function acquire(
  host: EngineHost,
  memory: Exclude<EngineOptions['memory'], undefined>,
  bytes: number,
): Promise<{ mapping: number; bytes: Uint8Array }> {
  if (memory === 'native') {
    const mapping = await host.allocate(bytes)
    return { mapping, bytes: host.native.mappingView(mapping, 0, bytes) }
  }
  if (typeof memory === 'object' && 'address' in memory) {
    if (memory.bytes < bytes) {
      throw new RangeError(`Cannot lay out ${bytes} bytes of pages in ${memory.bytes} bytes of device memory`)
    }
    return { mapping: await host.lendDevice(memory), bytes: new Uint8Array(0) }
  }
  const view = memory instanceof Uint8Array ? memory : new Uint8Array(memory)
  if (!(view.buffer instanceof SharedArrayBuffer)) {
    throw new TypeError('Cannot use memory that no other thread can reach: a SharedArrayBuffer is needed')
  }
  if (view.length < bytes) {
    throw new RangeError(`Cannot lay out ${bytes} bytes of pages in ${view.length} bytes of memory`)
  }
  const used = view.subarray(0, bytes)
  return { mapping: await host.lend(used), bytes: used }
}

function registration(options: EngineOptions, layout: EngineLayout, mapping: number) {
  const {
    model,
    namespace = {},
    blockTokens = 16,
    dtype = 'bfloat16',
    headDim = 0,
    heads = 0,
    rank,
    slots = 64,
    memory = 'native',
  } = options
  const device =
    typeof memory === 'object' && 'address' in memory
      ? ({ kind: 'cuda', uuid: uuidBytes(memory.device) } as const)
      : ({ kind: 'host', uuid: new Uint8Array(16) } as const)
  const inputs = Object.entries({ ...namespace, model }).map(
    ([tag, value]) => [tag, typeof value === 'string' ? Buffer.from(value) : value] as const,
  )
  return {
    instanceId: rank?.instance ?? randomBytes(16),
    namespaceInputs: new Map<string, Uint8Array>(inputs),
    tpRank: rank?.tpRank ?? 0,
    tpSize: rank?.tpSize ?? 1,
    ppRank: 0,
    ppSize: 1,
    worldSize: rank?.tpSize ?? 1,
    pageFirst: layout.layout === 'page-first',
    device,
    groups: [{ id: 0, kind: 'full-attention', blockTokens, window: 0 }],
    regions: regionsOf(layout, { dtype, headDim, heads }),
    memory: [{ mapping, bytes: layout.bytes }],
    slotCount: slots,
  } as const
}
