import type { ExecutionContext } from 'ava'
import type { Between } from './between.js'
import { BLOCK_TOKENS, keyAt, keysNamed, type Ready, spread, TestEngine } from './engine.js'
import { EngineChild } from './engine-child.js'
import type { GateManager } from './gate-manager.js'
import { eventually } from './manager-child.js'
import type { Body } from './needs.js'

/**
 * What the cuFile route must do, seen from outside: by the bytes that come back, by its counters, and by what is still
 * owned. Declared over stand-ins of the libraries (test/process) and over the real ones (test/device), where cuFile is in
 * compatibility mode: correctness evidence, nothing of native GDS.
 */

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

const KIB = 1024
/** One block is one extent of 64 KiB. */
const BLOCK_BYTES = 64 * KIB
const SHAPE = { layout: 'packed', layers: 1, segmentBytes: BLOCK_BYTES / 2, pages: 32, slotCount: 16 } as const

const READS = 'orbitkv_ssd_cufile_reads_total'
const READ_BYTES = 'orbitkv_ssd_cufile_read_bytes_total'
const WRITES = 'orbitkv_ssd_cufile_writes_total'
const WRITE_BYTES = 'orbitkv_ssd_cufile_write_bytes_total'
const BATCHES = 'orbitkv_ssd_cufile_inflight_batches'
const STAGING_BYTES = 'orbitkv_ssd_gpu_staging_bytes'
const PINNED_BYTES = 'orbitkv_ssd_read_pinned_bytes'
const FALLBACKS = 'orbitkv_ssd_backend_fallbacks_total'

async function engineOf(bed: GateBed, { manager }: GateManager, salt: string): Promise<TestEngine> {
  return await TestEngine.start(manager.socketPath, { ...SHAPE, salt, device: bed.device() })
}

