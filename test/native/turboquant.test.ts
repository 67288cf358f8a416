import { crc32 } from 'node:zlib'
import test from 'ava'
import type { TurboquantVariant } from '../../src/binding/codecs.js'
import { loadNative } from '../../src/binding/load.js'
import { type ItemCoding, storedBytesOf } from '../../src/shared/codec/coding.js'
import { type NarrowFloat, narrow, widen } from '../../src/shared/codec/narrow-floats.js'
import { decodeTurboquant, encodeTurboquant } from '../../src/shared/codec/turboquant.js'
import { needs } from '../support/needs.js'
import { codingFields, Gaussians } from './coded-engine.js'

/** The addon's TurboQuant against the reference in plain TypeScript, and against what the literature says of its errors. */
const native = loadNative()
const here = native.turboquantVariants()
const VARIANTS: TurboquantVariant[] = ['portable', 'avx2', 'avx512']
const DIMS = [32, 64, 128, 256]
const SCALARS: NarrowFloat[] = ['bf16', 'fp16']
const ROLES = ['k', 'v', 'packed'] as const
const BITS = [3, 4]

const coding = (over: Partial<ItemCoding>): ItemCoding => ({
  format: 'turboquant',
  scalar: 'bf16',
  role: 'k',
  bits: 4,
  headDim: 128,
  seed: 1379,
  ...over,
})

/** Every coding there is. */
const CODINGS = DIMS.flatMap((headDim) =>
  SCALARS.flatMap((scalar) => ROLES.flatMap((role) => BITS.map((bits) => coding({ headDim, scalar, role, bits })))),
)

function encode(of: ItemCoding, item: Uint8Array, variant: TurboquantVariant = 'auto'): Uint8Array | null {
  const stored = new Uint8Array(storedBytesOf(of, item.length)).fill(0xaa)
  return native.turboquantEncode(item, stored, Float64Array.from(codingFields(of)), variant) ? stored : null
}

function decode(
  of: ItemCoding,
  stored: Uint8Array,
  itemBytes: number,
  variant: TurboquantVariant = 'auto',
): Uint8Array | null {
  const item = new Uint8Array(itemBytes).fill(0xaa)
  return native.turboquantDecode(stored, item, Float64Array.from(codingFields(of)), variant) ? item : null
}

const bytesOf = (scalar: NarrowFloat, values: readonly number[]): Uint8Array =>
  new Uint8Array(Uint16Array.from(values, (value) => narrow(scalar, value)).buffer)

const valuesOf = (scalar: NarrowFloat, bytes: Uint8Array): number[] =>
  Array.from(new Uint16Array(bytes.slice().buffer), (bits) => widen(scalar, bits))

/** Vectors of many kinds: every one can be coded, and together they reach every branch. */
function vectorsFor(headDim: number, seed: number): number[] {
  const gauss = new Gaussians(seed)
  const normal = (scale: number, shift = 0): number[] =>
    Array.from({ length: headDim }, () => gauss.next() * scale + shift)
  const only = (...places: number[]): number[] =>
    Array.from({ length: headDim }, (_, i) => (places.includes(i) ? 1 : 0))
  return [
    normal(1),
    normal(1),
    normal(40),
    normal(0.01),
    normal(1, 100),
    normal(200, -3000),
    normal(1e-4),
    only(),
    only(0),
    only(headDim - 1),
    only(0, 1),
    only(3, 7, 12, headDim - 2),
    Array.from({ length: headDim }, () => -1.25),
    Array.from({ length: headDim }, (_, i) => (i % 2 === 0 ? -0 : 0)),
    Array.from({ length: headDim }, (_, i) => (i === 5 ? 60_000 : -i)),
    Array.from({ length: headDim }, (_, i) => i - headDim / 2),
  ].flat()
}

