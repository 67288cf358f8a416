import { randomBytes } from 'node:crypto'
import test from 'ava'
import { HEAD_DIM, keyOf, segmentContent } from '../../../src/cli/demo/content.js'
import { floatsOf, Oracle, relativeErrorMax, roundedToE4m3 } from '../../../src/cli/demo/oracle.js'

const KEY = keyOf('a')
const BYTES = 4_096
const LAYERS = 8
const INNER = 3

/** The value of one bfloat16. */
function valueAt(bytes: Uint8Array, i: number): number {
  const pattern = (bytes[2 * i] as number) | ((bytes[2 * i + 1] as number) << 8)
  return new Float32Array(Uint32Array.of(pattern << 16).buffer)[0] as number
}

function values(bytes: Uint8Array): number[] {
  return Array.from({ length: bytes.length / 2 }, (_, i) => valueAt(bytes, i))
}

/** bfloat16 of values that it has exactly, or nearly: the upper half of binary32. */
function bytesOf(list: readonly number[]): Uint8Array {
  const halves = new Uint32Array(Float32Array.from(list).buffer)
  return new Uint8Array(Uint16Array.from(halves, (word) => word >>> 16).buffer)
}

/** Each value times a factor that is near 1 at random. */
function disturbed(bytes: Uint8Array, by: number): Uint8Array {
  return bytesOf(values(bytes).map((value, i) => value * (1 + (i % 2 === 0 ? by : -by))))
}

test('floatsOf: finite values of both signs from 2^-3 to below 2, ten random bits each', (t) => {
  const all = values(floatsOf(randomBytes(65_536)))
  t.true(all.every((value) => Math.abs(value) >= 0.125 && Math.abs(value) < 2))
  t.is(new Set(all).size, 1_024)
  t.true(all.some((value) => value < 0) && all.some((value) => value > 0))
})

test('roundedToE4m3: the nearest value with three bits of mantissa, ties to even, signs kept', (t) => {
  const rounded = (value: number) => values(roundedToE4m3(bytesOf([value])))[0]
  const cases = [
    [1, 1],
    [1.0625, 1],
    [1.0703125, 1.125],
    [1.1875, 1.25],
    [-1.1875, -1.25],
    [17, 16],
    [19, 20],
    [448, 448],
    [2 ** -9, 2 ** -9],
    [2 ** -10, 0],
    [1.5 * 2 ** -9, 2 ** -8],
  ] as const
  for (const [from, to] of cases) t.is(rounded(from), to, String(from))
})

test('Oracle: without a codec and with an exact one, only the published bytes are right', (t) => {
  for (const codec of ['none', 'ans'] as const) {
    const oracle = new Oracle(codec, LAYERS)
    const published = oracle.content(KEY, INNER, 0, BYTES)
    t.true(oracle.accepts(INNER, 0, published, new Uint8Array(published)))
    const changed = new Uint8Array(published)
    changed[100] = (changed[100] as number) ^ 1
    t.false(oracle.accepts(INNER, 0, published, changed))
  }
  t.deepEqual(new Oracle('none', 4).content(KEY, 1, 1, BYTES), segmentContent(KEY, 1, 1, BYTES))
})

test('Oracle: with FP8 only the rounded values are right, not the published ones', (t) => {
  const oracle = new Oracle('fp8', LAYERS)
  const published = oracle.content(KEY, 0, 1, BYTES)
  const rounded = roundedToE4m3(published)
  t.true(oracle.accepts(0, 1, published, rounded))
  t.false(oracle.accepts(0, 1, published, published))
  const changed = new Uint8Array(rounded)
  changed[BYTES - 2] = (changed[BYTES - 2] as number) ^ 0x10
  t.false(oracle.accepts(0, 1, published, changed))
  t.deepEqual([...oracle.sums], [0, 0, 0, 0])
})

for (const codec of ['turboquant-4', 'turboquant-3'] as const) {
  test(`Oracle: with ${codec} protected layers are exact, others close, and nothing of another block is close`, (t) => {
    const oracle = new Oracle(codec, LAYERS)
    for (let layer = 0; layer < LAYERS; layer++) {
      const published = oracle.content(KEY, layer, 0, BYTES)
      const guarded = layer < 2 || layer > 5
      t.true(oracle.accepts(layer, 0, published, new Uint8Array(published)), `exact is right everywhere: ${layer}`)
      t.is(oracle.accepts(layer, 0, published, disturbed(published, 0.1)), !guarded, `close: ${layer}`)
      t.false(oracle.accepts(layer, 0, published, oracle.content(keyOf('b'), layer, 0, BYTES)), `foreign: ${layer}`)
      t.false(oracle.accepts(layer, 0, published, new Uint8Array(BYTES).fill(0xa5)), `poison: ${layer}`)
      t.false(oracle.accepts(layer, 0, published, bytesOf(values(published).map(() => Number.NaN))), `NaN: ${layer}`)
    }
  })

  test(`Oracle: with ${codec} one vector in the wrong place is noticed, and errors are summed apart for K and V`, (t) => {
    const oracle = new Oracle(codec, LAYERS)
    const published = oracle.content(KEY, INNER, 1, BYTES)
    const swapped = new Uint8Array(published)
    const width = 2 * HEAD_DIM
    swapped.copyWithin(width, 5 * width, 6 * width)
    t.false(oracle.accepts(INNER, 1, published, swapped))
    const summed = new Oracle(codec, LAYERS)
    t.true(summed.accepts(INNER, 1, published, disturbed(published, 0.05)))
    const [errorK, powerK, errorV, powerV] = summed.sums
    t.deepEqual([errorK, powerK], [0, 0])
    t.true(Math.abs(errorV / powerV - 0.0025) < 0.0003, String(errorV / powerV))
  })
}

test('relativeErrorMax: bounds for what is quantised, none for what is determined', (t) => {
  t.is(relativeErrorMax('none'), null)
  t.is(relativeErrorMax('ans'), null)
  t.is(relativeErrorMax('fp8'), null)
  t.deepEqual(relativeErrorMax('turboquant-4'), [0.0105, 0.014])
  t.deepEqual(relativeErrorMax('turboquant-3'), [0.038, 0.062])
})
