import test from 'ava'
import type { Fp8Variant } from '../../src/binding/codecs.js'
import { loadNative } from '../../src/binding/load.js'
import { needs } from '../support/needs.js'

const native = loadNative()
const here = native.fp8Variants()
const VARIANTS: Fp8Variant[] = ['portable', 'avx2', 'avx512', 'avx512vbmi']
type Source = 'bf16' | 'fp16'
const SOURCES: Source[] = ['bf16', 'fp16']
const PATTERNS = 65_536
const NOT_IN_RANGE = -1

/** The number that 16 bits mean: the definition of both formats, without a bit trick. */
function meaningOf(source: Source, bits: number): number {
  const mantissaBits = source === 'bf16' ? 7 : 10
  const exponentBits = 15 - mantissaBits
  const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1)
  const mantissa = bits & (2 ** mantissaBits - 1)
  const sign = bits >> 15 === 1 ? -1 : 1
  const bias = 2 ** (exponentBits - 1) - 1
  if (exponent === 2 ** exponentBits - 1) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits)
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias)
}

/** The magnitude that the low seven bits of a code mean. */
function magnitudeOf(code: number): number {
  const exponent = code >> 3
  const mantissa = code & 7
  return exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7)
}

/** Looks at every code: the nearest one, of two as near the even one. No arithmetic on bits. */
function nearestCode(value: number, negative: boolean): number {
  const magnitude = Math.abs(value)
  if (!(magnitude <= 448)) return NOT_IN_RANGE
  let best = 0
  for (let code = 1; code < 0x7f; code++) {
    const [a, b] = [Math.abs(magnitudeOf(code) - magnitude), Math.abs(magnitudeOf(best) - magnitude)]
    if (a < b || (a === b && code % 2 === 0)) best = code
  }
  return best | (negative ? 0x80 : 0)
}

const CODES = new Map(
  SOURCES.map((source) => [
    source,
    Int16Array.from({ length: PATTERNS }, (_, bits) => nearestCode(meaningOf(source, bits), bits >= 0x8000)),
  ]),
)
const codesOf = (source: Source): Int16Array => CODES.get(source) as Int16Array

function bytesOf(bits: Uint16Array): Uint8Array {
  return new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength)
}

function encode(bits: Uint16Array, source: Source, variant: Fp8Variant): { ok: boolean; codes: Uint8Array } {
  const codes = new Uint8Array(bits.length).fill(0xaa)
  return { ok: native.fp8Encode(bytesOf(bits), codes, source, variant), codes }
}

/** Every pattern in range, in the order of its bits, and their codes. */
function inRange(source: Source): { bits: Uint16Array; expected: Uint8Array } {
  const codes = codesOf(source)
  const bits = Uint16Array.from({ length: PATTERNS }, (_, i) => i).filter((each) => codes[each] !== NOT_IN_RANGE)
  return { bits, expected: Uint8Array.from(bits, (each) => codes[each] as number) }
}

test('FP8: the oracle agrees with the published counts and values', (t) => {
  const counts = SOURCES.map((source) => codesOf(source).filter((code) => code === NOT_IN_RANGE).length)
  t.deepEqual(counts, [30_782, 16_894])
  const rounded = [0, 1, 1.5, 2 ** 10 * 2 ** -7, 1.0625 * 1024, 17 * 1024].map((each) =>
    nearestCode(each / 1024, false),
  )
  t.deepEqual(rounded, [0x00, 0x00, 0x01, 0x04, 0x38, 0x58])
  t.deepEqual([nearestCode(1.1875, false), nearestCode(448, false), nearestCode(-0, true)], [0x3a, 0x7e, 0x80])
})

test('FP8: the portable variant is always there, and auto is one of those that are', (t) => {
  t.true(here.includes('portable'))
  t.deepEqual([...encode(Uint16Array.of(0x3f80, 0xc3e0), 'bf16', 'auto').codes], [0x38, 0xfe])
})

test('FP8: other shapes are refused and touch nothing', (t) => {
  const codes = new Uint8Array(4).fill(7)
  t.throws(() => native.fp8Encode(new Uint8Array(6), codes, 'bf16', 'auto'))
  t.throws(() => native.fp8Decode(codes, new Uint8Array(6), 'bf16', 'auto'))
  t.throws(() => native.fp8Encode(new Uint8Array(8), codes, 'fp8' as Source, 'auto'))
  t.throws(() => native.fp8Encode(new Uint8Array(8), codes, 'bf16', 'neon' as Fp8Variant), { code: 'EOPNOTSUPP' })
  t.deepEqual([...codes], [7, 7, 7, 7])
})

