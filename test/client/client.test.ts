import { setImmediate as turn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import type { OrbitClient } from '../../src/client/client.js'
import { greetOver } from '../../src/client/connect.js'
import type { EngineMemory } from '../../src/client/engine-memory.js'
import {
  CancelledError,
  CapacityError,
  ClosedError,
  CorruptionError,
  ERROR_CODES,
  InvariantError,
  ProtocolError,
} from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { NONE_FAILED } from '../../src/shared/layout/wire/slots.js'
import { type FakeManager, obligingManager } from '../support/fake-manager.js'

const memory: EngineMemory = { fd: 55, bytes: 4096, view: new Uint8Array(0), close() {} }
const fdsClosed = new WeakMap<FakeManager, number[]>()

async function greeted(manager: FakeManager): Promise<OrbitClient> {
  const closed: number[] = []
  fdsClosed.set(manager, closed)
  return await greetOver(manager, (fd) => closed.push(fd), { role: 'worker', engine: 'test', engineVersion: '1' })
}

async function registered(manager: FakeManager): Promise<OrbitClient> {
  const client = await greeted(manager)
  await client.register({
    instanceId: new Uint8Array(16),
    namespaceInputs: new Map([['model', Uint8Array.of(1)]]),
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
    slotCount: 2,
  })
  return client
}

const oneRestore = { lease: 7, groups: [{ group: 0, pairs: Uint32Array.of(0, 3) }] }
const oneQuery = {
  requestId: 1,
  revision: 0,
  allowSsd: true,
  groups: [{ group: 0, firstBlock: 0, keys: new Uint8Array(32) }],
}

/** True when the promise has not settled after many turns of the loop. */
async function staysOpen(promise: Promise<unknown>): Promise<boolean> {
  let open = true
  promise.then(
    () => {
      open = false
    },
    () => {
      open = false
    },
  )
  for (let i = 0; i < 300; i++) await turn()
  return open
}

async function fails(t: ExecutionContext, promise: Promise<unknown>, of: new (...a: never[]) => Error, code: string) {
  const error = await t.throwsAsync(promise, { instanceOf: of as new (...a: unknown[]) => Error })
  t.is((error as unknown as { code: string }).code, code)
  return error as unknown as { values: Record<string, unknown>; message: string }
}

test('client: a greeting says who we are and brings the limits', async (t) => {
  const manager = obligingManager()
  const client = await greeted(manager)
  t.like(manager.sent('hello')[0], { role: 'worker', engine: 'test', pid: process.pid, protoMin: 1, protoMax: 2 })
  t.is(client.welcome.managerEpoch, 5)
  t.is(client.welcome.limits.keysPerQuery, 100)
  await client.close()
  t.true(manager.closed)
})

test('client: an error reply becomes the class that says what to do next', async (t) => {
  const manager = obligingManager().always('hello', () => ({
    kind: 'error',
    code: ERROR_CODES.version_mismatch,
    message: 'Cannot speak version 1',
    values: [{ name: 'protoMin', value: '2' }],
  }))
  const error = await fails(t, greeted(manager), ProtocolError, 'version_mismatch')
  t.deepEqual(error.values, { protoMin: '2' })
  t.true(manager.closed)
})

test('client: registering passes one descriptor an allocation, claims a digest and takes three descriptors', async (t) => {
  const manager = obligingManager()
  await registered(manager)
  const sent = manager.requests.find(({ message }) => message.kind === 'register')
  t.deepEqual(sent?.fds, [55])
  t.deepEqual(manager.descriptorsOpened, [101, 102, 103])
  t.deepEqual(manager.sent('register')[0]?.allocations, [{ kind: 'host_fd', bytes: 4096 }])
  t.is(
    Buffer.from(manager.sent('register')[0]?.claimedDigest ?? []).toString('hex'),
    '6d0860b8f0a45418519b852edc26444f153fbd5442f87e31f26e8e1992713279',
  )
})

test('client: what a reply says stays true after the memory it came in is used again', async (t) => {
  const manager = obligingManager()
  const client = await greeted(manager)
  manager.always('attach', () => ({
    kind: 'attached',
    session: 1,
    sessionGeneration: 2,
    sealed: true,
    ranksPresent: 1,
    worldSize: 1,
    storageNamespace: new Uint8Array(32).fill(9),
  }))
  const attached = await client.attach(new Uint8Array(16))
  t.deepEqual(attached.storageNamespace, new Uint8Array(32).fill(9))
})

test('client: a registered without its descriptors is refused, and those that came are closed', async (t) => {
  const manager = obligingManager()
  const answer = manager.answers.get('register')
  manager.answers.set('register', (framed) => {
    const { reply } = manager
    manager.reply = (request, message) => reply.call(manager, request, message, [201])
    answer?.(framed)
    manager.reply = reply
  })
  await fails(t, registered(manager), ProtocolError, 'missing_descriptor')
  t.deepEqual(fdsClosed.get(manager), [201])
})

test('client: a query polls its ticket until the answer is not loading', async (t) => {
  const manager = obligingManager()
  const client = await greeted(manager)
  let polls = 0
  manager.always('query', () => ({ kind: 'loading', ticket: 40 }))
  manager.always('query_poll', () =>
    ++polls < 3
      ? { kind: 'loading', ticket: 40 }
      : {
          kind: 'ready',
          boundaries: Uint32Array.of(16),
          otherBoundaries: new Uint32Array(0),
          lease: 9,
          blocksDram: 1,
          blocksSsd: 0,
          expiresInMs: 100,
        },
  )
  const ready = await client.query(oneQuery)
  t.like(ready, { kind: 'ready', lease: 9 })
  t.deepEqual(
    manager.sent('query_poll').map(({ ticket }) => ticket),
    [40, 40, 40],
  )
})

test('client: a query given up while loading gives its ticket back', async (t) => {
  const manager = obligingManager().always('query', () => ({ kind: 'loading', ticket: 41 }))
  const client = await greeted(manager)
  const controller = new AbortController()
  const polled = manager.next('query_poll')
  const query = client.query(oneQuery, { signal: controller.signal })
  const { request } = await polled
  const released = manager.next('release')
  controller.abort(new Error('engine lost interest'))
  await fails(t, query, CancelledError, 'cancelled')
  t.like((await released).message, { what: 'ticket', id: 41 })
  manager.reply(request, { kind: 'miss' })
  await client.close()
})

test('client: a preparation is claimed with its keys; one that comes after the caller left goes back', async (t) => {
  const prepared = { kind: 'prepared', ticket: 9, blocks: 1, blocksReady: 0, loading: true, expiresInMs: 1000 } as const
  const manager = obligingManager()
    .always('prepare', () => prepared)
    .always('prepare_poll', () => ({ ...prepared, blocksReady: 1, loading: false }))
    .always('claim', () => ({ kind: 'loading', ticket: 9 }))
    .always('query_poll', () => ({ kind: 'miss' }))
    .always('warm', () => ({ kind: 'warming', accepted: 1, resident: 0, skipped: 0 }))
  const client = await greeted(manager)
  const { groups } = oneQuery
  t.like(await client.prepare({ requestId: 4, revision: 1, groups }), { ticket: 9, loading: true })
  t.like(await client.pollPreparation(9), { blocksReady: 1, loading: false })
  t.is((await client.claim({ ticket: 9, requestId: 4, revision: 1, groups })).kind, 'miss')
  t.like(manager.sent('claim')[0], { ticket: 9, requestId: 4, revision: 1, groups })
  t.like(await client.warm(groups), { kind: 'warming', accepted: 1 })
  manager.answers.delete('prepare')
  const controller = new AbortController()
  const asked = manager.next('prepare')
  const left = client.prepare({ requestId: 5, revision: 0, groups }, { signal: controller.signal })
  const { request } = await asked
  controller.abort()
  await fails(t, left, CancelledError, 'cancelled')
  const released = manager.next('release')
  manager.reply(request, prepared)
  t.like((await released).message, { what: 'ticket', id: 9 })
  await client.close()
})

test('client: a lease that comes after the caller left goes back', async (t) => {
  const manager = obligingManager()
  const client = await greeted(manager)
  const controller = new AbortController()
  const asked = manager.next('query')
  const query = client.beginQuery(oneQuery, { signal: controller.signal })
  const { request } = await asked
  controller.abort()
  await fails(t, query, CancelledError, 'cancelled')
  const released = manager.next('release')
  manager.reply(request, {
    kind: 'ready',
    boundaries: Uint32Array.of(16),
    otherBoundaries: new Uint32Array(0),
    lease: 12,
    blocksDram: 1,
    blocksSsd: 0,
    expiresInMs: 100,
  })
  t.like((await released).message, { what: 'lease', id: 12 })
})

test('client: a restore ends by its slot, not by its acknowledgement', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const restore = client.restore(oneRestore)
  t.true(await staysOpen(restore))
  await fails(t, client.restore(oneRestore), CapacityError, 'capacity_slots')
  t.deepEqual(manager.freed, [])
  manager.finish(0, 1, SLOT_STATE.done, { bytes: 4096 })
  t.like(await restore, { bytes: 4096 })
  t.deepEqual(manager.freed, [[0, 1]])
})

