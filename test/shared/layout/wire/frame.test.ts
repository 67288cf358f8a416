import test from 'ava'
import fc from 'fast-check'
import { ProtocolError } from '../../../../src/shared/base/errors.js'
import {
  decodeFrame,
  decodeHeader,
  decodeReply,
  decodeRequest,
  encodeFrame,
  helloVersions,
} from '../../../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX, LENGTH_WORD_BYTES } from '../../../../src/shared/layout/wire/limits.js'
import {
  descriptorsOf,
  isRequestKind,
  MESSAGES,
  type MessageKind,
} from '../../../../src/shared/layout/wire/messages.js'
import { frameOf, makeGolden, plainMessage, readGolden } from '../../../support/golden-wire.js'
import { drawTable, readPage } from '../../../support/protocol-page.js'
import { framed } from '../../../support/wire-arbitraries.js'
import { SAMPLES } from '../../../support/wire-samples.js'

const target = new Uint8Array(FRAME_BYTES_MAX)

test('wire: the committed golden vectors are what the frame table gives', (t) => {
  t.deepEqual(readGolden(), makeGolden())
})

test('wire: the protocol page draws the frame table', (t) => {
  t.is(readPage().table, drawTable())
})

test('wire: every message kind has a golden vector', (t) => {
  const kinds = new Set(readGolden().map((vector) => (vector.message as { kind: string }).kind))
  t.deepEqual(
    Object.keys(MESSAGES).filter((kind) => !kinds.has(kind)),
    [],
  )
})

test('wire: every golden frame decodes to its message and encodes to the same bytes', (t) => {
  for (const { name, request, frame, message } of readGolden()) {
    const bytes = Uint8Array.from(Buffer.from(frame, 'hex'))
    t.is(new DataView(bytes.buffer).getUint32(0, true), bytes.length - LENGTH_WORD_BYTES, name)
    const decoded = decodeFrame(bytes.subarray(LENGTH_WORD_BYTES))
    t.is(decoded.request, request, name)
    t.deepEqual(plainMessage(decoded.message), message, name)
    t.deepEqual(frameOf(request, decoded.message), bytes, name)
  }
})

test('wire: a query is laid out as the protocol page draws it', (t) => {
  const keys = new Uint8Array(32).fill(0xab)
  const frame = frameOf(0x0102, {
    kind: 'query',
    requestId: 2 ** 32 + 1,
    revision: 3,
    allowSsd: true,
    groups: [{ group: 4, firstBlock: 5, keys }],
  })
  const bytes = [
    ...[73, 0, 0, 0],
    ...[4, 0, 0, 0],
    ...[2, 1, 0, 0, 0, 0, 0, 0],
    ...[1, 0, 0, 0, 1, 0, 0, 0],
    ...[3, 0, 0, 0],
    1,
    ...[1, 0, 0, 0],
    ...[4, 0, 0, 0],
    ...[5, 0, 0, 0],
    ...[1, 0, 0, 0],
    ...keys,
  ]
  t.deepEqual([...frame], bytes)
})

test('wire: any message comes back as it was sent', (t) => {
  fc.assert(
    fc.property(framed, ({ request, message }) => {
      const bytes = encodeFrame(target, request, message)
      const decoded = decodeFrame(target.subarray(0, bytes))
      return t.deepEqual(decoded, { request, message })
    }),
    { numRuns: 2000 },
  )
})

test('wire: type numbers are unique, requests below 128, replies above', (t) => {
  const kinds = Object.keys(MESSAGES) as MessageKind[]
  t.is(new Set(kinds.map((kind) => MESSAGES[kind].type)).size, kinds.length)
  for (const kind of kinds) t.is(MESSAGES[kind].type < 128, isRequestKind(kind), kind)
})