for (const variant of VARIANTS) {
  const held = needs(here.includes(variant), `this processor has no ${variant}`)

  for (const source of SOURCES) {
    held(`FP8 ${variant}: every ${source} pattern in range becomes the nearest code, ties to even`, (t) => {
      const { bits, expected } = inRange(source)
      const { ok, codes } = encode(bits, source, variant)
      t.true(ok)
      t.deepEqual(Buffer.compare(codes, expected), 0)
    })

    held(`FP8 ${variant}: every ${source} pattern out of range is refused, at every place of a block`, (t) => {
      const codes = codesOf(source)
      const bits = new Uint16Array(67)
      const accepted: number[] = []
      for (let pattern = 0; pattern < PATTERNS; pattern++) {
        const place = pattern % bits.length
        bits[place] = pattern
        if (encode(bits, source, variant).ok !== (codes[pattern] !== NOT_IN_RANGE)) accepted.push(pattern)
        bits[place] = 0
      }
      t.deepEqual(accepted, [])
      for (let place = 0; place < bits.length; place++) {
        bits[place] = 0x7fff
        t.false(encode(bits, source, variant).ok, `place ${place}`)
        bits[place] = 0
      }
    })

    held(`FP8 ${variant}: every code comes back as the ${source} value that it means, and encodes to itself`, (t) => {
      const codes = Uint8Array.from({ length: 256 }, (_, code) => code).filter((code) => (code & 0x7f) !== 0x7f)
      const bits = new Uint16Array(codes.length)
      t.true(native.fp8Decode(codes, bytesOf(bits), source, variant))
      for (const [i, code] of codes.entries()) {
        const value = meaningOf(source, bits[i] as number)
        t.is(Math.abs(value), magnitudeOf(code & 0x7f), `code ${code}`)
        t.is((bits[i] as number) >> 15, code >> 7, `sign of ${code}`)
      }
      t.deepEqual([...encode(bits, source, variant).codes], [...codes])
    })

    held(`FP8 ${variant}: a NaN code is refused at every place, whatever its sign (${source})`, (t) => {
      const values = new Uint8Array(2 * 67)
      for (const nan of [0x7f, 0xff]) {
        for (let place = 0; place < 67; place++) {
          const codes = new Uint8Array(67).fill(0x7e)
          codes[place] = nan
          t.false(native.fp8Decode(codes, values, source, variant), `${nan} at ${place}`)
        }
      }
    })

    held(`FP8 ${variant}: any length from any address writes its own bytes and no others (${source})`, (t) => {
      const { bits, expected } = inRange(source)
      const all = bytesOf(bits)
      const wrong: string[] = []
      for (let length = 0; length <= 130; length++) {
        const first = (length * 251) % (bits.length - length)
        const offset = length % 7
        const values = new Uint8Array(all.length + 8)
        values.set(all.subarray(2 * first, 2 * (first + length)), offset)
        const codes = new Uint8Array(length + 16).fill(0xee)
        const own = codes.subarray(1 + offset, 1 + offset + length)
        const ok = native.fp8Encode(values.subarray(offset, offset + 2 * length), own, source, variant)
        const same = Buffer.compare(own, expected.subarray(first, first + length)) === 0
        const around = [...codes.subarray(0, 1 + offset), ...codes.subarray(1 + offset + length)]
        const back = new Uint8Array(2 * length + 16).fill(0xee)
        const decoded = back.subarray(1 + offset, 1 + offset + 2 * length)
        const backOk = native.fp8Decode(own, decoded, source, variant)
        const again = new Uint8Array(length)
        native.fp8Encode(decoded, again, source, 'portable')
        const beyond = [...back.subarray(0, 1 + offset), ...back.subarray(1 + offset + 2 * length)]
        const kept = [...around, ...beyond].every((byte) => byte === 0xee)
        if (!ok || !same || !backOk || !kept || Buffer.compare(again, own) !== 0) wrong.push(`${length} at ${offset}`)
      }
      t.deepEqual(wrong, [])
    })
  }
}
