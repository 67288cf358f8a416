import { join } from 'node:path'
import test from 'ava'
import { Runtime } from '../../src/embedded/runtime.js'
import { CancelledError, ClosedError, ConfigError, OrbitKV } from '../../src/index.js'
import { MIB } from '../../src/shared/base/units.js'
import { runChild } from '../support/embedded-process.js'
import { compute, keysOf, killLane, metricOf, SMALL, saveToSsd, wrongBlocks } from '../support/engine-content.js'
import { folderOf } from '../support/folder.js'
import { HOST_IO } from '../support/host-io.js'
import { open, optionsOf, testWithSsd, until } from '../support/runtime-bed.js'

const pages = Array.from({ length: SMALL.pages }, (_, page) => page)
const never = new Promise<never>(() => {})

testWithSsd('OrbitKV: lives one after another leave no descriptor, thread, mapping, timer or listener', async (t) => {
  const { code, lines, stderr } = await runChild('cycles', folderOf(t), '4')
  t.deepEqual([code, stderr], [0, ''])
  const { before, after } = lines[0] as Record<'before' | 'after', Record<string, number>>
  for (const what of ['fds', 'threads', 'exitListeners']) {
    t.true((after[what] as number) <= (before[what] as number), `${what}: ${before[what]}, then ${after[what]}`)
  }
  t.like(after, { mappings: 0, timers: [] as never })
})

testWithSsd('OrbitKV: process.exit amid restores ends the process as it was asked to', async (t) => {
  const { code, signal, lines, stderr } = await runChild('exit', folderOf(t))
  t.deepEqual({ code, signal, lines, stderr }, { code: 7, signal: null, lines: [{ restoring: 8 }], stderr: '' })
})

test.serial('OrbitKV: when a lane dies and nobody said what then, the process ends with a report', async (t) => {
  const { code, signal, stderr } = await runChild('death', folderOf(t))
  t.deepEqual([code, signal], [1, null])
  t.regex(stderr, /The runtime has ended: its lane dram-worker died/)
})

testWithSsd('OrbitKV: two runtimes in one process have nothing in common', async (t) => {
  const [one, two] = await Promise.all([open(t), open(t, { readRoute: 'uring' })])
  t.not(one.health().epoch, two.health().epoch)
  const keys = keysOf('shared name', SMALL.pages)
  const [a, b] = await Promise.all([one.register(SMALL), two.register(SMALL)])
  await saveToSsd(one, a, keys)
  t.is((await b.query(keys)).kind, 'miss')
  await saveToSsd(two, b, keys)
  await one.close()
  await b.restore(await b.query(keys), pages)
  t.deepEqual(wrongBlocks(b, pages), [])
})

testWithSsd('OrbitKV: the files of one runtime are refused to another', async (t) => {
  const options = optionsOf(t)
  const kv = await OrbitKV.open(options)
  t.teardown(() => kv.close().then(() => {}))
  const error = await t.throwsAsync(OrbitKV.open(options), { instanceOf: ConfigError })
  t.is(error?.code, 'already_running')
  await kv.close()
  const next = await OrbitKV.open(options)
  await next.close()
})

test.serial('OrbitKV: options that cannot work are refused with the rule', async (t) => {
  const refused = async (options: Parameters<typeof OrbitKV.open>[0]) =>
    (await t.throwsAsync(OrbitKV.open(options), { instanceOf: ConfigError }))?.code
  t.is(await refused({ poolBytes: 16 * MIB, readRoute: 'uring' }), 'config_conflict')
  t.is(await refused({ poolBytes: 16 * MIB, queryBudgetBytes: 17 * MIB }), 'config_conflict')
  const ssd = { paths: [join(folderOf(t), 'kv.dat')], capacityBytes: 1000 }
  t.is(await refused({ poolBytes: 16 * MIB, ssd }), 'config_bad_value')
  // A route that is named is had or refused: cuFile would take these reads.
  for (const ssdBackend of ['auto', 'cufile'] as const) {
    t.is(await refused({ poolBytes: 16 * MIB, ssd, ssdBackend, readRoute: 'dram' }), 'config_conflict')
  }
})

testWithSsd(
  'OrbitKV: close() lets restores end, cancels what cannot within its limit, then refuses what is new',
  async (t) => {
    const kv = await open(t, { readRoute: 'uring' })
    const engine = await kv.register(SMALL)
    const keys = keysOf('closing', SMALL.pages)
    await saveToSsd(kv, engine, keys)
    const found = await engine.query(keys)
    const fenced = engine.restore(found, pages, { after: never })
    await until(t, async () => (await kv.stats())['operationsOpen'] === 1)
    const cancelled = t.throwsAsync(fenced, { instanceOf: CancelledError })
    const { unfinished, leaks } = await kv.close({ limitMs: 100 })
    t.deepEqual([unfinished, leaks], [1, {}])
    await cancelled
    for (const call of [() => kv.register(SMALL), () => kv.sync(), () => kv.stats(), () => kv.dropDram()]) {
      t.is((await t.throwsAsync(call, { instanceOf: ClosedError }))?.code, 'draining')
    }
    t.throws(() => kv.facade(), { instanceOf: ClosedError })
    await t.throwsAsync(engine.query(keys), { instanceOf: ClosedError })
    t.deepEqual(await kv.close(), { unfinished, leaks }, 'closing again tells the same')
    await engine.close()
    t.regex(await kv.metrics(), /orbitkv_build_info/)
  },
)

