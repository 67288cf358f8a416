import test from 'ava'
import fc from 'fast-check'
import { loadNative } from '../../src/binding/load.js'
import { ITEM_CODING, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import { type Coding, codingFields } from './coded-engine.js'

const native = loadNative()

const BYTES = 1 << 20
const fd = native.createMemory(BYTES)
const { mapping } = native.importMemory(fd)
native.closeFd(fd)

interface Item {
  base: number
  stride: number
  count: number
  bytes: number
  padded: number
}

/** Item number that was refused, or -1 when the template was taken. */
type Checker = (items: Item[]) => number

const byNative: Checker = (items) => {
  const list = new Float64Array(items.length * TEMPLATE_ITEM.doubles)
  items.forEach((item, i) => {
    list.set([mapping, item.base, item.stride, item.count, 0, item.bytes, item.padded], i * TEMPLATE_ITEM.doubles)
  })
  try {
    native.releaseTemplate(native.defineTemplate(list, Float64Array.of(0, items.length)))
    return -1
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    const named = /item (\d+) /.exec(message)
    if (code !== 'EINVAL' || named === null) throw error
    return Number(named[1])
  }
}

/** The rule, in integers without a bound, over a function that says where the last page starts. */
const byModel =
  (lastPage: (stride: bigint, count: bigint) => bigint): Checker =>
  (items) =>
    items.findIndex(({ base, stride, count, bytes, padded }) => {
      if (![base, stride, count, bytes, padded].every((n) => Number.isSafeInteger(n) && n >= 0)) return true
      if (count === 0 || bytes > padded) return true
      return BigInt(base) + lastPage(BigInt(stride), BigInt(count)) + BigInt(bytes) > BigInt(BYTES)
    })

const model = byModel((stride, count) => (count - 1n) * stride)
/** Twins: one multiplies in 64 bits that wrap, one forgets that the last page starts at count - 1. */
const wrapping = byModel((stride, count) => BigInt.asUintN(64, (count - 1n) * stride))
const offByOne = byModel((stride, count) => count * stride)

const near = (edge: number): fc.Arbitrary<number> => fc.integer({ min: -2, max: 2 }).map((d) => Math.max(0, edge + d))
const number = fc.oneof(
  fc.integer({ min: 0, max: 4096 }),
  near(BYTES),
  fc.integer({ min: 0, max: 53 }).chain((bit) => near(2 ** bit)),
  fc.double(),
)
const loose = fc
  .record({ base: number, stride: number, count: number, bytes: number, padded: number })
  .map((item) => ({ ...item, padded: Math.max(item.padded, item.bytes) }))
/** Ends within two bytes of the mapping's end. */
const tight = fc
  .tuple(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 0, max: 8192 }), fc.integer({ min: 0, max: 8192 }), near(0))
  .chain(([count, stride, bytes]) =>
    near(BYTES - (count - 1) * stride - bytes).map((base) => ({ base, stride, count, bytes, padded: bytes })),
  )
/** (count - 1) * stride is a multiple of 2^64. */
const overflowing = fc.integer({ min: 12, max: 52 }).map((bit) => ({
  base: 0,
  stride: 2 ** bit,
  count: 2 ** (64 - bit) + 1,
  bytes: 64,
  padded: 64,
}))
const items = fc.array(fc.oneof(tight, loose, overflowing), { minLength: 1, maxLength: 4 })

const agreement = (checker: Checker): fc.IProperty<[Item[]]> =>
  fc.property(items, (list) => checker(list) === model(list))

test('templates: an item is taken exactly when integers without a bound say that every page fits', (t) => {
  t.notThrows(() => fc.assert(agreement(byNative), { numRuns: 20_000 }))
})

test('templates: the property catches wrapping arithmetic and a page too many', (t) => {
  for (const twin of [wrapping, offByOne]) t.true(fc.check(agreement(twin), { numRuns: 20_000, seed: 20261129 }).failed)
})

const whole = (over: Partial<Record<keyof Item | 'mapping' | 'offset', number>> = {}): number[] => [
  over.mapping ?? mapping,
  over.base ?? 0,
  over.stride ?? 4096,
  over.count ?? 256,
  over.offset ?? 0,
  over.bytes ?? 4096,
  over.padded ?? 4096,
]
const define = (list: number[], granules: number[]): number =>
  native.defineTemplate(Float64Array.from(list), Float64Array.from(granules))

test('templates: the refusal names the item', (t) => {
  t.throws(() => define([...whole(), ...whole(), ...whole({ base: 1 })], [0, 3]), {
    code: 'EINVAL',
    message: /item 2 /,
  })
  t.throws(() => define([...whole({ mapping: 2 ** 40 }), ...whole()], [0, 2]), { code: 'EINVAL', message: /item 0 / })
  t.throws(() => define([...whole(), ...whole({ mapping: 0 })], [0, 2]), { code: 'EINVAL', message: /item 1 / })
  t.throws(() => define(whole({ offset: -1 }), [0, 1]), { code: 'EINVAL', message: /item 0 / })
  t.throws(() => define(whole({ offset: Number.NaN }), [0, 1]), { code: 'EINVAL', message: /item 0 / })
  t.throws(() => define(whole({ padded: 4095 }), [0, 1]), { code: 'EINVAL', message: /item 0 / })
})

