import { declareSlotGates } from './cufile-slot-gates.js'
import { BLOCK_TOKENS, keyAt, keysNamed, spread, TestEngine } from './engine.js'
import {
  alternate,
  BATCHES,
  BLOCK_BYTES,
  engineOf,
  findable,
  type GateBed,
  KIB,
  onSsd,
  PINNED_BYTES,
  READ_BYTES,
  READS,
  reaches,
  ready,
  SHAPE,
  startHeld,
  WRITE_BYTES,
  warm,
} from './gate-bed.js'
import { eventually } from './manager-child.js'
import type { Body } from './needs.js'

/**
 * What the cuFile route must do, seen from outside: by the bytes that come back, by its counters, and by what is still
 * owned. Declared over stand-ins of the libraries (test/process) and over the real ones (test/device), where cuFile is in
 * compatibility mode: correctness evidence, nothing of native GDS.
 */

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

  declareSlotGates(declare, bed)
}