async function ready(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

/** Everything has been used once before anything is held: a first use may wait for the whole device. */
async function warm(engine: TestEngine): Promise<void> {
  const keys = keysNamed('warm', 1)
  const { lease } = await onSsd(engine, keys)
  if ((await engine.restore(keys, lease)) !== 0) throw new Error('wrong bytes')
}

/** Publishes blocks, so that only the SSD has them, and leases them. */
async function onSsd(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  await engine.publish(keys)
  await engine.toSsd()
  return await ready(engine, keys)
}

interface HeldRun {
  readonly between: Between
  readonly run: GateManager
  readonly engine: TestEngine
}

/** A Manager that can be held back, and an engine that has used it. */
async function startHeld(bed: GateBed, t: ExecutionContext, flags: readonly string[] = []): Promise<HeldRun> {
  const between = bed.between(t)
  const run = await bed.start(t, flags, between)
  const engine = await engineOf(bed, run, t.title)
  await warm(engine)
  return { between, run, engine }
}

/** Every other key of a list. */
function alternate(keys: Uint8Array, first: number): Buffer {
  const count = keys.length / 32
  return Buffer.concat(Array.from({ length: Math.ceil((count - first) / 2) }, (_, i) => keyAt(keys, first + 2 * i)))
}

/** Blocks of a list that can be found, each asked for by itself. */
async function findable(engine: TestEngine, keys: Uint8Array): Promise<number> {
  let count = 0
  for (let i = 0; i < keys.length / 32; i++) count += await engine.hits(keyAt(keys, i))
  return count
}

/**
 * Until a metric has a value: what makes it so is held, so that it stays. Counters and gauges of lanes are never old;
 * gauges of the manager may be, by some milliseconds.
 */
async function reaches({ manager }: GateManager, name: string, value: number): Promise<void> {
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

interface Restoring {
  readonly pages: readonly number[]
  readonly ended: Promise<string>
  settled(): boolean
}

/** Starts the restore of blocks 0, 2 and 4 of a lease: three reads, for nobody wants what lies between. */
function restoreApart(engine: TestEngine, lease: number, signal?: AbortSignal): Restoring {
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
function otherPages(): number[] {
  const taken = spread(3, SHAPE.pages)
  return Array.from({ length: SHAPE.pages }, (_, page) => page).filter((page) => !taken.includes(page))
}

/** Publishes single blocks from pages of their own at once; says how many publications have ended. */
function publishEach(engine: TestEngine, blocks: readonly Uint8Array[], pages: readonly number[]) {
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

/** Declares every gate over a bed. */
export function declareCufileGates(declareAs: (title: string, body: Body) => void, bed: GateBed): void {
  const declare = (title: string, body: Body) => {
    declareAs(`${bed.name}: ${title}`, async (t) => {
      t.timeout(bed.patienceMs)
      await body(t)
    })
  }

  // What one read is

  declare('four adjacent pages of 64 KiB are one read of 256 KiB', async (t) => {
    const run = await bed.start(t)
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    t.is(await run.risen(WRITE_BYTES), 4 * BLOCK_BYTES, 'written from the device')
    t.deepEqual([await run.risen(READS), await run.risen(READ_BYTES)], [0, 0])
    t.is(await engine.restore(keys, lease), 0)
    t.deepEqual([await run.risen(READS), await run.risen(READ_BYTES)], [1, 4 * BLOCK_BYTES])
    await engine.stop()
    await run.ends()
  })

  declare('pages of two files are two reads, and none of what lies between', async (t) => {
    const run = await bed.start(t, bed.shards(t, 2, '64mb'))
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    await Promise.all([run.risen(READS), run.risen(READ_BYTES)])
    t.is(await engine.restore(keys, lease), 0)
    t.deepEqual([await run.risen(READS), await run.risen(READ_BYTES)], [2, 4 * BLOCK_BYTES])
    await engine.stop()
    await run.ends()
  })

  declare('alternating pages are 128 KiB in two reads, without the gap', async (t) => {
    const run = await bed.start(t)
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    await Promise.all([run.risen(READS), run.risen(READ_BYTES)])
    const pages = spread(2, SHAPE.pages)
    engine.rank.poison(pages)
    engine.rank.memory.flush()
    const pairs = Uint32Array.of(0, pages[0] as number, 2, pages[1] as number)
    await engine.rank.client.restore({ lease, groups: [{ group: 0, pairs }] })
    t.deepEqual([await run.risen(READS), await run.risen(READ_BYTES)], [2, 2 * BLOCK_BYTES])
    engine.rank.memory.fetch()
    t.is(engine.rank.wrongSegments(keyAt(keys, 0), pages[0] as number), 0)
    t.is(engine.rank.wrongSegments(keyAt(keys, 2), pages[1] as number), 0)
    t.true(engine.rank.guardsIntact(pages))
    await engine.stop()
    await run.ends()
  })

  declare('a restore reads what only the SSD has, and copies the rest from DRAM on the same worker', async (t) => {
    const run = await bed.start(t)
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 6)
    await engine.publish(keys.subarray(0, 3 * 32))
    await engine.toSsd()
    await engine.publish(keys.subarray(3 * 32))
    const { lease, blocksSsd } = await ready(engine, keys)
    t.is(blocksSsd, 3)
    await run.risen(READ_BYTES)
    t.is(await engine.restore(keys, lease), 0)
    t.is(await run.risen(READ_BYTES), 3 * BLOCK_BYTES)
    t.is(await run.manager.metric('orbitkv_ssd_cufile_restores_total'), 1, 'by one lane')
    await engine.stop()
    await run.ends()
  })

  // Who holds what

  declare('a ring that goes round leaves the extents of a held restore, whose bytes are exact', async (t) => {
    const { between, run, engine } = await startHeld(bed, t, ['--ssd-cache-capacity', '1mb'])
    const other = await engineOf(bed, run, `${t.title}, another`)
    await warm(other)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    between.tell('read', 'hold')
    const restore = engine.restore(keys, lease)
    restore.catch(() => {})
    await reaches(run, BATCHES, 1)
    // Sixteen blocks fit: twice as many go over every extent that nobody holds.
    for (let round = 0; round < 8; round++) await other.publish(keysNamed(`${t.title} ${round}`, 4))
    await other.rank.client.sync(true)
    await reaches(run, PINNED_BYTES, 4 * BLOCK_BYTES)
    const skips = async () => await run.manager.metric('orbitkv_ssd_pinned_write_skips_total')
    await eventually('the ring went around them', async () => (await skips()) > 0)
    between.letGo('read')
    t.is(await restore, 0)
    await reaches(run, PINNED_BYTES, 0)
    await engine.stop()
    await other.stop()
    await run.ends()
  })

  declare('a shard whose every extent is leased stops no write: the other shard takes them all', async (t) => {
    const run = await bed.start(t, bed.shards(t, 2, '2mb'))
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 32)
    for (let at = 0; at < 32; at += 8) await engine.publish(keys.subarray(32 * at, 32 * (at + 8)))
    await engine.toSsd()
    t.is(await findable(engine, keys), 32, 'sixteen blocks fill a shard')
    const pinned = alternate(keys, 0)
    const { lease, boundaries } = await ready(engine, pinned)
    t.is(boundaries[0], 16 * BLOCK_TOKENS)
    const more = keysNamed(`${t.title} more`, 12)
    await engine.publish(more)
    await engine.toSsd()
    t.is(await findable(engine, more), 12)
    t.is(await findable(engine, alternate(keys, 1)), 4, 'they went over what the other shard had')
    t.is(await engine.restore(pinned, lease), 0)
    await engine.stop()
    await run.ends()
  })

  // Slots

  declare('while a write is held reads go on, its publication does not end, the ninth goes by DRAM', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const old = keysNamed(`${t.title} old`, 6)
    const { lease } = await onSsd(engine, old)
    const names = Array.from({ length: 10 }, (_, at) => keysNamed(`${t.title} ${at}`, 1))
    between.tell('write', 'hold')
    const published = publishEach(engine, names, otherPages())
    const fallbacks = 'orbitkv_ssd_gpu_write_fallbacks_total'
    await eventually('eight have permits', async () => (await run.manager.metric(fallbacks)) === 2)
    await eventually('what went by DRAM has ended', () => published.ended.count === 2)
    // Another lane copied those: this one may still be about to begin.
    await reaches(run, 'orbitkv_ssd_cufile_inflight_writes', 1)
    await run.risen(READS)
    // Into pages that no held write reads; the others stay as they are.
    const pages = spread(3, SHAPE.pages)
    const pairs = Uint32Array.from(pages.flatMap((page, i) => [2 * i, page]))
    await engine.rank.client.restore({ lease, groups: [{ group: 0, pairs }] })
    engine.rank.memory.fetch()
    const wrong = pages.map((page, i) => engine.rank.wrongSegments(keyAt(old, 2 * i), page))
    t.deepEqual(wrong, [0, 0, 0], 'a read passes the held write')
    t.is(await run.risen(READS), 3)
    t.is(published.ended.count, 2, 'pages of a held write are in use')
    between.letGo('write')
    await published.all
    await engine.toSsd()
    for (const keys of names) t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0)
    await engine.stop()
    await run.ends()
  })

  declare('cancel with both slots busy: both end first, nothing else starts, no page is touched', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const { lease } = await onSsd(engine, keysNamed(t.title, 6))
    await run.risen(READS)
    between.tell('read', 'hold')
    const cancel = new AbortController()
    const restoring = restoreApart(engine, lease, cancel.signal)
    await reaches(run, BATCHES, 2)
    cancel.abort()
    // What follows the cancel to the lane is findable: so the cancel has come there, too.
    const follows = keysNamed(`${t.title} follows`, 1)
    const published = publishEach(engine, [follows], otherPages())
    await eventually('its copy to DRAM has ended', async () => (await engine.hits(follows)) === 1)
    t.false(restoring.settled(), 'its pages are in use')
    t.is(await run.manager.metric(BATCHES), 2)
    between.letGo('read')
    t.is(await restoring.ended, 'cancelled')
    await published.all
    t.is(await run.risen(READS), 2, 'the third was never submitted')
    engine.rank.memory.fetch()
    t.is(engine.rank.touched(restoring.pages), 0)
    await engine.stop()
    await run.ends()
  })

  declare('unregister with both slots busy waits for them, and staging goes with the last', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const { lease } = await onSsd(engine, keysNamed(t.title, 6))
    between.tell('read', 'hold')
    const restoring = restoreApart(engine, lease)
    await reaches(run, BATCHES, 2)
    let left = false
    const leaving = engine.rank.client.unregister().then(() => {
      left = true
    })
    // The scheduler is told that its instance goes, after the Manager has begun to take it apart.
    await eventually('nothing is found any more', async () => {
      return await engine.find(keysNamed(t.title, 6)).then(
        (found) => found.kind !== 'ready',
        () => true,
      )
    })
    t.deepEqual([left, restoring.settled()], [false, false])
    t.is(await run.manager.metric(BATCHES), 2)
    t.true((await run.manager.metric(STAGING_BYTES)) > 0)
    between.letGo('read')
    await leaving
    t.true(restoring.settled(), 'the restore has ended before its memory was given back')
    t.is(await run.manager.metric(STAGING_BYTES), 0)
    await engine.stop()
    await run.ends()
  })

  declare('a held host copy holds its own publication alone: writes and reads go on', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const old = keysNamed(`${t.title} old`, 6)
    const { lease } = await onSsd(engine, old)
    const writes = await run.manager.metric(WRITES)
    const keys = keysNamed(t.title, 1)
    between.tell('copy', 'hold')
    const published = publishEach(engine, [keys], otherPages())
    await reaches(run, WRITES, writes + 1)
    t.is(await run.manager.metric('orbitkv_ssd_cufile_inflight_copies'), 1)
    t.is(await engine.hits(keys), 0, 'what is not whole in DRAM is not found')
    const restoring = restoreApart(engine, lease)
    t.is(await restoring.ended, 'ok')
    engine.rank.memory.fetch()
    const wrong = restoring.pages.map((page, i) => engine.rank.wrongSegments(keyAt(old, 2 * i), page))
    t.deepEqual(wrong, [0, 0, 0])
    t.is(published.ended.count, 0, 'its pages are in use')
    between.letGo('copy')
    await published.all
    t.is(await engine.hits(keys), 1)
    await engine.stop()
    await run.ends()
  })

  // What fails

  declare('a short read fails its restore alone: the next has every byte, the route stays', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    between.tell('read', 'short')
    await t.throwsAsync(engine.restore(keys, lease), { code: 'io_short' } as object)
    between.letGo('read')
    engine.rank.memory.fetch()
    t.is(engine.rank.touched(spread(4, SHAPE.pages)), 0, 'nothing of it reached a page')
    t.is(await run.manager.metric('orbitkv_ssd_cufile_read_failures_total'), 1)
    t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0)
    t.is(await run.manager.metric(FALLBACKS), 0, 'an explicit route never switches')
    await engine.stop()
    await run.ends()
  })

  declare('a short write is saved in DRAM, never found on SSD, and can be published again', async (t) => {
    const { between, run, engine } = await startHeld(bed, t)
    const keys = keysNamed(t.title, 2)
    between.tell('write', 'short')
    await engine.publish(keys)
    between.letGo('write')
    t.is(await engine.hits(keys), 2)
    await engine.scheduler.dropDram()
    t.is(await engine.hits(keys), 0)
    t.true((await run.manager.metric('orbitkv_ssd_cufile_write_failures_total')) >= 1)
    const { lease } = await onSsd(engine, keys)
    t.is(await engine.restore(keys, lease), 0)
    await engine.stop()
    await run.ends()
  })

  declare('an engine killed with both slots busy: its memory is kept until they have ended', async (t) => {
    const between = bed.between(t)
    const run = await bed.start(t, [], between)
    const shape = { ...SHAPE, device: bed.device() }
    const doomed = await EngineChild.start(t, run.manager.socketPath, shape)
    t.is(await doomed.ask('publish', 'kept', 6), 6)
    t.is(await doomed.ask('to-ssd', '', 0), 0)
    t.is(await doomed.ask('restore', 'kept', 6), 0)
    between.tell('read', 'hold')
    await doomed.ask('restore-apart', 'kept', 6)
    await reaches(run, BATCHES, 2)
    await doomed.kill()
    // Its scheduler is gone; the session that owns the memory is not.
    await reaches(run, 'orbitkv_sessions', 1)
    await reaches(run, 'orbitkv_operations_open', 1)
    t.is(await run.manager.metric(BATCHES), 2)
    t.true((await run.manager.metric(STAGING_BYTES)) > 0)
    between.letGo('read')
    await reaches(run, 'orbitkv_sessions', 0)
    await reaches(run, STAGING_BYTES, 0)
    const next = await TestEngine.start(run.manager.socketPath, shape)
    const keys = keysNamed('kept', 6)
    t.is(await next.restore(keys, (await ready(next, keys)).lease), 0)
    await next.stop()
    await run.ends()
  })

  // Who writes

  declare('a group of two publications is sealed by DRAM, written by io_uring, restored by cuFile', async (t) => {
    const run = await bed.start(t)
    const shape = { layers: 4, segmentBytes: 16 * KIB, salt: t.title, device: bed.device() }
    const engine = await TestEngine.start(run.manager.socketPath, shape)
    const keys = keysNamed(t.title, 6)
    await engine.publishLayers(engine.rank, keys, [0, 1])
    t.is(await engine.hits(keys), 0, 'half a group is not findable')
    await engine.publishLayers(engine.rank, keys, [2, 3])
    await engine.toSsd()
    const { lease } = await ready(engine, keys)
    t.is(await run.manager.metric(WRITE_BYTES), 0, 'fragments are written by io_uring')
    t.is(await engine.restore(keys, lease), 0)
    t.true((await run.risen(READ_BYTES)) >= engine.blockBytes * 6)
    await engine.stop()
    await run.ends()
  })

  declare('--ssd-read-path uring reads by io_uring and still writes by cuFile', async (t) => {
    const run = await bed.start(t, ['--ssd-read-path', 'uring'])
    const engine = await engineOf(bed, run, t.title)
    const keys = keysNamed(t.title, 4)
    const { lease } = await onSsd(engine, keys)
    t.is(await engine.restore(keys, lease), 0)
    t.is(await run.manager.metric(READ_BYTES), 0)
    t.true((await run.manager.metric(WRITE_BYTES)) >= 4 * BLOCK_BYTES)
    t.true((await run.manager.metric('orbitkv_ssd_restore_read_bytes_total')) >= 4 * BLOCK_BYTES)
    await engine.stop()
    await run.ends()
  })
}