test('templates: granules must start at 0, never go back, and end at the last item', (t) => {
  const two = [...whole(), ...whole()]
  for (const granules of [[], [0], [1, 2], [0, 1], [0, 3], [0, 2, 1, 2], [0, 0.5, 2], [-1, 2], [0, Number.NaN, 2]]) {
    t.throws(() => define(two, granules), { code: 'EINVAL' }, JSON.stringify(granules))
  }
  t.throws(() => define(two.slice(1), [0, 1]), { code: 'EINVAL' })
  for (const granules of [
    [0, 2],
    [0, 1, 2],
    [0, 0, 2, 2],
  ])
    native.releaseTemplate(define(two, granules))
})

test('templates: numbers are never used again', (t) => {
  const first = define(whole(), [0, 1])
  native.releaseTemplate(first)
  t.true(define(whole(), [0, 1]) > first)
})

const RAW: Coding = { format: 'raw', scalar: 'bytes' }
const FP8: Coding = { format: 'fp8', scalar: 'bf16' }
const QUANT: Coding = { format: 'turboquant', scalar: 'fp16', role: 'packed', bits: 4, headDim: 128, seed: 2 ** 32 - 1 }
const ANS: Coding = { format: 'ans', scalar: 'bytes' }

const defineCoded = (list: number[], granules: number[], codings: number[]): number =>
  native.defineTemplate(Float64Array.from(list), Float64Array.from(granules), Float64Array.from(codings))

test('templates: every item may have a coding, and none means that all are raw', (t) => {
  const items = [whole(), whole(), whole(), whole({ bytes: 4095 })]
  const codings = [FP8, QUANT, ANS, RAW].flatMap(codingFields)
  native.releaseTemplate(defineCoded(items.flat(), [0, 1, 2, 3, 4], codings))
  native.releaseTemplate(
    defineCoded([...whole(), ...whole({ offset: 4096 })], [0, 2], [RAW, RAW].flatMap(codingFields)),
  )
  native.releaseTemplate(native.defineTemplate(Float64Array.from(whole()), Float64Array.of(0, 1), undefined))
  t.pass()
})

test('templates: a coding that its item cannot have is refused, and the refusal names the item', (t) => {
  const BAD: Record<string, [Coding, Parameters<typeof whole>[0]?]> = {
    'FP8 of half a value': [FP8, { bytes: 4095 }],
    'FP8 of bytes': [{ ...FP8, scalar: 'bytes' }],
    'FP8 of e4m3': [{ ...FP8, scalar: 'e4m3' }],
    'FP8 of nothing': [FP8, { bytes: 0 }],
    'FP8 with a seed': [{ ...FP8, seed: 1 }],
    'raw with bits': [{ ...RAW, bits: 4 }],
    'a part of a vector': [QUANT, { bytes: 4096 - 256 }],
    'a head of 96': [{ ...QUANT, headDim: 96 }],
    'a head of 512': [{ ...QUANT, headDim: 512 }],
    '5 bits': [{ ...QUANT, bits: 5 }],
    '2 bits': [{ ...QUANT, bits: 2 }],
    'no role': [{ ...QUANT, role: 'none' }],
    'vectors of bytes': [{ ...QUANT, scalar: 'bytes' }],
    'a seed of 33 bits': [{ ...QUANT, seed: 2 ** 32 }],
    'half a seed': [{ ...QUANT, seed: 0.5 }],
    'ANS of little': [ANS, { bytes: 4088 }],
    'ANS beside its alignment': [ANS, { base: 4, count: 2 }],
    'ANS with an odd stride': [ANS, { stride: 4100, count: 2 }],
    'ANS of half a value': [
      { ...ANS, scalar: 'bf16' },
      { bytes: 4097, padded: 4608, count: 2, stride: 8192 },
    ],
    'an item behind its granule': [FP8, { offset: 512 }],
  }
  for (const [name, [coding, over]] of Object.entries(BAD)) {
    const define = (): number =>
      defineCoded([...whole(), ...whole(over)], [0, 1, 2], [RAW, coding].flatMap(codingFields))
    t.throws(define, { code: 'EINVAL', message: /item 1 / }, name)
  }
  const two = [...whole(), ...whole({ offset: 4096 })]
  t.throws(() => defineCoded(two, [0, 2], [FP8, FP8].flatMap(codingFields)), { code: 'EINVAL', message: /item 0 / })
  const big = { bytes: 2 ** 24 + 2, padded: 2 ** 25 }
  t.throws(() => defineCoded(whole(big), [0, 1], codingFields(FP8)), { code: 'EINVAL', message: /item 0 / })
})

test('templates: codings are as many as items, and of known kinds', (t) => {
  const fields = codingFields(FP8)
  for (const codings of [[], fields.slice(1), [...fields, ...fields], [...fields, 0]]) {
    t.throws(() => defineCoded(whole(), [0, 1], codings))
  }
  const over = (field: number, value: number): number[] => fields.map((was, i) => (i === field ? value : was))
  const refusal = { code: 'EINVAL', message: /item 0 / }
  for (let field = 0; field < ITEM_CODING.doubles; field++) {
    for (const wrong of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      t.throws(() => defineCoded(whole(), [0, 1], over(field, wrong)), refusal, `${field}: ${wrong}`)
    }
  }
  for (let field = 0; field < 3; field++) t.throws(() => defineCoded(whole(), [0, 1], over(field, 4)), refusal)
  const list = [0] as unknown as Float64Array
  const notAList = (): number => native.defineTemplate(Float64Array.from(whole()), Float64Array.of(0, 1), list)
  t.throws(notAList, { instanceOf: TypeError })
})