test('client: a line is used again with a greater generation, and the old end does not end the new', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const first = client.restore(oneRestore)
  manager.finish(0, 1, SLOT_STATE.done)
  await first
  const second = client.restore(oneRestore)
  t.is(manager.sent('restore')[1]?.generation, 2)
  t.true(await staysOpen(second))
  manager.finish(0, 2, SLOT_STATE.running)
  t.true(await staysOpen(second))
  manager.finish(0, 2, SLOT_STATE.failed, {
    errorCode: ERROR_CODES.checksum_mismatch,
    firstFailed: 0,
    bytes: 512,
  })
  const error = await fails(t, second, CorruptionError, 'checksum_mismatch')
  t.deepEqual(error.values, { slot: 0, bytes: 512, firstFailed: 0 })
  t.is(error.message, 'Failed at item 0: checksum_mismatch (50)')
})

test('client: the end of an operation says its code by name, and its number too', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const ends = [
    [ERROR_CODES.capacity_codec, CapacityError, 'capacity_codec', 'Failed: capacity_codec (37)'],
    [ERROR_CODES.codec_damaged, CorruptionError, 'codec_damaged', 'Failed: codec_damaged (51)'],
    [249, InvariantError, 'invariant', 'Failed: invariant (249)'],
  ] as const
  for (const [place, [errorCode, of, name, text]] of ends.entries()) {
    const restored = client.restore(oneRestore)
    manager.finish(0, place + 1, SLOT_STATE.failed, { errorCode, firstFailed: NONE_FAILED, bytes: 0 })
    const error = await fails(t, restored, of, name)
    t.is(error.message, text)
  }
})

