import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { ClosedError, type OrbitKV } from '../../src/index.js'
import { collect } from '../support/collect.js'
import { runChild } from '../support/embedded-process.js'
import { keysOf, SMALL, saveToSsd } from '../support/engine-content.js'
import type { EngineWorkerInput } from '../support/engine-worker.js'
import { folderOf } from '../support/folder.js'
import { open, testWithSsd, until } from '../support/runtime-bed.js'

const native = loadNative()
const ENTRY = new URL('../support/engine-worker.js', import.meta.url)
const BYTES = SMALL.layers * 2 * SMALL.pages * SMALL.segmentBytes

function start(kv: OrbitKV, mode: EngineWorkerInput['mode'], memory: SharedArrayBuffer | null = null): Worker {
  const port = kv.facade()
  return new Worker(ENTRY, { workerData: { port, mode, memory } satisfies EngineWorkerInput, transferList: [port] })
}

/** What an engine worker says; it must end by itself, with nothing holding its event loop. */
async function said(t: ExecutionContext, worker: Worker): Promise<unknown> {
  const exited = once(worker, 'exit')
  const [message] = await once(worker, 'message')
  t.deepEqual(await exited, [0])
  return message
}

for (const kind of ['native memory', 'SharedArrayBuffers'] as const) {
  testWithSsd(`OrbitKV: one thread saves from ${kind}, another restores what it saved`, async (t) => {
    const memory = () => (kind === 'native memory' ? null : new SharedArrayBuffer(BYTES))
    const kv = await open(t, { readRoute: 'uring' })
    t.deepEqual(await said(t, start(kv, 'save', memory())), { saved: SMALL.pages, sessions: 2 })
    t.deepEqual(await said(t, start(kv, 'restore', memory())), { bytes: BYTES, fromSsd: SMALL.pages, wrong: [] })
    await until(t, async () => (await kv.stats())['sessions'] === 1)
    t.deepEqual(await kv.close(), { unfinished: 0, leaks: {} })
    await collect()
    t.is(native.mappingsAlive(), 0, 'what the threads made went with them')
  })

  testWithSsd(`OrbitKV: a thread that is terminated while it owns pages in ${kind} leaves nothing`, async (t) => {
    const memory = kind === 'native memory' ? null : new SharedArrayBuffer(BYTES)
    const kv = await open(t, { readRoute: 'uring' })
    await saveToSsd(kv, await kv.register(SMALL), keysOf('across threads', SMALL.pages))
    const worker = start(kv, 'hang', memory)
    await once(worker, 'message')
    await until(t, async () => (await kv.stats())['operationsOpen'] === 1)
    await worker.terminate()
    await until(t, async () => {
      const { sessions, operationsOpen, leases } = await kv.stats()
      return sessions === 2 && operationsOpen === 0 && leases === 0
    })
    t.deepEqual(await kv.close(), { unfinished: 0, leaks: {} })
    await collect()
    t.is(native.mappingsAlive(), 0)
  })
}

test.serial('RemoteOrbitKV: control calls cross the threads, and errors keep class and code', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  t.like(await said(t, start(kv, 'refused')), {
    status: 'serving',
    metrics: true,
    code: 'geometry_invalid',
    class: 'ProtocolError',
  })
})

test.serial('RemoteOrbitKV: a drain from another thread closes the runtime for everybody', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register(SMALL)
  t.deepEqual(await said(t, start(kv, 'drain')), { after: 'session_closed' })
  t.is(kv.health().status, 'closed')
  await t.throwsAsync(engine.query(keysOf('late', 1)), { instanceOf: ClosedError })
})

test.serial('OrbitKV: memory of its process is refused to another process, whatever number it names', async (t) => {
  const socketPath = join(folderOf(t), 'kv.sock')
  const kv = await open(t, { ssd: undefined as never, socketPath })
  await kv.register({ ...SMALL, memory: new SharedArrayBuffer(BYTES) })
  const { code, lines, stderr } = await runChild('foreign', socketPath)
  t.deepEqual([code, stderr], [0, ''])
  t.is(lines.length, 33)
  for (const line of lines.slice(0, 32)) t.is(line['code'], 'memory_not_local')
  t.deepEqual(lines[32], { registered: 'by descriptor' })
  t.is((await kv.stats())['instances'], 1, 'the foreign session left')
})
