import test from 'ava'
import type { ItemCoding } from '../../../src/shared/codec/coding.js'
import { narrow } from '../../../src/shared/codec/narrow-floats.js'
import { decodeTurboquant, encodeTurboquant, hadamard, isNegated } from '../../../src/shared/codec/turboquant.js'

const coding = (over: Partial<ItemCoding>): ItemCoding => ({
  format: 'turboquant',
  scalar: 'bf16',
  role: 'k',
  bits: 4,
  headDim: 32,
  seed: 42,
  ...over,
})

const bf16 = (values: readonly number[]): Uint8Array =>
  new Uint8Array(Uint16Array.from(values, (value) => narrow('bf16', value)).buffer)

test('turboquant: the transform is the matrix of signs (-1)^(bits that i and j share)', (t) => {
  for (const dim of [32, 64, 128, 256]) {
    for (const j of [0, 1, 5, dim - 1]) {
      const x = Array.from({ length: dim }, (_, i) => (i === j ? 1 : 0))
      hadamard(x)
      const expected = x.map((_, i) => ((i & j).toString(2).replaceAll('0', '').length % 2 === 0 ? 1 : -1))
      t.deepEqual(x, expected)
    }
  }
})

test('turboquant: signs are those of version 1, fair, and others for another layer', (t) => {
  const signs = (seed: number): string =>
    Array.from({ length: 32 }, (_, i) => (isNegated(seed, i) ? '-' : '+')).join('')
  t.is(signs(42), '++-+-+-++++-+-+---+-+-+-++-+---+')
  t.not(signs(42), signs(42 + 1337))
  for (const seed of [0, 42, 1379, 0xffffffff]) {
    const negated = Array.from({ length: 4096 }, (_, i) => isNegated(seed, i)).filter(Boolean).length
    t.true(Math.abs(negated - 2048) < 200, `${negated} of 4096 with seed ${seed}`)
  }
})

test('turboquant: codes are packed from the lowest bit on, and the trailers follow', (t) => {
  const ramp = Array.from({ length: 32 }, (_, i) => Math.min(i, 15))
  const stored = encodeTurboquant(coding({ role: 'v' }), bf16(ramp)) as Uint8Array
  t.is(stored.length, 20)
  t.deepEqual([...stored.subarray(0, 8)], [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe])
  t.deepEqual([...stored.subarray(16)], [0x00, 0x3c, 0, 0]) // a step of 1 from 0 on
  const three = encodeTurboquant(coding({ role: 'v', bits: 3 }), bf16(ramp.map((_, i) => i % 8))) as Uint8Array
  t.deepEqual([...three.subarray(0, 3)], [0b10001000, 0b11000110, 0b11111010])
  t.deepEqual(decodeTurboquant(coding({ role: 'v' }), stored, 64), bf16(ramp))
})

test('turboquant: a value on a boundary takes the lower level', (t) => {
  // Two equal coordinates: half of the rotated ones are exactly 0, the boundary between levels 7 and 8.
  const x = Array.from({ length: 32 }, (_, i) => (i < 2 ? 1 : 0))
  const stored = encodeTurboquant(coding({}), bf16(x)) as Uint8Array
  const codes = [...stored.subarray(0, 16)].flatMap((byte) => [byte & 15, byte >> 4])
  t.is(codes.filter((code) => code === 7).length, 16)
  t.true(codes.every((code) => code !== 8))
})