for (const variant of VARIANTS) {
  const held = needs(here.includes(variant), `this processor has no ${variant}`)
  held(`turboquant: ${variant} encodes as the reference does, bit for bit, in every coding`, (t) => {
    for (const [i, of] of CODINGS.entries()) {
      const item = bytesOf(of.scalar as NarrowFloat, vectorsFor(of.headDim, i + 1))
      const expected = encodeTurboquant(of, item)
      t.not(expected, null)
      t.deepEqual(encode(of, item, variant), expected, JSON.stringify(of))
    }
  })

  held(`turboquant: ${variant} decodes as the reference does, bit for bit, also what no encoder wrote`, (t) => {
    for (const [i, of] of CODINGS.entries()) {
      const item = bytesOf(of.scalar as NarrowFloat, vectorsFor(of.headDim, i + 1))
      const stored = encode(of, item) as Uint8Array
      t.deepEqual(
        decode(of, stored, item.length, variant),
        decodeTurboquant(of, stored, item.length),
        JSON.stringify(of),
      )
      // Bytes at random, with trailers of every exponent: where one is not finite both refuse.
      let state = i + 1
      let refused = 0
      for (let round = 0; round < 16; round++) {
        const two = item.subarray(0, 4 * of.headDim)
        const noise = new Uint8Array(storedBytesOf(of, two.length))
        for (let at = 0; at < noise.length; at++) {
          state = (Math.imul(state, 1664525) + 1013904223) >>> 0
          noise[at] = state >>> 24
        }
        const expected = decodeTurboquant(of, noise, two.length)
        if (expected === null) refused++
        t.deepEqual(decode(of, noise, two.length, variant), expected, JSON.stringify(of))
      }
      t.true(refused < 16)
    }
  })

  held(`turboquant: ${variant} works at every alignment and touches nothing beside its bytes`, (t) => {
    for (const of of CODINGS.filter(({ scalar, headDim }) => scalar === 'bf16' && headDim <= 64)) {
      const item = bytesOf('bf16', vectorsFor(of.headDim, 77))
      const stored = encodeTurboquant(of, item) as Uint8Array
      const back = decodeTurboquant(of, stored, item.length) as Uint8Array
      const fields = Float64Array.from(codingFields(of))
      for (let offset = 0; offset < 16; offset++) {
        const from = new Uint8Array(offset + item.length)
        from.set(item, offset)
        const to = new Uint8Array(stored.length + 32).fill(0x5a)
        const place = to.subarray(15 - offset, 15 - offset + stored.length)
        t.true(native.turboquantEncode(from.subarray(offset), place, fields, variant))
        t.deepEqual(place, stored)
        const target = new Uint8Array(item.length + 32).fill(0x5a)
        const page = target.subarray(offset, offset + item.length)
        t.true(native.turboquantDecode(place, page, fields, variant))
        t.deepEqual(page, back)
        t.true([...to.fill(0x5a, 15 - offset, 15 - offset + stored.length)].every((byte) => byte === 0x5a))
        t.true([...target.fill(0x5a, offset, offset + item.length)].every((byte) => byte === 0x5a))
      }
    }
  })
}

