import test from 'ava'
import fc from 'fast-check'
import { clipText, utf8Bytes, utf8Read, utf8Write } from '../../../../src/shared/layout/wire/utf8.js'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function reference(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}

test('utf8: reads exactly what the platform reads, and refuses exactly what it refuses', (t) => {
  const byte = fc.oneof(
    fc.nat(255),
    fc.constantFrom(0xc0, 0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0x80, 0x8f, 0x90, 0xa0, 0xbf),
  )
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 6 }), (values) => {
      const bytes = Uint8Array.from(values)
      return utf8Read(bytes, 0, bytes.length) === reference(bytes)
    }),
    { numRuns: 20_000 },
  )
  t.pass()
})

test('utf8: writes exactly what the platform writes', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (text) => {
      const expected = new TextEncoder().encode(text)
      const target = new Uint8Array(expected.length)
      return (
        utf8Bytes(text) === expected.length &&
        utf8Write(text, target, 0) === target.length &&
        Buffer.compare(target, expected) === 0
      )
    }),
    { numRuns: 2000 },
  )
  t.is(utf8Bytes('\ud800'), -1)
  t.is(utf8Bytes('a\udc00b'), -1)
})

test('utf8: clipping cuts between characters and replaces what cannot be written', (t) => {
  t.is(clipText('漢漢', 5), '漢')
  t.is(clipText('ab', 2), 'ab')
  t.is(clipText('\ud800x', 4), '\ufffdx')
  t.is(clipText('', 0), '')
})
