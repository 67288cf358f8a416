import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { connect, createEngineMemory, type EngineMemory, type OrbitClient } from '../../src/client/index.js'
import { CancelledError, ClosedError, ProtocolError } from '../../src/shared/base/errors.js'
import { directIoWorks } from '../support/direct-io.js'
import { folderOf } from '../support/folder.js'
import { startManager } from '../support/manager-process.js'
import { needs } from '../support/needs.js'

/** Both clients against a real Manager process. Page p of a client is one segment of PAGE_BYTES. */

const PAGE_BYTES = 65536
const PAGES = 4
const native = loadNative()
const uring = native.probe()
const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']).status === 0
const ssd = needs(
  uring.available && directIoWorks(native),
  `io_uring (${uring.reason}) and O_DIRECT in the temporary folder`,
)
const withPython = needs(python, 'python3 3.10 or later')

interface Engine {
  readonly client: OrbitClient
  readonly memory: EngineMemory
  page(page: number): Uint8Array
}

async function engineOf(t: ExecutionContext, socketPath: string): Promise<Engine> {
  const memory = createEngineMemory(PAGE_BYTES * PAGES)
  const client = await connect({ socketPath, role: 'worker', engine: 'test', engineVersion: '1' })
  await client.register({
    instanceId: randomBytes(16),
    namespaceInputs: new Map([['model', Buffer.from('shared')]]),
    tpRank: 0,
    tpSize: 1,
    ppRank: 0,
    ppSize: 1,
    worldSize: 1,
    pageFirst: false,
    device: { kind: 'host', uuid: new Uint8Array(16) },
    memory: [memory],
    groups: [{ id: 0, kind: 'full-attention', blockTokens: 16, window: 0 }],
    regions: [
      {
        layer: 'layer.0',
        group: 0,
        allocation: 0,
        offsetBytes: 0,
        pageCount: PAGES,
        pageStrideBytes: PAGE_BYTES,
        segments: 1,
        segmentBytes: PAGE_BYTES,
        segmentStrideBytes: PAGE_BYTES,
        dtype: 'bfloat16',
        kvRole: 'packed',
        headDim: 128,
        heads: 8,
      },
    ],
    slotCount: 4,
  })
  t.teardown(async () => {
    await client.close()
    memory.close()
  })
  return { client, memory, page: (page) => memory.view.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES) }
}

const publication = (keys: Uint8Array, page: number) => ({
  groups: [{ group: 0, layers: null, items: { keys, pages: Uint32Array.of(page) } }],
})

let requests = 0
const question = (keys: Uint8Array) => ({
  requestId: ++requests,
  revision: 0,
  allowSsd: true,
  groups: [{ group: 0, firstBlock: 0, keys }],
})

async function leaseOf(engine: Engine, keys: Uint8Array): Promise<number> {
  const found = await engine.client.query(question(keys))
  if (found.kind !== 'ready') throw new Error(`expected a hit, got ${found.kind}`)
  return found.lease
}

const into = (lease: number, page: number) => ({ lease, groups: [{ group: 0, pairs: Uint32Array.of(0, page) }] })

/** The Python engine of python/tests/process_peer.py. */
class PythonPeer {
  readonly #lines: AsyncIterator<string>
  readonly #child

  private constructor(t: ExecutionContext, socketPath: string) {
    const script = fileURLToPath(new URL('../../../python/tests/process_peer.py', import.meta.url))
    this.#child = spawn('python3', [script, socketPath], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
    const exited = once(this.#child, 'exit')
    t.teardown(async () => {
      this.#child.kill('SIGKILL')
      await exited
    })
  }

  static async start(t: ExecutionContext, socketPath: string): Promise<PythonPeer> {
    const peer = new PythonPeer(t, socketPath)
    t.is(await peer.next(), 'ready')
    return peer
  }

  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('the Python engine ended')
    return JSON.parse(value as string)
  }

  say(...words: readonly (string | number)[]): void {
    this.#child.stdin.write(`${words.join(' ')}\n`)
  }

  async tell(...words: readonly (string | number)[]): Promise<unknown> {
    this.say(...words)
    return await this.next()
  }
}

ssd('clients: a page comes back from SSD byte for byte', async (t) => {
  const folder = folderOf(t)
  const { socketPath, end } = await startManager(t, [
    ...['--ssd-cache-path', `${folder}/cache.bin`, '--ssd-cache-capacity', '64mb'],
  ])
  const engine = await engineOf(t, socketPath)
  const keys = randomBytes(32)
  const content = randomBytes(PAGE_BYTES)
  engine.page(0).set(content)
  t.like(await engine.client.publish(publication(keys, 0)), { accepted: 1, bytes: PAGE_BYTES })
  await engine.client.sync(true)
  t.is((await engine.client.dropDram()).get('evictedBlocks'), 1)
  engine.page(1).fill(0xa5)
  const found = await engine.client.query(question(keys))
  if (found.kind !== 'ready') throw new Error(`expected a hit, got ${found.kind}`)
  t.deepEqual([...found.boundaries], [16])
  t.is((await engine.client.restore(into(found.lease, 1))).bytes, PAGE_BYTES)
  t.true(Buffer.from(engine.page(1)).equals(content))
  await engine.client.close()
  t.is(await end('SIGTERM'), 0)
})