test('turboquant: a vector that cannot be coded refuses its item, wherever it is', (t) => {
  const flat = (scalar: NarrowFloat, headDim: number, bad: (i: number) => number): Uint8Array =>
    bytesOf(
      scalar,
      Array.from({ length: headDim }, (_, i) => bad(i)),
    )
  const BAD: Record<string, { roles: ('k' | 'v')[]; scalars: NarrowFloat[]; value: (i: number) => number }> = {
    'not a number': { roles: ['k', 'v'], scalars: ['bf16', 'fp16'], value: (i) => (i === 17 ? Number.NaN : 1) },
    infinite: { roles: ['k', 'v'], scalars: ['bf16', 'fp16'], value: (i) => (i === 31 ? Number.POSITIVE_INFINITY : i) },
    'less than everything': { roles: ['k', 'v'], scalars: ['bf16', 'fp16'], value: (i) => (i === 0 ? -Infinity : i) },
    'a norm above FP16': { roles: ['k'], scalars: ['bf16', 'fp16'], value: () => 65_000 },
    'a norm above binary32': { roles: ['k'], scalars: ['bf16'], value: () => 1e30 },
    'a norm that FP16 has no bit for': { roles: ['k'], scalars: ['bf16'], value: (i) => (i === 3 ? 1e-8 : 0) },
    'values that have no squares': { roles: ['k'], scalars: ['bf16'], value: () => 1e-30 },
    'one value that has no square': { roles: ['k'], scalars: ['bf16'], value: (i) => (i === 21 ? -1e-30 : -0) },
    'the least values there are': { roles: ['k'], scalars: ['bf16'], value: (i) => (i % 2 === 0 ? 2 ** -133 : 0) },
    'a least value below FP16': { roles: ['v'], scalars: ['bf16'], value: (i) => -70_000 - i * 512 },
    'a step above FP16': { roles: ['v'], scalars: ['bf16'], value: (i) => (i === 9 ? 1.1e6 : 0) },
    'a range above binary32': { roles: ['v'], scalars: ['bf16'], value: (i) => (i % 2 === 0 ? 3e38 : -3e38) },
    'a step that FP16 has no bit for': { roles: ['v'], scalars: ['bf16'], value: (i) => (i === 9 ? 1e-7 : 0) },
  }
  for (const [name, { roles, scalars, value }] of Object.entries(BAD)) {
    for (const [scalar, headDim] of scalars.flatMap((scalar) => DIMS.map((dim) => [scalar, dim] as const))) {
      const bad = flat(scalar, headDim, value)
      const good = flat(scalar, headDim, (i) => i / 8)
      const items: [ItemCoding['role'], Uint8Array[]][] = roles.flatMap((role) => [
        [role, [bad, good, good]],
        [role, [good, good, bad]],
        ['packed', role === 'k' ? [good, good, bad, good] : [good, good, good, bad]],
      ])
      for (const [role, vectors] of items) {
        const of = coding({ headDim, scalar, role, bits: 3 + (headDim === 32 ? 1 : 0) })
        const item = new Uint8Array(Buffer.concat(vectors))
        const coded = (here as TurboquantVariant[]).filter((variant) => encode(of, item, variant) !== null)
        t.deepEqual(coded, [], `${name}: ${JSON.stringify(of)}`)
        t.is(encodeTurboquant(of, item), null, `${name}: ${JSON.stringify(of)}`)
      }
    }
  }
})

test('turboquant: what just fits is coded', (t) => {
  const of = coding({ headDim: 32, role: 'k' })
  for (const value of [2 ** -24, 65_280]) {
    const hot = [value, ...Array.from({ length: 31 }, () => 0)]
    const back = valuesOf('bf16', decode(of, encode(of, bytesOf('bf16', hot)) as Uint8Array, 64) as Uint8Array)
    t.deepEqual(
      back.map((x) => x + 0),
      hot,
    )
  }
})

test('turboquant: values without squares are coded beside one that has one, and nothing is coded as nothing', (t) => {
  for (const headDim of DIMS) {
    const of = coding({ headDim, role: 'k' })
    const hot = (value: number, others: number): number[] =>
      Array.from({ length: headDim }, (_, i) => (i === 5 ? value : i % 2 === 0 ? others : -others))
    for (const vector of [hot(1, 1e-30), hot(-(2 ** -24), 1e-30), hot(0, 0)]) {
      const item = bytesOf('bf16', vector)
      const expected = encodeTurboquant(of, item)
      for (const variant of here as TurboquantVariant[]) t.deepEqual(encode(of, item, variant), expected)
      const back = valuesOf('bf16', decode(of, expected as Uint8Array, item.length) as Uint8Array)
      t.deepEqual(
        back.map((x) => x + 0),
        hot(vector[5] as number, 0).map((x) => x + 0),
      )
    }
  }
})

