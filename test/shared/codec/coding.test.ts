import test from 'ava'
import fc from 'fast-check'
import { type ItemCoding, RAW, savesEnough, storedBytesOf, vectorBytes } from '../../../src/shared/codec/coding.js'
import { holds } from '../../support/model-commands.js'

const turboquant = (role: 'k' | 'v' | 'packed', headDim: number, bits: number): ItemCoding => ({
  format: 'turboquant',
  scalar: 'bf16',
  role,
  bits,
  headDim,
  seed: 42,
})

test('coding: a vector takes the bytes of the table', (t) => {
  const table = [
    [32, 4, 18, 20],
    [32, 3, 14, 16],
    [64, 4, 34, 36],
    [64, 3, 26, 28],
    [128, 4, 66, 68],
    [128, 3, 50, 52],
    [256, 4, 130, 132],
    [256, 3, 98, 100],
  ] as const
  for (const [headDim, bits, k, v] of table) {
    const vectors = 24
    const itemBytes = headDim * 2 * vectors
    t.is(storedBytesOf(turboquant('k', headDim, bits), itemBytes), k * vectors)
    t.is(storedBytesOf(turboquant('v', headDim, bits), itemBytes), v * vectors)
    t.is(storedBytesOf(turboquant('packed', headDim, bits), itemBytes * 2), (k + v) * vectors)
    t.is(vectorBytes(turboquant('packed', headDim, bits)), 2 * vectorBytes(turboquant('k', headDim, bits)))
  }
})

test('coding: FP8 takes a byte a value; the length of ANS and of raw items is not known to be less', (t) => {
  t.is(storedBytesOf({ ...RAW, format: 'fp8', scalar: 'fp16' }, 65_536), 32_768)
  t.is(storedBytesOf({ ...RAW, format: 'ans', scalar: 'fp16' }, 65_536), 65_536)
  t.is(storedBytesOf(RAW, 65_537), 65_537)
})

test('coding: one is kept when its sectors are at most seven eighths of the sectors of the item', (t) => {
  t.true(savesEnough(3584, 4096))
  t.false(savesEnough(3585, 4096))
  t.true(savesEnough(512, 1024))
  t.false(savesEnough(256, 512), 'a sector is a sector')
  t.true(savesEnough(1, 513))
  const property = fc.property(fc.integer({ min: 1, max: 2 ** 24 }), fc.integer({ min: 1, max: 2 ** 24 }), (a, b) => {
    const [stored, item] = a < b ? [a, b] : [b, a]
    const [sectors, of] = [Math.ceil(stored / 512), Math.ceil(item / 512)]
    return savesEnough(stored, item) === sectors <= (of * 7) / 8
  })
  t.true(holds(property, 2000))
})