test.serial(
  'Runtime: a manager that does not drain within the limit is ended, and close() tells what it left',
  async (t) => {
    const runtime = await Runtime.open({ poolBytes: 16 * MIB, io: HOST_IO, onDeath: () => t.fail() })
    const kv = Reflect.construct(OrbitKV, [runtime]) as OrbitKV
    const engine = await kv.register(SMALL)
    compute(engine, pages)
    await engine.publish(keysOf('stuck', SMALL.pages), pages)
    const fenced = engine.restore(await engine.query(keysOf('stuck', SMALL.pages)), pages, { after: never })
    const lost = t.throwsAsync(fenced, { instanceOf: ClosedError })
    await until(t, async () => (await metricOf(kv, 'orbitkv_operations_open')) === 1)
    // As one that hangs: it never hears of its drain.
    const { outbox } = runtime.manager as unknown as { outbox: { send(message: unknown): void } }
    outbox.send = () => {}
    const { unfinished, leaks } = await kv.close({ limitMs: 1 })
    t.is(unfinished, 1)
    t.is(leaks['orbitkv_operations_open'], 1)
    await lost
    t.is(kv.health().status, 'closed')
  },
)

testWithSsd('OrbitKV: close() amid restores settles every one of them, right or refused', async (t) => {
  const kv = await open(t, { readRoute: 'uring' })
  const engine = await kv.register(SMALL)
  const keys = keysOf('amid', SMALL.pages)
  await saveToSsd(kv, engine, keys)
  const founds = []
  for (let i = 0; i < SMALL.pages; i++) founds.push(await engine.query(keys.slice(0, 1)))
  const restores = founds.map((found, page) => engine.restore(found, [page]))
  const { unfinished, leaks } = await kv.close()
  t.deepEqual([unfinished, leaks], [0, {}])
  for (const [page, end] of (await Promise.allSettled(restores)).entries()) {
    if (end.status === 'rejected') t.true(end.reason instanceof ClosedError, String(end.reason))
    else t.deepEqual(wrongBlocks(engine, [page]), [])
  }
})

test.serial('Runtime: a death rejects everything, once nothing touches the pages, and is reported once', async (t) => {
  const reports: string[] = []
  const onDeath = (death: { name: string }) => void reports.push(death.name)
  const runtime = await Runtime.open({ poolBytes: 16 * MIB, io: HOST_IO, onDeath })
  const kv = Reflect.construct(OrbitKV, [runtime]) as OrbitKV
  const engine = await kv.register({ ...SMALL, memory: new SharedArrayBuffer(2 * 2 * 16 * 4096) })
  compute(engine, pages)
  await engine.publish(keysOf('death', SMALL.pages), pages)
  const fenced = engine.restore(await engine.query(keysOf('death', SMALL.pages)), pages, { after: never })
  const asked = kv.sync({ ssd: true })
  await asked
  killLane(runtime, 'host-restore')
  const lost = await t.throwsAsync(fenced, { instanceOf: ClosedError })
  t.is(lost?.code, 'manager_gone')
  t.is((await kv.died).name, 'host-restore')
  t.is(kv.health().status, 'died')
  for (const call of [() => kv.sync(), () => kv.register(SMALL), () => kv.close()]) {
    t.is((await t.throwsAsync(call, { instanceOf: ClosedError }))?.code, 'manager_gone')
  }
  t.deepEqual(reports, ['host-restore'])
})

test.serial('Runtime: a death amid close() rejects it', async (t) => {
  const runtime = await Runtime.open({ poolBytes: 16 * MIB, io: HOST_IO, onDeath: () => {} })
  const kv = Reflect.construct(OrbitKV, [runtime]) as OrbitKV
  const engine = await kv.register(SMALL)
  compute(engine, pages)
  await engine.publish(keysOf('late', SMALL.pages), pages)
  const fenced = engine.restore(await engine.query(keysOf('late', SMALL.pages)), pages, { after: never })
  // Two ways lead to the manager: a drain must not overtake the restore that shall keep it waiting.
  await until(t, async () => (await kv.stats())['operationsOpen'] === 1)
  const closing = kv.close()
  killLane(runtime, 'manager')
  t.is((await t.throwsAsync(closing, { instanceOf: ClosedError }))?.code, 'manager_gone')
  t.is((await t.throwsAsync(fenced, { instanceOf: ClosedError }))?.code, 'manager_gone')
})