test('client: a refused restore gives its line back at once', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({
    kind: 'error',
    code: ERROR_CODES.lease_expired,
    message: 'Cannot restore: lease 7 has expired',
    values: [],
  }))
  const client = await registered(manager)
  await fails(t, client.restore(oneRestore), ProtocolError, 'lease_expired')
  t.deepEqual(manager.freed, [[0, 1]])
})

test('client: a restore that could not be sent gives its line back at once', async (t) => {
  const manager = obligingManager(1)
  const client = await registered(manager)
  manager.sendResult = -11
  await fails(t, client.restore(oneRestore), CapacityError, 'capacity_queue')
  t.deepEqual(manager.freed, [[0, 1]])
})

test('client: an aborted restore cancels and settles only when the slot is terminal', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const controller = new AbortController()
  const restore = client.restore(oneRestore, { signal: controller.signal })
  controller.abort()
  t.deepEqual(
    manager.requests.slice(-2).map(({ message }) => message.kind),
    ['restore', 'cancel'],
  )
  t.true(await staysOpen(restore))
  t.deepEqual(manager.freed, [])
  manager.finish(0, 1, SLOT_STATE.cancelled, { bytes: 0 })
  await fails(t, restore, CancelledError, 'cancelled')
})

test('client: a restore that was done before its cancel arrived is done', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const controller = new AbortController()
  const restore = client.restore(oneRestore, { signal: controller.signal })
  controller.abort()
  manager.finish(0, 1, SLOT_STATE.done, { bytes: 4096 })
  t.is((await restore).bytes, 4096)
})

test('client: when the stream ends, requests fail at once and pages wait for the slot', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const restore = client.restore(oneRestore)
  const sync = client.sync(false)
  manager.hangUp()
  await fails(t, sync, ClosedError, 'manager_gone')
  t.true(await staysOpen(restore))
  t.false(manager.closed)
  manager.finish(0, 1, SLOT_STATE.done, { bytes: 1 })
  t.is((await restore).bytes, 1)
  await fails(t, client.sync(false), ClosedError, 'manager_gone')
  await client.close()
  t.true(manager.closed)
  t.true(manager.linesClosed)
})

test('client: when the stream ends before the acknowledgement, the pages still wait', async (t) => {
  const manager = obligingManager(1)
  const client = await registered(manager)
  const restore = client.restore(oneRestore)
  manager.hangUp()
  t.true(await staysOpen(restore))
  t.deepEqual(manager.freed, [])
  manager.exit()
  await fails(t, restore, ClosedError, 'manager_gone')
})

test('client: when the Manager exits, what its slots say still counts', async (t) => {
  const manager = obligingManager(2).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const [done, lost] = [client.restore(oneRestore), client.restore(oneRestore)]
  t.is(client.operationsOutstanding, 2)
  manager.hangUp()
  manager.exit()
  manager.finish(0, 1, SLOT_STATE.done, { bytes: 2 })
  t.is((await done).bytes, 2)
  await fails(t, lost, ClosedError, 'manager_gone')
  t.is(client.operationsOutstanding, 0)
  t.true(manager.closed)
})

