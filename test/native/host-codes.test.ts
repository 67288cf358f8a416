import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { COMPLETION } from '../../src/binding/surface.js'
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

const ITEMS: Record<string, { item: CodedItem; stored: number; inline: boolean }> = {
  'fp8 of bfloat16': {
    item: { coding: { format: 'fp8', scalar: 'bf16' }, bytes: 4096, base: 33, pageStride: 5001 },
    stored: 2048,
    inline: true,
  },
  'turboquant 4 of packed heads': {
    item: {
      coding: { format: 'turboquant', scalar: 'bf16', role: 'packed', bits: 4, headDim: 64, seed: 42 },
      bytes: 16 * 256,
      base: 7,
      pageStride: 4099,
    },
    stored: 16 * 70,
    inline: true,
  },
  'turboquant 3 of keys, on the stream': {
    item: {
      coding: { format: 'turboquant', scalar: 'bf16', role: 'k', bits: 3, headDim: 128, seed: 1379 },
      bytes: 400 * 256,
      base: 64,
      pageStride: 400 * 256 + 64,
    },
    stored: 400 * 50,
    inline: false,
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