test('wire: each side refuses what only it may send', (t) => {
  const ping = frameOf(1, { kind: 'ping', seq: 1, slotsOutstanding: 0 }).subarray(4)
  const pong = frameOf(1, { kind: 'pong', seq: 1, managerEpoch: 1 }).subarray(4)
  t.is(decodeRequest(ping).message.kind, 'ping')
  t.is(decodeReply(pong).message.kind, 'pong')
  t.is(t.throws(() => decodeRequest(pong), { instanceOf: ProtocolError })?.code, 'unknown_message')
  t.is(t.throws(() => decodeReply(ping), { instanceOf: ProtocolError })?.code, 'unknown_message')
})

test('wire: a refusal says what, where and how much', (t) => {
  const frame = frameOf(1, { kind: 'sync', ssd: true }).subarray(4)
  frame[12] = 2
  const error = t.throws(() => decodeFrame(frame), { instanceOf: ProtocolError })
  t.is(error?.code, 'frame_malformed')
  t.is(error?.message, 'Cannot read field ssd of a sync frame at byte 13: 2 is neither 0 nor 1')
  t.deepEqual(error?.values, { message: 'sync', field: 'ssd', atByte: 13, frameBytes: 13, value: 2 })
})

test('wire: the header of a frame with a refused body still names its request', (t) => {
  const frame = frameOf(77, { kind: 'sync', ssd: true }).subarray(4)
  frame[12] = 2
  t.deepEqual(decodeHeader(frame), { type: MESSAGES.sync.type, request: 77 })
})

test('wire: versions are read from a HELLO whose rest is of another version, and from nothing else', (t) => {
  const hello = Uint8Array.of(1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 9, 0, 99)
  t.deepEqual(helloVersions(hello), { protoMin: 7, protoMax: 9 })
  t.throws(() => decodeFrame(hello), { instanceOf: ProtocolError })
  t.is(helloVersions(hello.subarray(0, 15)), null)
  t.is(helloVersions(frameOf(1, { kind: 'drain' }).subarray(4)), null)
  t.is(helloVersions(new Uint8Array(0)), null)
})

test('wire: what does not fit a frame or a field is refused before it is sent', (t) => {
  const query = (keys: Uint8Array, revision = 0) =>
    encodeFrame(target, 1, {
      kind: 'query',
      requestId: 1,
      revision,
      allowSsd: true,
      groups: [{ group: 0, firstBlock: 0, keys }],
    })
  const fits = Math.floor((FRAME_BYTES_MAX - LENGTH_WORD_BYTES - 12 - 17 - 12) / 32)
  t.true(query(new Uint8Array(32 * fits)) <= FRAME_BYTES_MAX - LENGTH_WORD_BYTES)
  const large = t.throws(() => query(new Uint8Array(32 * (fits + 1))), { instanceOf: ProtocolError })
  t.is(large?.code, 'frame_too_large')
  t.throws(() => query(new Uint8Array(33)), { instanceOf: RangeError })
  t.throws(() => query(new Uint8Array(32), 2 ** 32), { instanceOf: RangeError })
  t.throws(() => query(new Uint8Array(32), 0.5), { instanceOf: RangeError })
  t.throws(() => encodeFrame(target, 2 ** 53, { kind: 'drain' }), { instanceOf: RangeError })
  t.throws(() => encodeFrame(target, 1, { kind: 'cancel', slot: 0, generation: 0 }), { instanceOf: RangeError })
  t.throws(() => encodeFrame(target, 1, { kind: 'inspect', what: '\ud800' }), { instanceOf: RangeError })
  t.throws(() => encodeFrame(target, 1, { kind: 'inspect', what: 'x'.repeat(257) }), { instanceOf: RangeError })
  t.throws(() => encodeFrame(target, 1, { kind: 'numbers', values: [{ name: 'x', value: Number.NaN }] }), {
    instanceOf: RangeError,
  })
})

test('wire: a register announces one descriptor an allocation in shared memory, a registered three', (t) => {
  const counts = SAMPLES.filter(({ message }) => descriptorsOf(message) > 0).map(({ name, message }) => [
    name,
    descriptorsOf(message),
  ])
  t.deepEqual(counts, [
    ['register: one rank, one region', 1],
    ['register: several of everything', 1],
    ['register: memory of the same process, between two of the other kinds', 2],
    ['registered', 3],
  ])
})