test('client: after the Manager has exited, restores and publications say so', async (t) => {
  const manager = obligingManager()
  const client = await registered(manager)
  manager.exit()
  await fails(t, client.sync(false), ClosedError, 'manager_gone')
  await fails(t, client.restore(oneRestore), ClosedError, 'manager_gone')
  await fails(t, client.publish({ groups: [] }), ClosedError, 'manager_gone')
})

test('client: taking an operation back after the stream has ended throws at nobody', async (t) => {
  const manager = obligingManager().always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const abort = new AbortController()
  const restore = client.restore(oneRestore, { signal: abort.signal })
  manager.hangUp()
  await fails(t, client.sync(false), ClosedError, 'manager_gone')
  abort.abort()
  t.true(await staysOpen(restore))
  manager.exit()
  await fails(t, restore, ClosedError, 'manager_gone')
})

test('client: a registration that the Manager does not outlive is refused, and its descriptors are closed', async (t) => {
  const manager = obligingManager()
  const answer = manager.answers.get('register')
  manager.answers.set('register', (request) => {
    answer?.(request)
    manager.exit()
  })
  await t.throwsAsync(registered(manager), { instanceOf: ClosedError, code: 'manager_gone' })
  t.deepEqual(fdsClosed.get(manager), [101, 102, 103])
  t.deepEqual(manager.descriptorsOpened, [])
})

test('client: a nonsense answer ends the session but frees no page', async (t) => {
  for (const nonsense of ['busy', 'bytes', 'unasked'] as const) {
    const manager = obligingManager(1)
    const client = await registered(manager)
    const asked = manager.next('restore')
    const restore = client.restore(oneRestore)
    const { request } = await asked
    if (nonsense === 'bytes') manager.raw(Uint8Array.of(1, 2, 3), [301])
    else manager.reply(nonsense === 'busy' ? request : 999, { kind: 'busy' })
    t.true(await staysOpen(restore), nonsense)
    t.deepEqual(manager.freed, [])
    await fails(t, client.sync(false), ClosedError, 'session_closed')
    if (nonsense === 'bytes') t.deepEqual(fdsClosed.get(manager), [301])
    manager.exit()
    await fails(t, restore, ClosedError, 'manager_gone')
  }
})

test('client: pages are fenced until `after` resolves', async (t) => {
  const manager = obligingManager(1).always('publish', () => ({
    kind: 'publishing',
    accepted: 1,
    present: 2,
    assembling: 0,
    skipped: 0,
  }))
  const client = await registered(manager)
  let ready!: () => void
  const after = new Promise<void>((resolve) => {
    ready = resolve
  })
  const items = { keys: new Uint8Array(32), pages: Uint32Array.of(5) }
  const publish = client.publish({ groups: [{ group: 0, layers: null, items }] }, { after })
  t.is(manager.sent('publish')[0]?.fence, 1)
  t.true(await staysOpen(publish))
  t.is(manager.line(0).fence, 0)
  ready()
  await after
  t.is(manager.line(0).fence, 1)
  manager.finish(0, 1, SLOT_STATE.done, { bytes: 4096 })
  t.like(await publish, { accepted: 1, present: 2, bytes: 4096 })
})

test('client: when `after` rejects, the operation is cancelled and its fence stays down', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  const client = await registered(manager)
  const cancelled = manager.next('cancel')
  const restore = client.restore(oneRestore, { after: Promise.reject(new Error('the step failed')) })
  t.like((await cancelled).message, { slot: 0, generation: 1 })
  t.is(manager.line(0).fence, 0)
  manager.finish(0, 1, SLOT_STATE.cancelled)
  await fails(t, restore, CancelledError, 'cancelled')
})

test('client: closing waits for the drain that the Manager acknowledges; a signal ends the wait alone', async (t) => {
  const manager = obligingManager(1).always('restore', () => ({ kind: 'ack' }))
  manager.answers.delete('unregister')
  const client = await registered(manager)
  const restore = client.restore(oneRestore)
  const left = manager.next('unregister')
  const controller = new AbortController()
  const early = client.close({ signal: controller.signal })
  const { request } = await left
  controller.abort()
  await fails(t, early, CancelledError, 'cancelled')
  t.false(manager.closed)
  const close = client.close()
  t.true(await staysOpen(close))
  manager.finish(0, 1, SLOT_STATE.done)
  manager.reply(request, { kind: 'ack' })
  await close
  await restore
  t.is(manager.sent('unregister').length, 1)
  t.true(manager.closed)
  t.true(manager.linesClosed)
})