test('turboquant: a trailer that is not finite is no coding', (t) => {
  for (const of of CODINGS) {
    const item = bytesOf(of.scalar as NarrowFloat, vectorsFor(of.headDim, 3))
    const good = encode(of, item) as Uint8Array
    const step = storedBytesOf(of, 2 * of.headDim * (of.role === 'packed' ? 2 : 1))
    const codes = (of.headDim * of.bits) / 8
    const trailers = { k: [codes], v: [codes, codes + 2], packed: [codes, step - 4, step - 2] }[of.role as 'k']
    for (const trailer of trailers) {
      for (const bits of [0x7c00, 0xfc00, 0x7e00, 0xffff]) {
        const bad = good.slice()
        new DataView(bad.buffer).setUint16(good.length - step + trailer, bits, true)
        for (const variant of here as TurboquantVariant[]) t.is(decode(of, bad, item.length, variant), null)
        t.is(decodeTurboquant(of, bad, item.length), null)
      }
    }
  }
})

test('turboquant: zero, one-hot and constant vectors come back exactly', (t) => {
  for (const headDim of DIMS) {
    for (const bits of BITS) {
      const key = coding({ headDim, bits, role: 'k' })
      const value = coding({ headDim, bits, role: 'v' })
      const exact = (of: ItemCoding, values: number[]): void => {
        const item = bytesOf('bf16', values)
        t.deepEqual(decode(of, encode(of, item) as Uint8Array, item.length), item, JSON.stringify(of))
      }
      exact(
        key,
        Array.from({ length: headDim }, () => 0),
      )
      exact(
        value,
        Array.from({ length: headDim }, () => 0),
      )
      for (let place = 0; place < headDim; place += 7) {
        const hot = Array.from({ length: headDim }, (_, i) => (i === place ? -1.5 : 0))
        const [stored] = [encode(key, bytesOf('bf16', hot)) as Uint8Array]
        // What is not the hot coordinate may be the zero of either sign.
        t.deepEqual(
          valuesOf('bf16', decode(key, stored, 2 * headDim) as Uint8Array).map((x) => x + 0),
          hot,
        )
      }
      for (const constant of [1, -1, 0.0078125, 448, -3.984375, 65_280, 2 ** -14]) {
        exact(
          value,
          Array.from({ length: headDim }, () => constant),
        )
      }
    }
  }
})

test('turboquant: sizes of vectors are those of the format', (t) => {
  const SIZES: Record<number, [number, number, number, number]> = {
    32: [18, 20, 14, 16],
    64: [34, 36, 26, 28],
    128: [66, 68, 50, 52],
    256: [130, 132, 98, 100],
  }
  for (const headDim of DIMS) {
    const sizes = [4, 3].flatMap((bits) =>
      (['k', 'v'] as const).map((role) => storedBytesOf(coding({ headDim, bits, role }), 2 * headDim)),
    )
    t.deepEqual(sizes, SIZES[headDim])
    const item = bytesOf(
      'bf16',
      Array.from({ length: 2 * headDim }, (_, i) => i % 9),
    )
    t.is(encode(coding({ headDim, role: 'packed', bits: 3 }), item)?.length, 2 * ((headDim * 3) / 8) + 6)
  }
})

test('turboquant: the bytes of version 1 stay what they are', (t) => {
  const item = bytesOf('bf16', vectorsFor(128, 2024))
  t.deepEqual(
    ROLES.flatMap((role) => BITS.map((bits) => crc32(encode(coding({ role, bits }), item) as Uint8Array))),
    VERSION_1,
  )
})
const VERSION_1 = [4169025240, 3132616473, 2820481272, 410689191, 1918023304, 372414685]

/** Bounds of relative square errors over vectors of N(0, 1), with margins for a sample of 2,048. */
const BOUNDS = { k: { 3: 0.038, 4: 0.0105 }, v: { 3: 0.062, 4: 0.014 } } as const
const COSINE_MEAN_MIN = { 3: 0.97, 4: 0.993 } as const

