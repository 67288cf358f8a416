import { crc32 as zlibCrc32 } from 'node:zlib'
import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import type { Native } from '../../src/binding/surface.js'
import { needs } from '../support/needs.js'

const native = loadNative()
type Variant = Parameters<Native['crc32']>[2]

const ALL: Variant[] = ['portable', 'pclmul', 'vpclmul', 'vpclmul512']
const here = native.crc32Variants()

/** Bytes without a period that a kernel's block size could hide behind. */
function noise(count: number): Uint8Array {
  const bytes = new Uint8Array(count)
  let state = 0x9e3779b9
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    bytes[i] = state >>> 24
  }
  return bytes
}

const ascii = (text: string): Uint8Array => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const counted = (count: number, value: (i: number) => number): Uint8Array =>
  Uint8Array.from({ length: count }, (_, i) => value(i))

/** Published values of the polynomial, and some of our own record. */
const VECTORS: [string, Uint8Array, number][] = [
  ['empty', new Uint8Array(0), 0],
  ['a', ascii('a'), 0xe8b7be43],
  ['123456789', ascii('123456789'), 0xcbf43926],
  ['fox', ascii('The quick brown fox jumps over the lazy dog'), 0x414fa339],
  ['32 x 00', counted(32, () => 0), 0x190a55ad],
  ['32 x ff', counted(32, () => 0xff), 0xff6cab0b],
  ['00..1f', counted(32, (i) => i), 0x91267e8a],
  ['00..ff', counted(256, (i) => i), 0x29058c73],
  ['4096 x 00', counted(4096, () => 0), 0xc71c0011],
  ['4096 x ff', counted(4096, () => 0xff), 0xf154670a],
  ['1 MiB of 31 i', counted(1 << 20, (i) => (i * 31) & 255), 0xf62349d8],
]

test('CRC32: the portable variant is always there, and auto is one of those that are', (t) => {
  t.true(here.includes('portable'))
  t.is(native.crc32(ascii('123456789'), 0, 'auto'), 0xcbf43926)
})

for (const variant of ALL) {
  const held = needs(here.includes(variant), `this processor has no ${variant}`)

  held(`CRC32 ${variant}: the vectors of the polynomial hold`, (t) => {
    for (const [name, bytes, crc] of VECTORS) t.is(native.crc32(bytes, 0, variant), crc, name)
  })

  held(`CRC32 ${variant}: equals zlib for every size to 5000, at every alignment, from any start`, (t) => {
    const bytes = noise(5000 + 64)
    const wrong: string[] = []
    for (let size = 0; size <= 5000; size++) {
      const offset = (size * 7) % 64
      const view = bytes.subarray(offset, offset + size)
      const start = Math.imul(size, 2654435761) >>> 0
      if (native.crc32(view, start, variant) !== zlibCrc32(view, start)) wrong.push(`${size} at ${offset}`)
    }
    t.deepEqual(wrong, [])
  })

  held(`CRC32 ${variant}: any cut of a message gives the CRC of the whole`, (t) => {
    const bytes = noise(3001)
    const whole = zlibCrc32(bytes)
    const wrong: number[] = []
    for (let cut = 0; cut <= bytes.length; cut += 3) {
      const head = native.crc32(bytes.subarray(0, cut), 0, variant)
      if (native.crc32(bytes.subarray(cut), head, variant) !== whole) wrong.push(cut)
    }
    t.deepEqual(wrong, [])
  })

  held(`CRC32 ${variant}: every flipped bit of a message changes it`, (t) => {
    const bytes = noise(1040)
    const whole = native.crc32(bytes, 0, variant)
    const unseen: number[] = []
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const at = bit >> 3
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7))
      if (native.crc32(bytes, 0, variant) === whole) unseen.push(bit)
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7))
    }
    t.deepEqual(unseen, [])
  })
}

test('CRC32: wrong shapes and unknown variants are refused by name', (t) => {
  const loose = native.crc32 as (...given: unknown[]) => number
  t.throws(() => loose([1, 2], 0, 'auto'), { instanceOf: TypeError })
  t.throws(() => loose(new Uint8Array(1), -1, 'auto'), { instanceOf: TypeError })
  t.throws(() => loose(new Uint8Array(1), 2 ** 32, 'auto'), { instanceOf: TypeError })
  t.throws(() => loose(new Uint8Array(1), 0, 'crc32c'), { code: 'EOPNOTSUPP' })
})
