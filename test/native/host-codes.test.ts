import { Worker } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { CODEC_WORKSPACE } from '../../src/binding/codecs.js'
import { COMPLETION } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { aligned, CodedEngine, type CodedItem, fillGaussians, GUARD } from './coded-engine.js'
import { NativeLane } from './open-lane.js'

const native = loadNative()
const POISON = 0xa5

function openLane(t: ExecutionContext, poolBytes: number): NativeLane {
  const lane = new NativeLane(native, poolBytes)
  t.teardown(() => lane.close())
  return lane
}

function code(lane: NativeLane, direction: 'encode' | 'decode', list: number[], base = 0): number {
  const doubles = Float64Array.from(list)
  return lane.port[direction](lane.stream, 7, doubles, 0, list.length / COPY.doubles, base)
}

const ITEMS: Record<string, { item: CodedItem; stored: number }> = {
  'fp8 of bfloat16': {
    item: { coding: { format: 'fp8', scalar: 'bf16' }, bytes: 4096, base: 33, pageStride: 5001 },
    stored: 2048,
  },
  'turboquant 4 of packed heads': {
    item: {
      coding: { format: 'turboquant', scalar: 'bf16', role: 'packed', bits: 4, headDim: 64, seed: 42 },
      bytes: 16 * 256,
      base: 7,
      pageStride: 4099,
    },
    stored: 16 * 70,
  },
  'turboquant 3 of keys, on the stream': {
    item: {
      coding: { format: 'turboquant', scalar: 'bf16', role: 'k', bits: 3, headDim: 128, seed: 1379 },
      bytes: 400 * 256,
      base: 64,
      pageStride: 400 * 256 + 64,
    },
    stored: 400 * 50,
  },
}

for (const [name, { item, stored }] of Object.entries(ITEMS)) {
  test(`host stream: an item goes encoded to the pool and comes back beside its guards, ${name}`, (t) => {
    const engine = new CodedEngine(t, [item], 3)
    const lane = openLane(t, 1 << 20)
    for (let page = 0; page < 3; page++) fillGaussians(engine.item(0, page), page + 1)
    const before = Uint8Array.from(engine.bytes)
    const room = aligned(stored)
    lane.poolBytes.fill(POISON)
    lane.results.fill(9)
    t.is(
      code(
        lane,
        'encode',
        [0, 1, 2].flatMap((page) => engine.copy(0, page, 512 + page * room, room)),
        5,
      ),
      0,
    )
    t.deepEqual(lane.reap(1), [{ tag: 7, result: 0, kind: COMPLETION.stream }])
    t.deepEqual(engine.bytes, before)
    for (let page = 0; page < 3; page++) {
      const coded = lane.poolBytes.subarray(512 + page * room, 512 + page * room + room)
      t.is(lane.results[5 + 2 * page], stored)
      t.is(lane.results[6 + 2 * page], crc32(coded.subarray(0, stored)))
      t.true(coded.subarray(stored).every((byte) => byte === 0))
    }
    t.is(lane.results[4], 9)
    t.is(lane.results[11], 9)
    t.true(lane.poolBytes.subarray(0, 512).every((byte) => byte === POISON))
    t.true(lane.poolBytes.subarray(512 + 3 * room, 4096 + 3 * room).every((byte) => byte === POISON))

    engine.bytes.fill(GUARD)
    const pool = Uint8Array.from(lane.poolBytes)
    t.is(
      code(
        lane,
        'decode',
        [0, 1, 2].flatMap((page) => engine.copy(0, 2 - page, 512 + page * room, stored)),
        5,
      ),
      0,
    )
    t.deepEqual(lane.reap(1), [{ tag: 7, result: 0, kind: COMPLETION.stream }])
    t.deepEqual([...lane.results.subarray(4, 9)], [9, 0, 0, 0, lane.results[8]])
    t.is(Buffer.compare(lane.poolBytes, pool), 0)
    for (let page = 0; page < 3; page++) {
      const now = new Uint16Array(engine.item(0, page).slice().buffer)
      const offset = item.base + (2 - page) * item.pageStride
      const then = new Uint16Array(before.slice(offset, offset + item.bytes).buffer)
      t.true(relativeError(then, now) < 0.04)
      engine.item(0, page).fill(GUARD)
    }
    t.true(engine.bytes.every((byte) => byte === GUARD))
  })
}

const word = new Uint32Array(1)
const float = new Float32Array(word.buffer)
function widened(bits: number): number {
  word[0] = bits << 16
  return float[0] as number
}

