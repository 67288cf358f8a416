import test from 'ava'
import { largestFinite, type NarrowFloat, narrow, widen } from '../../../src/shared/codec/narrow-floats.js'

const FORMATS: NarrowFloat[] = ['bf16', 'fp16']
const PATTERNS = Array.from({ length: 65_536 }, (_, bits) => bits)

for (const format of FORMATS) {
  test(`narrow floats: every ${format} pattern means a number that narrows to it again`, (t) => {
    const wrong = PATTERNS.filter(
      (bits) => !Number.isNaN(widen(format, bits)) && narrow(format, widen(format, bits)) !== bits,
    )
    t.deepEqual(wrong, [])
  })

  test(`narrow floats: between two neighbours of ${format} the nearer one is taken, and of two as near the even one`, (t) => {
    const infinity = PATTERNS.findIndex((bits) => widen(format, bits) === Number.POSITIVE_INFINITY)
    for (let bits = 0; bits + 1 < infinity; bits++) {
      const [low, high] = [widen(format, bits), widen(format, bits + 1)]
      const middle = (low + high) / 2
      const quarter = (low + middle) / 2
      t.is(narrow(format, quarter), bits)
      t.is(narrow(format, -quarter), bits | 0x8000)
      t.is(narrow(format, middle), bits + (bits % 2))
      t.is(narrow(format, (middle + high) / 2), bits + 1)
    }
    t.is(narrow(format, largestFinite(format) * 1.01), infinity)
    t.is(narrow(format, Number.POSITIVE_INFINITY), infinity)
    t.true(Number.isNaN(widen(format, narrow(format, Number.NaN))))
  })
}

test('narrow floats: known values', (t) => {
  t.is(largestFinite('fp16'), 65504)
  t.is(widen('bf16', 0x3f80), 1)
  t.is(widen('fp16', 0x3c00), 1)
  t.is(widen('fp16', 0x0001), 2 ** -24)
  t.is(widen('bf16', 0x0001), 2 ** -133)
  t.is(narrow('fp16', 65519.99), 0x7bff)
  t.is(narrow('fp16', 65520), 0x7c00)
  t.is(narrow('fp16', 2 ** -25), 0)
  t.is(narrow('bf16', -0), 0x8000)
})
