import { keyAt, keysNamed, spread, TestEngine } from './engine.js'
import { EngineChild } from './engine-child.js'
import {
  BATCHES,
  FALLBACKS,
  type GateBed,
  onSsd,
  otherPages,
  publishEach,
  READS,
  reaches,
  ready,
  restoreApart,
  SHAPE,
  STAGING_BYTES,
  startHeld,
  WRITES,
} from './gate-bed.js'
import { eventually } from './manager-child.js'
import type { Body } from './needs.js'

/** What the slots of a worker do while something is held, cancelled, left, short or killed. See cufile-gates.ts. */
export function declareSlotGates(declare: (title: string, body: Body) => void, bed: GateBed): void {
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
}