/** The squares of what differs, over those of `expected`, of bfloat16 values. */
function relativeError(expected: Uint16Array, actual: Uint16Array): number {
  let wrong = 0
  let all = 0
  expected.forEach((bits, i) => {
    const value = widened(bits)
    wrong += (value - widened(actual[i] as number)) ** 2
    all += value ** 2
  })
  return wrong / all
}

const FP8: CodedItem = { coding: { format: 'fp8', scalar: 'fp16' }, bytes: 4096, base: 0, pageStride: 4096 }
const ANS: CodedItem = { coding: { format: 'ans', scalar: 'bf16' }, bytes: 4096, base: 0, pageStride: 4096 }
const NOT_FINITE = [0x00, 0x7c]

test('host stream: an item that its codec refuses is stored as it is where there is room, else not at all', (t) => {
  const engine = new CodedEngine(t, [{ ...FP8, bytes: 4098, pageStride: 4098 }], 4)
  const lane = openLane(t, 1 << 20)
  engine.item(0, 0).fill(0x22)
  for (const page of [1, 2, 3]) engine.item(0, page).fill(0x11).set(NOT_FINITE, 4096)
  lane.poolBytes.fill(POISON)
  const list = [
    ...engine.copy(0, 0, 0, 2560),
    ...engine.copy(0, 1, 8192, 4608),
    ...engine.copy(0, 2, 16_384, 4096),
    ...engine.copy(0, 0, 32_768, 512),
  ]
  t.is(code(lane, 'encode', list), 0)
  t.is(lane.reap(1)[0]?.result, 0)
  const stored = [0, 1, 2, 3].map((i) => lane.results[2 * i])
  t.deepEqual(stored, [2049, 4098, 0, 0])
  t.is(lane.results[3], crc32(engine.item(0, 1)))
  t.deepEqual(lane.poolBytes.subarray(8192, 8192 + 4098), engine.item(0, 1))
  t.true(lane.poolBytes.subarray(8192 + 4098, 8192 + 4608).every((byte) => byte === 0))
  t.is(lane.poolBytes[8192 + 4608], POISON)
  t.is(lane.poolBytes[16_384 + 4096], POISON)
  t.is(lane.poolBytes[32_768 + 512], POISON)
  t.deepEqual([lane.results[5], lane.results[7]], [0, 0])
})

test('host stream: an item that saves less than an eighth of its sectors is stored as it is', (t) => {
  const small = { coding: { format: 'fp8', scalar: 'bf16' }, bytes: 512, base: 0, pageStride: 512 } as const
  const engine = new CodedEngine(t, [small], 1)
  const lane = openLane(t, 1)
  t.is(code(lane, 'encode', engine.copy(0, 0, 0, 512)), 0)
  lane.reap(1)
  t.deepEqual([...lane.results.subarray(0, 2)], [512, crc32(engine.item(0, 0))])
})

test('host stream: bytes that are no coding say so, and the items beside them come back', (t) => {
  const quant = ITEMS['turboquant 4 of packed heads']?.item as CodedItem
  const engine = new CodedEngine(t, [FP8, { ...quant, base: 20_000 }], 2)
  const lane = openLane(t, 1 << 20)
  fillGaussians(engine.item(1, 0), 1)
  const good = engine.copy(1, 0, 4096, 2048)
  t.is(code(lane, 'encode', [...engine.copy(0, 0, 0, 2048), ...good]), 0)
  lane.reap(1)
  const stored = lane.results[2] as number
  lane.poolBytes[2047] = 0x7f // FP8 has no such number
  const rotten = 8192
  lane.poolBytes.copyWithin(rotten, 4096, 4096 + stored)
  lane.poolBytes.set([0x00, 0x7c], rotten + stored - 2)
  const list = [
    ...engine.copy(0, 1, 0, 2048),
    ...engine.copy(1, 0, 4096, stored),
    ...engine.copy(1, 1, rotten, stored),
    ...engine.copy(1, 1, 4096, stored - 1),
    ...engine.copy(0, 1, 4096, 2047),
    ...engine.copy(1, 1, 4096, stored),
  ]
  engine.bytes.fill(GUARD)
  t.is(code(lane, 'decode', list, 3), 0)
  t.is(lane.reap(1)[0]?.result, 0)
  t.deepEqual([...lane.results.subarray(3, 9)], [1, 0, 1, 1, 1, 0])
  t.deepEqual(engine.item(1, 0), engine.item(1, 1))
  t.true(engine.bytes.subarray(20_000 - 7 - 4096, 20_000).every((byte) => byte === GUARD))
})