for (const headDim of DIMS) {
  for (const role of ['k', 'v'] as const) {
    for (const bits of [3, 4] as const) {
      test(`turboquant: errors of ${role}${bits} with ${headDim} values stay within the bounds of the method`, (t) => {
        const gauss = new Gaussians(headDim + bits)
        const of = coding({ headDim, bits, role })
        const vectors = 2048
        const item = bytesOf(
          'bf16',
          Array.from({ length: vectors * headDim }, () => gauss.next()),
        )
        const back = valuesOf('bf16', decode(of, encode(of, item) as Uint8Array, item.length) as Uint8Array)
        const values = valuesOf('bf16', item)
        let [error, energy, cosines] = [0, 0, 0]
        for (let at = 0; at < values.length; at += headDim) {
          let [xx, yy, xy] = [0, 0, 0]
          for (let i = at; i < at + headDim; i++) {
            const [x, y] = [values[i] as number, back[i] as number]
            xx += x * x
            yy += y * y
            xy += x * y
            error += (x - y) ** 2
          }
          energy += xx
          cosines += xy / Math.sqrt(xx * yy)
          if (role === 'k') t.true(Math.abs(Math.sqrt(yy / xx) - 1) <= 0.0025, `norm ${Math.sqrt(yy / xx)}`)
        }
        t.true(error / energy <= BOUNDS[role][bits], `relative square error ${error / energy}`)
        t.true(error / energy > BOUNDS[role][bits] / 4, `relative square error ${error / energy}`)
        t.true(cosines / vectors >= COSINE_MEAN_MIN[bits], `mean cosine ${cosines / vectors}`)
      })
    }
  }
}

test('turboquant: one channel twenty times as large does not spoil keys, as it would values', (t) => {
  const gauss = new Gaussians(5)
  const item = bytesOf(
    'bf16',
    Array.from({ length: 512 * 128 }, (_, i) => gauss.next() * (i % 128 === 11 ? 20 : 1)),
  )
  const values = valuesOf('bf16', item)
  const errorOf = (role: 'k' | 'v'): number => {
    const of = coding({ role })
    const back = valuesOf('bf16', decode(of, encode(of, item) as Uint8Array, item.length) as Uint8Array)
    const sum = (numbers: number[]): number => numbers.reduce((a, b) => a + b, 0)
    return sum(values.map((x, i) => (x - (back[i] as number)) ** 2)) / sum(values.map((x) => x * x))
  }
  t.true(errorOf('k') < 0.0105)
  t.true(errorOf('v') > 0.02)
})

test('turboquant: other shapes are refused', (t) => {
  const item = new Uint8Array(256)
  const fields = (over: Partial<ItemCoding>): Float64Array => Float64Array.from(codingFields(coding(over)))
  const refused = (from: Uint8Array, to: Uint8Array, as: Float64Array): void => {
    t.throws(() => native.turboquantEncode(from, to, as, 'auto'), { instanceOf: TypeError })
    t.throws(() => native.turboquantDecode(to, from, as, 'auto'), { instanceOf: TypeError })
  }
  refused(item, new Uint8Array(65), fields({}))
  refused(item, new Uint8Array(67), fields({}))
  refused(new Uint8Array(254), new Uint8Array(66), fields({}))
  refused(new Uint8Array(0), new Uint8Array(0), fields({}))
  refused(item, new Uint8Array(66), fields({ headDim: 96 }))
  refused(item, new Uint8Array(66), fields({ headDim: 16 }))
  refused(item, new Uint8Array(66), fields({ bits: 2 }))
  refused(item, new Uint8Array(66), fields({ scalar: 'e4m3' }))
  refused(item, new Uint8Array(66), fields({ role: 'none' }))
  refused(item, new Uint8Array(128), fields({ format: 'fp8', bits: 0, headDim: 0, seed: 0 }))
  refused(item, new Uint8Array(66), fields({}).fill(Number.NaN, 5))
  refused(item, new Uint8Array(66), fields({}).subarray(0, 5))
  const unknown = (): boolean => native.turboquantEncode(item, new Uint8Array(66), fields({}), 'neon' as 'auto')
  t.throws(unknown, { code: 'EOPNOTSUPP' })
})
