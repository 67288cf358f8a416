import test from 'ava'
import fc from 'fast-check'
import * as dramWorker from '../../src/actors/dram-worker/messages.js'
import * as hostReader from '../../src/actors/host-reader/messages.js'
import * as hostRestore from '../../src/actors/host-restore/messages.js'
import { Inbox } from '../../src/actors/runtime/inbox.js'
import { Outbox } from '../../src/actors/runtime/outbox.js'
import * as ssdWorker from '../../src/actors/ssd-worker/messages.js'
import * as writeback from '../../src/actors/writeback/messages.js'
import { InvariantError } from '../../src/shared/base/errors.js'
import { EMPTY_LIST, type List, listOf } from '../../src/shared/layout/records.js'
import { clearRecord, type MessageCodec, rawRecord } from '../../src/shared/rings/codec.js'
import { NO_WAKER } from '../../src/shared/rings/park.js'
import { createRing, RingConsumer, RingProducer } from '../../src/shared/rings/ring.js'

/** Every number a message may carry exactly, boundaries first. */
const number = fc.oneof(
  fc.constantFrom(0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 48, Number.MAX_SAFE_INTEGER),
  fc.maxSafeNat(),
)
const signed = fc.oneof(fc.constant(-1), number)
const more = fc.constantFrom(0 as const, 1 as const)
const slot = fc.oneof(fc.constantFrom(0, 1, 2 ** 30 - 1), fc.integer({ min: 0, max: 2 ** 30 - 1 }))
const list: fc.Arbitrary<List> = fc
  .array(signed, { maxLength: 40 })
  .map((numbers) => (numbers.length === 0 ? EMPTY_LIST : listOf(numbers)))
const finish = { job: number, more, slots: number, slot, slotGeneration: number, fence: number }
const stop = fc.record({ kind: fc.constant('stop' as const) })
const stopped = fc.record({ kind: fc.constant('stopped' as const) })
const release = fc.record({ kind: fc.constant('release-workspace' as const) })
const released = fc.record({ kind: fc.constant('workspace-released' as const) })

/** A message with its list as plain numbers, so that windows of different memory compare. */
function plain(message: object): unknown {
  const entries = Object.entries(message).map(([name, value]) => {
    if (name !== 'list') return [name, value]
    const { doubles, offset, length } = value as List
    return [name, [...doubles.slice(offset, offset + length)]]
  })
  return Object.fromEntries(entries)
}

/** Sends messages over a real ring that is smaller than they are, so that they queue, wrap and skip. */
function roundTrips<M extends object>(name: string, codec: MessageCodec<M>, message: fc.Arbitrary<M>): void {
  test(`${name}: every message arrives as it was sent`, (t) => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 12 }), (messages) => {
        const memory = createRing({ capacity: 4, arenaDoubles: 64 })
        const outbox = new Outbox(RingProducer.attach(memory, NO_WAKER), codec)
        const inbox = new Inbox(RingConsumer.attach(memory, NO_WAKER), codec)
        const arrived: unknown[] = []
        for (const one of messages) outbox.send(one)
        while (!outbox.flush() || !inbox.empty()) inbox.drain(3, (one) => arrived.push(plain(one)))
        t.deepEqual(arrived, messages.map(plain))
      }),
      { numRuns: 200 },
    )
  })

  test(`${name}: a record of an unknown kind is a bug, not a message`, (t) => {
    const record = rawRecord()
    record.kind = 99
    t.throws(() => codec.decode(record), { instanceOf: InvariantError })
  })
}