test('host stream: ANS is a coding of devices: items are stored as they are, and decoding is refused', (t) => {
  const engine = new CodedEngine(t, [ANS], 2)
  const lane = openLane(t, 1 << 20)
  fillGaussians(engine.item(0, 0), 3)
  t.is(code(lane, 'encode', [...engine.copy(0, 0, 0, 4096), ...engine.copy(0, 0, 8192, 2048)]), 0)
  lane.reap(1)
  t.deepEqual([...lane.results.subarray(0, 4)], [4096, crc32(engine.item(0, 0)), 0, 0])
  t.is(code(lane, 'decode', engine.copy(0, 0, 0, 2048)), -95)
  t.is(lane.pending(), 0)
  t.is(lane.port.copy(lane.stream, 1, 0, Float64Array.from(engine.copy(0, 1, 0, 0)), 0, 1), 0)
  lane.reap(1)
  t.deepEqual(engine.item(0, 1), engine.item(0, 0))
})

test('host stream: a coded descriptor out of bounds refuses the whole list, and nothing is touched', (t) => {
  const raw: CodedItem = { coding: { format: 'raw', scalar: 'bytes' }, bytes: 4096, base: 8192, pageStride: 4096 }
  const engine = new CodedEngine(t, [FP8, raw], 2)
  const lane = openLane(t, 1)
  const end = lane.poolBytes.length
  lane.poolBytes.fill(POISON)
  lane.results.fill(77)
  const good = engine.copy(0, 0, 0, 2048)
  const both: Record<string, number[]> = {
    'no such template': [engine.template + 1000, 0, 0, 0, 0, 1, 2048],
    'a template beyond int32': [2 ** 40, 0, 0, 0, 0, 1, 2048],
    'no such granule': [engine.template, 2, 0, 0, 0, 1, 2048],
    'no such page': [engine.template, 0, 2, 0, 0, 1, 2048],
    'no items': [engine.template, 0, 0, 0, 0, 0, 2048],
    'another item': [engine.template, 0, 0, 0, 1, 1, 2048],
    'two items': [engine.template, 0, 0, 0, 0, 2, 2048],
    'an item that is raw': [engine.template, 1, 0, 0, 0, 1, 2048],
    'no bytes': [engine.template, 0, 0, 0, 0, 1, 0],
    'past the pool': [engine.template, 0, 0, end - 1536, 0, 1, 2048],
    'far past the pool': [engine.template, 0, 0, 2 ** 53 - 1, 0, 1, 2048],
    'more bytes than there are': [engine.template, 0, 0, 0, 0, 1, 2 ** 53 - 512],
    'a fraction': [engine.template, 0, 0, 0.5, 0, 1, 2048],
    'a negative': [engine.template, 0, 0, 0, 0, 1, -512],
    'not a number': [engine.template, 0, Number.NaN, 0, 0, 1, 2048],
  }
  const encodeOnly = { 'half a sector of room': engine.copy(0, 0, 0, 2300) }
  const decodeOnly = { 'as many bytes as the item': engine.copy(0, 0, 0, 4096), more: engine.copy(0, 0, 0, 8192) }
  for (const direction of ['encode', 'decode'] as const) {
    const bad = { ...both, ...(direction === 'encode' ? encodeOnly : decodeOnly) }
    for (const [name, descriptor] of Object.entries(bad)) {
      t.is(code(lane, direction, [...good, ...descriptor]), -22, `${direction}: ${name}`)
      t.is(code(lane, direction, [...descriptor, ...good]), -22, `${direction}: ${name}`)
    }
    t.is(code(lane, direction, []), -22)
    const list = Float64Array.from(good)
    t.is(lane.port[direction](lane.stream, 1, list, 1, 1, 0), -22)
    t.is(lane.port[direction](lane.stream, 1, list, 0, 2, 0), -22)
    t.is(lane.port[direction](lane.stream + 1, 1, list, 0, 1, 0), -22)
    t.is(code(lane, direction, good, lane.results.length), -22)
    t.is(code(lane, direction, good, 2 ** 53 - 1), -22)
    t.is(code(lane, direction, good, -1), -22)
  }
  t.is(code(lane, 'encode', good, lane.results.length - 1), -22)
  t.is(lane.pending(), 0)
  t.true(lane.poolBytes.every((byte) => byte === POISON))
  t.true(lane.results.every((word) => word === 77))
  t.true(engine.bytes.every((byte) => byte === GUARD))
  t.is(code(lane, 'encode', engine.copy(0, 0, end - 2048, 2048), lane.results.length - 2), 0)
  lane.reap(1)
  t.is(lane.results[lane.results.length - 2], 2048)
  t.is(code(lane, 'decode', engine.copy(0, 0, end - 2048, 2048), lane.results.length - 1), 0)
  lane.reap(1)
  t.is(lane.results[lane.results.length - 1], 0)
})

