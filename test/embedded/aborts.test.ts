import test, { type ExecutionContext } from 'ava'
import { CancelledError, OrbitKV } from '../../src/index.js'
import { MIB } from '../../src/shared/base/units.js'
import { compute, keysOf, SMALL, saveToSsd, wrongBlocks } from '../support/engine-content.js'
import { HOST_IO } from '../support/host-io.js'
import { open, testWithSsd, until } from '../support/runtime-bed.js'

const pages = Array.from({ length: SMALL.pages }, (_, page) => page)
const aborted = AbortSignal.abort(new Error('no longer wanted'))

/** The call ends by the signal, and carries its reason. */
async function endsBySignal(t: ExecutionContext, call: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  const error = await t.throwsAsync(call(aborted), { instanceOf: CancelledError })
  t.is((error?.cause as Error | undefined)?.message, 'no longer wanted')
}

/** The same, with a signal that comes after the call has begun, `turns` turns of the event loop later. */
async function settlesAfter(turns: number, call: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
  const controller = new AbortController()
  const ended = call(controller.signal).then(
    () => null,
    (error: unknown) => error,
  )
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
  controller.abort(new Error('too late'))
  return await ended
}

test.serial('OrbitKV.open: a signal before or during the start leaves nothing open', async (t) => {
  const options = { poolBytes: 16 * MIB, io: HOST_IO }
  await endsBySignal(t, (signal) => OrbitKV.open({ ...options, signal }))
  // One turn: lanes and greeting answer in later ones, however long each takes.
  const ended = await settlesAfter(1, (signal) => OrbitKV.open({ ...options, signal }))
  t.true(ended instanceof CancelledError)
})

testWithSsd(
  'OrbitKV: a signal ends register, sync, stats, dropDram and close, and nothing is left of them',
  async (t) => {
    const kv = await open(t)
    await endsBySignal(t, (signal) => kv.register({ ...SMALL, signal }))
    await endsBySignal(t, (signal) => kv.sync({ signal }))
    await endsBySignal(t, (signal) => kv.stats({ signal }))
    await endsBySignal(t, (signal) => kv.dropDram({ signal }))
    for (let turns = 0; turns < 12; turns++) {
      const ended = await settlesAfter(turns, async (signal) => (await kv.register({ ...SMALL, signal })).close())
      t.true(ended === null || ended instanceof CancelledError, String(ended))
    }
    await until(t, async () => (await kv.stats())['sessions'] === 1)
    await endsBySignal(t, (signal) => kv.close({ signal }))
    t.deepEqual(await kv.close(), { unfinished: 0, leaks: {} })
  },
)

testWithSsd('Engine: a signal ends a query at any moment, and what it was granted goes back', async (t) => {
  const kv = await open(t)
  const engine = await kv.register(SMALL)
  const keys = keysOf('abort query', SMALL.pages)
  await saveToSsd(kv, engine, keys)
  await endsBySignal(t, (signal) => engine.query(keys, { signal }))
  for (let turns = 0; turns < 12; turns++) {
    const ended = await settlesAfter(turns, async (signal) => (await engine.query(keys, { signal })).release())
    t.true(ended === null || ended instanceof CancelledError, String(ended))
  }
  await until(t, async () => {
    const { leases, queriesOpen, queryReservedBytes } = await kv.stats()
    return leases === 0 && queriesOpen === 0 && queryReservedBytes === 0
  })
})

for (const readRoute of ['dram', 'uring'] as const) {
  testWithSsd(`Engine: a signal cancels a restore by route ${readRoute} that waits or runs`, async (t) => {
    const kv = await open(t, { readRoute })
    const engine = await kv.register({ ...SMALL, memory: new SharedArrayBuffer(2 * 2 * 16 * 4096) })
    const keys = keysOf('abort restore', SMALL.pages)
    await saveToSsd(kv, engine, keys)
    const found = await engine.query(keys)
    await endsBySignal(t, (signal) => engine.restore(found, pages, { signal }))
    const fenced = await settlesAfter(20, (signal) =>
      engine.restore(found, pages, { signal, after: new Promise(() => {}) }),
    )
    t.true(fenced instanceof CancelledError)
    t.true(
      engine.bytes.every((byte) => byte === 0xa5),
      'a restore that never passed its fence wrote nothing',
    )
    for (let turns = 0; turns < 12; turns++) {
      const next = await engine.query(keys)
      const ended = await settlesAfter(turns, (signal) => engine.restore(next, pages, { signal }))
      if (ended === null) t.deepEqual(wrongBlocks(engine, pages), [])
      else t.true(ended instanceof CancelledError, String(ended))
      await next.release().catch(() => {})
    }
    await until(t, async () => {
      const { operationsOpen, jobsOpen, leases } = await kv.stats()
      return operationsOpen === 0 && jobsOpen === 0 && leases === 0
    })
    t.deepEqual((await kv.close()).leaks, {})
  })
}

test.serial('Engine: a signal cancels a publication that waits, and its keys may be published again', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register(SMALL)
  compute(engine, pages)
  const keys = keysOf('abort publish', SMALL.pages)
  await endsBySignal(t, (signal) => engine.publish(keys, pages, { signal }))
  const fenced = await settlesAfter(20, (signal) =>
    engine.publish(keys, pages, { signal, after: new Promise(() => {}) }),
  )
  t.true(fenced instanceof CancelledError)
  t.is((await engine.query(keys)).kind, 'miss')
  const { accepted } = await engine.publish(keys, pages)
  t.is(accepted, SMALL.pages)
})

test.serial('Engine: a signal ends the wait of close(), not the closing', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register(SMALL)
  compute(engine, pages)
  const keys = keysOf('abort close', 1)
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const publishing = engine.publish(keys, [0], { after: gate })
  publishing.catch(() => {})
  // Asked for, and not answered before a turn of the event loop: unregistering cancels what waits for its fence.
  const ended = await settlesAfter(0, (signal) => engine.close({ signal }))
  t.true(ended instanceof CancelledError)
  go()
  await engine.close()
  await until(t, async () => (await kv.stats())['sessions'] === 1)
})