roundTrips<hostReader.HostReaderRequest>(
  'host-reader request',
  hostReader.requestCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('read-batch' as const), batch: number, list }),
    fc.record({ kind: fc.constant('cancel-batch' as const), batch: number }),
    stop,
  ),
)
roundTrips<hostReader.HostReaderReply>(
  'host-reader reply',
  hostReader.replyCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('read-done' as const), batch: number, index: number, status: number, bytes: number }),
    stopped,
  ),
)
roundTrips<writeback.WritebackRequest>(
  'writeback request',
  writeback.requestCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('write' as const), job: number, file: number, fileOffsetBytes: number, list }),
    fc.record({ kind: fc.constant('set-window' as const), bytes: number }),
    stop,
  ),
)
roundTrips<writeback.WritebackReply>(
  'writeback reply',
  writeback.replyCodec,
  fc.oneof(
    fc.record({
      kind: fc.constant('write-done' as const),
      job: number,
      status: number,
      bytes: number,
      latencyUs: number,
    }),
    stopped,
  ),
)
roundTrips<dramWorker.DramWorkerRequest>(
  'dram-worker request',
  dramWorker.requestCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('save' as const), ...finish, list }),
    fc.record({ kind: fc.constant('checksum' as const), job: number, list }),
    fc.record({ kind: fc.constant('restore' as const), ...finish, bytes: number, admitUs: number, list }),
    fc.record({ kind: fc.constant('cancel' as const), job: number }),
    release,
    stop,
  ),
)
roundTrips<dramWorker.DramWorkerReply>(
  'dram-worker reply',
  dramWorker.replyCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('save-done' as const), job: number, status: number, list }),
    fc.record({ kind: fc.constant('checksum-done' as const), job: number, status: number, list }),
    fc.record({
      kind: fc.constant('restore-done' as const),
      job: number,
      status: number,
      bytes: number,
      latencyUs: number,
      list,
    }),
    released,
    stopped,
  ),
)
roundTrips<hostRestore.HostRestoreRequest>(
  'host-restore request',
  hostRestore.requestCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('restore' as const), ...finish, bytes: number, admitUs: number, list }),
    fc.record({ kind: fc.constant('cancel' as const), job: number }),
    release,
    stop,
  ),
)
roundTrips<hostRestore.HostRestoreReply>(
  'host-restore reply',
  hostRestore.replyCodec,
  fc.oneof(
    fc.record({
      kind: fc.constant('restore-done' as const),
      job: number,
      status: number,
      bytes: number,
      ssdBytes: number,
      firstFailed: signed,
      latencyUs: number,
      list,
    }),
    released,
    stopped,
  ),
)

const ssdJob = {
  ...finish,
  slot: fc.nat({ max: 2 ** 16 - 1 }),
  worker: fc.nat({ max: ssdWorker.SSD_WORKERS_MAX - 1 }),
}
roundTrips<ssdWorker.SsdWorkerRequest>(
  'ssd-worker request',
  ssdWorker.requestCodec,
  fc.oneof(
    fc.record({ kind: fc.constant('open-worker' as const), worker: number }),
    fc.record({ kind: fc.constant('restore' as const), ...ssdJob, bytes: number, admitUs: number, list }),
    fc.record({ kind: fc.constant('write' as const), ...ssdJob, list }),
    fc.record({ kind: fc.constant('encode' as const), ...ssdJob, list }),
    fc.record({ kind: fc.constant('write-codes' as const), job: number, list }),
    fc.record({ kind: fc.constant('cancel' as const), job: number }),
    fc.record({ kind: fc.constant('close-worker' as const), worker: number }),
    stop,
  ),
)
roundTrips<ssdWorker.SsdWorkerReply>(
  'ssd-worker reply',
  ssdWorker.replyCodec,
  fc.oneof(
    fc.record({
      kind: fc.constant('restore-done' as const),
      job: number,
      status: number,
      bytes: number,
      ssdBytes: number,
      firstFailed: signed,
      latencyUs: number,
      list,
    }),
    fc.record({ kind: fc.constant('copied' as const), job: number, status: number }),
    fc.record({
      kind: fc.constant('encoded' as const),
      job: number,
      status: number,
      held: fc.constantFrom<0 | 1>(0, 1),
      list,
    }),
    fc.record({ kind: fc.constant('write-done' as const), job: number, status: number, list }),
    fc.record({
      kind: fc.constant('route-failed' as const),
      worker: number,
      code: fc.integer({ min: -5100, max: -1 }),
    }),
    fc.record({ kind: fc.constant('worker-closed' as const), worker: number }),
    stopped,
  ),
)

test('ssd-worker request: a slot or worker that the tag cannot carry is refused, never cut', (t) => {
  const record = rawRecord()
  const write = { kind: 'write', job: 1, more: 0, slots: 0, slotGeneration: 1, fence: 0, list: EMPTY_LIST } as const
  for (const [slot, worker] of [
    [2 ** 16, 0],
    [0, ssdWorker.SSD_WORKERS_MAX],
    [0, -1],
  ] as const) {
    clearRecord(record)
    t.throws(() => ssdWorker.requestCodec.encode({ ...write, slot, worker }, record), { instanceOf: InvariantError })
  }
})

test('dram-worker request: a slot number that the tag cannot carry is refused, never cut', (t) => {
  const record = rawRecord()
  const restore = { kind: 'restore', job: 1, more: 0, slots: 0, slotGeneration: 1, fence: 0, bytes: 0 } as const
  for (const slot of [2 ** 30, -1, 0.5]) {
    clearRecord(record)
    const send = () => dramWorker.requestCodec.encode({ ...restore, slot, admitUs: 0, list: EMPTY_LIST }, record)
    t.throws(send, { instanceOf: InvariantError })
  }
})