withPython('clients: what one language publishes the other restores, and neither publishes it again', async (t) => {
  const { socketPath } = await startManager(t)
  const engine = await engineOf(t, socketPath)
  const peer = await PythonPeer.start(t, socketPath)
  const [ours, theirs] = [randomBytes(32), randomBytes(32)]

  engine.page(0).fill(0x11)
  t.like(await engine.client.publish(publication(ours, 0)), { accepted: 1, present: 0 })
  t.deepEqual(await peer.tell('restore', ours.toString('hex'), 2), { bytes: PAGE_BYTES })
  t.is(await peer.tell('first', 2), 0x11)
  t.deepEqual(await peer.tell('publish', ours.toString('hex'), 2), { bytes: 0, accepted: 0, present: 1 })

  await peer.tell('fill', 1, 0x22)
  t.deepEqual(await peer.tell('publish', theirs.toString('hex'), 1), { bytes: PAGE_BYTES, accepted: 1, present: 0 })
  await engine.client.restore(into(await leaseOf(engine, theirs), 3))
  t.true(engine.page(3).every((byte) => byte === 0x22))
  t.is(await peer.tell('restore', randomBytes(32).toString('hex'), 0), null)
  t.is(await peer.tell('close'), null)
})

test('clients: an aborted restore behind its fence is cancelled, writes nothing, and its page is ours again', async (t) => {
  const { socketPath } = await startManager(t)
  const engine = await engineOf(t, socketPath)
  const keys = randomBytes(32)
  engine.page(0).fill(0x33)
  await engine.client.publish(publication(keys, 0))
  engine.page(1).fill(0xa5)
  const controller = new AbortController()
  const never = new Promise<void>(() => {})
  const restore = engine.client.restore(into(await leaseOf(engine, keys), 1), {
    after: never,
    signal: controller.signal,
  })
  await engine.client.ping(1)
  t.is(engine.client.operationsOutstanding, 1)
  controller.abort()
  const error = await t.throwsAsync(restore, { instanceOf: CancelledError })
  t.is(error?.code, 'cancelled')
  t.true(engine.page(1).every((byte) => byte === 0xa5))
  await engine.client.restore(into(await leaseOf(engine, keys), 1))
  t.true(engine.page(1).every((byte) => byte === 0x33))
})

test('clients: refusals come with their rule, and cost no slot', async (t) => {
  const { socketPath } = await startManager(t)
  const engine = await engineOf(t, socketPath)
  const keys = randomBytes(32)
  await engine.client.publish(publication(keys, 0))
  const lease = await leaseOf(engine, keys)
  const code = async (promise: Promise<unknown>) => (await t.throwsAsync(promise, { instanceOf: ProtocolError }))?.code
  for (let i = 0; i < 8; i++) t.is(await code(engine.client.restore(into(lease, PAGES))), 'page_out_of_range')
  t.is(await code(engine.client.restore(into(lease + 1, 0))), 'lease_unknown')
  t.is(
    await code(engine.client.publish(publication(Buffer.concat([keys, keys]).subarray(0, 32), PAGES))),
    'page_out_of_range',
  )
  t.is(engine.client.operationsOutstanding, 0)
  await engine.client.restore(into(lease, 1))
  t.is(await code(engine.client.restore(into(lease, 1))), 'lease_already_redeemed')
})

test('clients: when the Manager is killed, its end and nothing before it ends a restore', async (t) => {
  const folder = folderOf(t)
  const first = await startManager(t, [], folder)
  const engine = await engineOf(t, first.socketPath)
  const keys = randomBytes(32)
  await engine.client.publish(publication(keys, 0))
  const never = new Promise<void>(() => {})
  const restore = engine.client.restore(into(await leaseOf(engine, keys), 1), { after: never })
  await engine.client.ping(1)
  const lost = t.throwsAsync(restore, { instanceOf: ClosedError })
  await first.end('SIGKILL')
  t.is((await lost)?.code, 'manager_gone')
  await t.throwsAsync(engine.client.sync(false), { instanceOf: ClosedError })

  const second = await startManager(t, [], folder)
  const again = await engineOf(t, second.socketPath)
  t.not(again.client.welcome.managerEpoch, engine.client.welcome.managerEpoch)
  t.is((await again.client.query(question(keys))).kind, 'miss')
})

withPython('clients: the same for Python', async (t) => {
  const { socketPath, end } = await startManager(t)
  const peer = await PythonPeer.start(t, socketPath)
  const key = randomBytes(32).toString('hex')
  await peer.tell('publish', key, 0)
  t.is(await peer.tell('hang', key, 1), 'hanging')
  await end('SIGKILL')
  t.deepEqual(await peer.next(), { ended: 'manager_gone', ping: 'manager_gone' })
})
