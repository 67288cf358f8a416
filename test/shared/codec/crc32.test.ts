import { crc32 as platformCrc32 } from 'node:zlib'
import test from 'ava'
import fc from 'fast-check'
import { crc32, crc32Strided } from '../../../src/shared/codec/crc32.js'
import { catches, holds } from '../../support/model-commands.js'

test('crc32: the check value of the standard', (t) => {
  t.is(crc32(Buffer.from('123456789')), 0xcbf43926)
  t.is(crc32(new Uint8Array(0)), 0)
  t.is(crc32(new Uint8Array(32).fill(0xff)), 0xff6cab0b)
})

test('crc32: equal to the platform for every length, alignment and division', (t) => {
  const bytes = fc.uint8Array({ maxLength: 100 })
  const property = fc.property(bytes, fc.nat(100), fc.nat(7), (all, cut, skip) => {
    const view = all.subarray(Math.min(skip, all.length))
    const at = Math.min(cut, view.length)
    return crc32(view.subarray(at), crc32(view.subarray(0, at))) === platformCrc32(view)
  })
  t.true(holds(property, 2000))
})

type Strided = (bytes: Uint8Array, segmentBytes: number, strideBytes: number) => number

/** The checksum of the segments put together without their padding. */
function coversSegments(strided: Strided): fc.IProperty<[number, number, Uint8Array]> {
  return fc.property(
    fc.integer({ min: 1, max: 20 }),
    fc.nat(9),
    fc.uint8Array({ minLength: 29, maxLength: 150 }),
    (segment, padding, raw) => {
      const stride = segment + padding
      const bytes = raw.subarray(0, raw.length - (raw.length % stride))
      const segments: number[] = []
      for (let at = 0; at < bytes.length; at += stride) segments.push(...bytes.subarray(at, at + segment))
      return strided(bytes, segment, stride) === platformCrc32(Uint8Array.from(segments))
    },
  )
}

test('crc32Strided: covers the first segmentBytes of every stride and no padding', (t) => {
  t.true(holds(coversSegments(crc32Strided), 1000))
})

test('crc32Strided: twins that cover padding or start anew each stride are caught', (t) => {
  t.true(catches(coversSegments((bytes) => crc32(bytes))))
  t.true(
    catches(
      coversSegments((bytes, segment, stride) => {
        let crc = 0
        for (let at = 0; at < bytes.length; at += stride) crc ^= crc32(bytes.subarray(at, at + segment))
        return crc >>> 0
      }),
    ),
  )
})
