import type { ExecutionContext } from 'ava'
import type { Between } from './between.js'
import { keyAt, keysNamed, type Ready, spread, TestEngine } from './engine.js'
import type { GateManager } from './gate-manager.js'
import { eventually } from './manager-child.js'

/** What gates of the cuFile route are made on: a Manager that can be held back, engines, and blocks that only the SSD has. */

export interface GateBed {
  /** What the titles begin with. */
  readonly name: string
  /** How long a gate may go without a word, ms: no bound of the product, but what tells a hang. */
  readonly patienceMs: number
  /** UUID of the device that pages lie on. */
  device(): string
  /** `between`: what stands between this Manager and its libraries. `shards`: files of the SSD tier, in one folder. */
  start(t: ExecutionContext, flags?: readonly string[], between?: Between): Promise<GateManager>
  between(t: ExecutionContext): Between
  /** Flags of an SSD tier of `count` files. */
  shards(t: ExecutionContext, count: number, capacity: string): readonly string[]
}

export const KIB = 1024
/** One block is one extent of 64 KiB. */
export const BLOCK_BYTES = 64 * KIB
export const SHAPE = { layout: 'packed', layers: 1, segmentBytes: BLOCK_BYTES / 2, pages: 32, slotCount: 16 } as const

export const READS = 'orbitkv_ssd_cufile_reads_total'
export const READ_BYTES = 'orbitkv_ssd_cufile_read_bytes_total'
export const WRITES = 'orbitkv_ssd_cufile_writes_total'
export const WRITE_BYTES = 'orbitkv_ssd_cufile_write_bytes_total'
export const BATCHES = 'orbitkv_ssd_cufile_inflight_batches'
export const STAGING_BYTES = 'orbitkv_ssd_gpu_staging_bytes'
export const PINNED_BYTES = 'orbitkv_ssd_read_pinned_bytes'
export const FALLBACKS = 'orbitkv_ssd_backend_fallbacks_total'

export async function engineOf(bed: GateBed, { manager }: GateManager, salt: string): Promise<TestEngine> {
  return await TestEngine.start(manager.socketPath, { ...SHAPE, salt, device: bed.device() })
}

export async function ready(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

/** Everything has been used once before anything is held: a first use may wait for the whole device. */
export async function warm(engine: TestEngine): Promise<void> {
  const keys = keysNamed('warm', 1)
  const { lease } = await onSsd(engine, keys)
  if ((await engine.restore(keys, lease)) !== 0) throw new Error('wrong bytes')
}

/** Publishes blocks, so that only the SSD has them, and leases them. */
export async function onSsd(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  await engine.publish(keys)
  await engine.toSsd()
  return await ready(engine, keys)
}

export interface HeldRun {
  readonly between: Between
  readonly run: GateManager
  readonly engine: TestEngine
}

/** A Manager that can be held back, and an engine that has used it. */
export async function startHeld(bed: GateBed, t: ExecutionContext, flags: readonly string[] = []): Promise<HeldRun> {
  const between = bed.between(t)
  const run = await bed.start(t, flags, between)
  const engine = await engineOf(bed, run, t.title)
  await warm(engine)
  return { between, run, engine }
}

/** Every other key of a list. */
export function alternate(keys: Uint8Array, first: number): Buffer {
  const count = keys.length / 32
  return Buffer.concat(Array.from({ length: Math.ceil((count - first) / 2) }, (_, i) => keyAt(keys, first + 2 * i)))
}

/** Blocks of a list that can be found, each asked for by itself. */
export async function findable(engine: TestEngine, keys: Uint8Array): Promise<number> {
  let count = 0
  for (let i = 0; i < keys.length / 32; i++) count += await engine.hits(keyAt(keys, i))
  return count
}

/**
 * Until a metric has a value: what makes it so is held, so that it stays. Counters and gauges of lanes are never old;
 * gauges of the manager may be, by some milliseconds.
 */
export async function reaches({ manager }: GateManager, name: string, value: number): Promise<void> {
  let seen = -1
  await eventually(
    `${name} is ${value}`,
    async () => {
      seen = await manager.metric(name)
      return seen === value
    },
    undefined,
    () => `but ${seen}`,
  )
}

export interface Restoring {
  readonly pages: readonly number[]
  readonly ended: Promise<string>
  settled(): boolean
}

/** Starts the restore of blocks 0, 2 and 4 of a lease: three reads, for nobody wants what lies between. */
export function restoreApart(engine: TestEngine, lease: number, signal?: AbortSignal): Restoring {
  const pages = spread(3, SHAPE.pages)
  engine.rank.poison(pages)
  engine.rank.memory.flush()
  const pairs = Uint32Array.from(pages.flatMap((page, i) => [2 * i, page]))
  let settled = false
  const request = { lease, groups: [{ group: 0, pairs }] }
  const ended = engine.rank.client
    .restore(request, { signal })
    .then(
      () => 'ok',
      (error: { code?: string }) => error.code ?? String(error),
    )
    .finally(() => {
      settled = true
    })
  return { pages, ended, settled: () => settled }
}

/** Pages that no restore of `restoreApart` uses. */
export function otherPages(): number[] {
  const taken = spread(3, SHAPE.pages)
  return Array.from({ length: SHAPE.pages }, (_, page) => page).filter((page) => !taken.includes(page))
}

/** Publishes single blocks from pages of their own at once; says how many publications have ended. */
export function publishEach(engine: TestEngine, blocks: readonly Uint8Array[], pages: readonly number[]) {
  const { rank } = engine
  for (const [at, keys] of blocks.entries()) rank.compute(keys, pages[at] as number)
  rank.memory.flush()
  const ended = { count: 0 }
  const all = blocks.map(async (keys, at) => {
    const items = { keys, pages: Uint32Array.of(pages[at] as number) }
    await rank.client.publish({ groups: [{ group: 0, layers: null, items }] })
    ended.count += 1
  })
  return { ended, all: Promise.all(all) }
}
