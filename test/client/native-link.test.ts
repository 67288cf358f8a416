import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { COMPLETION, COMPLETION_WORDS } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import type { Port } from '../../src/binding/port.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import { connect, createEngineMemory, type OrbitClient } from '../../src/client/index.js'
import { NativeLink } from '../../src/client/native-link.js'
import { ClosedError, ProtocolError } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { decodeRequest, encodeFrame, type Framed } from '../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX } from '../../src/shared/layout/wire/limits.js'
import type { RequestKind, WireReply, WireRequest } from '../../src/shared/layout/wire/messages.js'
import { NONE_FAILED } from '../../src/shared/layout/wire/slots.js'

/** The client over the addon's sockets and slots, with the Manager's end played by a port of this process. */

const native = loadNative()

class Listener {
  readonly path: string
  readonly port: Port
  readonly requests: (Framed<WireRequest> & { fds: number[] })[] = []
  connection = -1
  slots = -1
  readonly #completions = new Int32Array(new SharedArrayBuffer(64 * COMPLETION_WORDS * 4))
  readonly #frame = new Uint8Array(FRAME_BYTES_MAX)

  constructor(t: ExecutionContext) {
    const folder = mkdtempSync(join(tmpdir(), 'orbitkv-client-'))
    this.path = join(folder, 'manager.sock')
    this.port = native.openPort({
      depth: 8,
      submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * 8)),
      completions: this.#completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: new Int32Array(new SharedArrayBuffer(4)),
      pool: -1,
      io: 'posix',
      register: false,
    })
    this.port.listen(this.path)
    t.teardown(() => {
      this.port.close()
      if (this.slots >= 0) native.releaseSlots(this.slots)
      rmSync(folder, { recursive: true })
    })
  }

  /** Serves until `promise` settles. */
  async serving<T>(promise: Promise<T>): Promise<T> {
    let open = true
    const settled = promise.finally(() => {
      open = false
    })
    settled.catch(() => {})
    while (open) {
      this.#turn()
      await turn()
    }
    return await settled
  }

  #turn(): void {
    const count = this.port.pump(0, 0, 0)
    for (let i = 0; i < count; i++) {
      const [, result = 0, , kind] = this.#completions.subarray(i * COMPLETION_WORDS, (i + 1) * COMPLETION_WORDS)
      if (kind === COMPLETION.accepted) this.connection = result
      if (kind !== COMPLETION.frame) continue
      const bytes = this.port.takeFrame(this.connection, this.#frame)
      const framed = decodeRequest(this.#frame.slice(0, bytes))
      this.requests.push({ ...framed, fds: this.port.takeFds(this.connection) })
      this.#answer(framed)
    }
  }

  reply(request: number, message: WireReply, fds: readonly number[] = []): void {
    const target = new Uint8Array(FRAME_BYTES_MAX)
    this.port.send(this.connection, target, encodeFrame(target, request, message), fds)
  }

  #answer({ request, message }: Framed<WireRequest>): void {
    const kind: RequestKind = message.kind
    if (kind === 'hello') {
      const limits = { queriesOutstanding: 8, keysPerQuery: 100, slots: 4, frameBytes: FRAME_BYTES_MAX }
      this.reply(request, { kind: 'welcome', proto: 1, managerEpoch: 5, limits, features: 0 })
    } else if (kind === 'register') {
      const { slots, clientFd, managerFd, eventFd } = native.createSlots(4)
      this.slots = slots
      const registered = {
        kind: 'registered',
        session: 1,
        sessionGeneration: 2,
        sealed: true,
        ranksPresent: 1,
        storageNamespace: new Uint8Array(32),
        granuleBytesMax: 1048576,
        slots: 4,
      } as const
      this.reply(request, registered, [clientFd, managerFd, eventFd])
      for (const fd of [clientFd, managerFd, eventFd]) native.closeFd(fd)
    } else if (kind !== 'ping') {
      this.reply(request, { kind: 'ack' })
    }
  }
}

function connecting(listener: Listener): Promise<OrbitClient> {
  return connect({ socketPath: listener.path, role: 'worker', engine: 'test', engineVersion: '1' })
}

test('native link: registers memory, restores through real slots and closes', async (t) => {
  const listener = new Listener(t)
  const client = await listener.serving(connecting(listener))
  const memory = createEngineMemory(8192)
  memory.view.set([1, 2, 3], 4096)
  await listener.serving(
    client.register({
      instanceId: new Uint8Array(16),
      namespaceInputs: new Map(),
      tpRank: 0,
      tpSize: 1,
      ppRank: 0,
      ppSize: 1,
      worldSize: 1,
      pageFirst: false,
      device: { kind: 'host', uuid: new Uint8Array(16) },
      memory: [memory],
      groups: [],
      regions: [],
      slotCount: 4,
    }),
  )
  const passed = listener.requests.find(({ message }) => message.kind === 'register')?.fds ?? []
  t.is(passed.length, 1)
  const { mapping } = native.importMemory(passed[0] as number)
  native.mappingView(mapping, 4096, 4).set([9], 3)
  t.deepEqual([...memory.view.subarray(4096, 4100)], [1, 2, 3, 9])
  native.releaseMapping(mapping)
  native.closeFd(passed[0] as number)

  const restore = client.restore({ lease: 1, groups: [{ group: 0, pairs: Uint32Array.of(0, 1) }] })
  const { slot, generation } = await listener.serving(
    (async () => {
      for (;;) {
        const asked = listener.requests.map(({ message }) => message).find(({ kind }) => kind === 'restore')
        if (asked?.kind === 'restore') return asked
        await turn()
      }
    })(),
  )
  native.slotState(listener.slots, slot, generation, SLOT_STATE.running)
  native.slotFinish(listener.slots, slot, generation, SLOT_STATE.done, 0, NONE_FAILED, 4096, 10, 20)
  t.like(await listener.serving(restore), { bytes: 4096, admitUs: 10, doneUs: 20 })
  await listener.serving(client.close())
  memory.close()
})

test('native link: the end of the stream fails what waits', async (t) => {
  const listener = new Listener(t)
  const client = await listener.serving(connecting(listener))
  const ping = client.ping(1)
  const left = t.throwsAsync(ping, { instanceOf: ClosedError })
  listener.port.closeConnection(listener.connection)
  t.is(((await left) as ClosedError | undefined)?.code, 'manager_gone')
})

test('native link: nobody listens, and somebody else listens', async (t) => {
  const listener = new Listener(t)
  const absent = { socketPath: `${listener.path}.absent`, role: 'worker', engine: 'test', engineVersion: '1' } as const
  await t.throwsAsync(connect(absent), { code: 'ENOENT' })
  const error = t.throws(() => new NativeLink(native, (port) => port.connect(listener.path), [4_000_000_000]), {
    instanceOf: ProtocolError,
  })
  t.is(error?.code, 'peer_uid_refused')
})