test('host stream: codings and copies of any size end in the order in which they were given', (t) => {
  const large = ITEMS['turboquant 3 of keys, on the stream']?.item as CodedItem
  const engine = new CodedEngine(
    t,
    [
      { ...FP8, base: 0 },
      { ...large, base: 16_384 },
    ],
    2,
  )
  const lane = openLane(t, 1 << 20)
  for (let page = 0; page < 2; page++) fillGaussians(engine.item(1, page), page)
  engine.item(0, 0).fill(0x24)
  const jobs = 200
  for (let tag = 0; tag < jobs; tag++) {
    const index = tag % 5 === 0 ? 1 : 0
    const room = index === 1 ? aligned(20_000) : 2048
    const list = Float64Array.from(engine.copy(index, 0, 65_536 * index, tag % 7 === 6 ? 0 : room))
    const queued =
      tag % 7 === 6
        ? lane.port.copy(lane.stream, tag, 1, list, 0, 1)
        : lane.port.encode(lane.stream, tag, list, 0, 1, 2 * tag)
    t.is(queued, 0)
  }
  t.deepEqual(
    lane.reap(jobs).map(({ tag, result }) => [tag, result]),
    Array.from({ length: jobs }, (_, tag) => [tag, 0]),
  )
})

test.serial('host stream: coded descriptors that another thread rewrites never lead out of bounds', async (t) => {
  const engine = new CodedEngine(t, [FP8], 2)
  engine.item(0, 0).fill(0x24)
  engine.item(0, 1).fill(0x23)
  const lane = openLane(t, 8192)
  const list = new Float64Array(new SharedArrayBuffer(8 * COPY.doubles))
  list.set(engine.copy(0, 0, 0, 2048))
  const flipper = new Worker(
    `const { workerData } = require('node:worker_threads')
     const list = new Float64Array(workerData)
     for (let i = 0; list[0] >= 0; i++) { list[2] = i % 2 ? 1e6 : 1; list[3] = i % 3 ? 0 : 2 ** 40; list[6] = i % 5 ? 2048 : 2 ** 40 }`,
    { eval: true, workerData: list.buffer },
  )
  let taken = 0
  let refused = 0
  while (taken < 2000 || refused < 2000) {
    const result = lane.port.encode(lane.stream, 1, list, 0, 1, 0)
    if (result === 0) taken += lane.reap(1).length
    else refused += result === -22 ? 1 : Number.NaN
    if (taken + refused > 5_000_000) break
  }
  list[0] = -1
  await flipper.terminate()
  t.true(taken >= 2000 && refused >= 2000, `${taken} taken, ${refused} refused`)
  t.is(lane.results[0], 2048)
})

test('host stream: closing a port ends queued codings, and a closed port takes none', (t) => {
  const large = ITEMS['turboquant 3 of keys, on the stream']?.item as CodedItem
  const engine = new CodedEngine(t, [large], 1)
  const lane = new NativeLane(native, 1 << 20)
  for (let i = 0; i < 100; i++) t.is(code(lane, 'encode', engine.copy(0, 0, 0, aligned(20_000))), 0)
  lane.close()
  t.is(code(lane, 'encode', engine.copy(0, 0, 0, aligned(20_000))), -9)
  t.is(code(lane, 'decode', engine.copy(0, 0, 0, 20_000)), -9)
  t.throws(() => lane.port.codecWorkspace(lane.stream, new Float64Array(3)), { code: 'EBADF' })
})

test('host stream: codings need no workspace, and say so', (t) => {
  const lane = openLane(t, 1)
  const words = new Float64Array(CODEC_WORKSPACE.doubles).fill(7)
  lane.port.codecWorkspace(lane.stream, words)
  t.deepEqual([...words], [0, 0, 0])
  t.is(lane.port.releaseCodecWorkspace(lane.stream), 0)
  t.throws(() => lane.port.codecWorkspace(lane.stream, new Float64Array(2)), { instanceOf: TypeError })
  t.throws(() => lane.port.codecWorkspace(lane.stream + 1, words), { instanceOf: TypeError })
})
