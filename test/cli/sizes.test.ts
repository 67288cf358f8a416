import test from 'ava'
import fc from 'fast-check'
import { formatSize, parseDuration, parseSize } from '../../src/cli/sizes.js'
import { GIB, KIB, MIB, TIB } from '../../src/shared/base/units.js'

test('parseSize: units are powers of two, in any case, with or without a blank', (t) => {
  t.is(parseSize('512gb'), 512 * GIB)
  t.is(parseSize('1.5TB'), 1.5 * TIB)
  t.is(parseSize('16 mb'), 16 * MIB)
  t.is(parseSize(' 1kb '), KIB)
  t.is(parseSize('7b'), 7)
})

test('parseSize: a number alone, a sign, a foreign unit and an unsafe number are not sizes', (t) => {
  for (const text of [
    '',
    '512',
    '-1gb',
    '+1gb',
    '1gib',
    '1 g b',
    '1,5gb',
    '1e3mb',
    '.5gb',
    '5.gb',
    '9007199254740993b',
    '1gb ssd',
  ]) {
    t.is(parseSize(text), null, text)
  }
})

test('parseSize: what whole multiples of a unit say is what comes out', (t) => {
  const units = [
    ['b', 1],
    ['kb', KIB],
    ['mb', MIB],
    ['gb', GIB],
    ['tb', TIB],
  ] as const
  fc.assert(
    fc.property(fc.constantFrom(...units), fc.integer({ min: 0, max: 8_191 }), ([unit, bytes], count) => {
      t.is(parseSize(`${count}${unit}`), count * bytes)
    }),
  )
})

test('parseDuration: milliseconds to days, in microseconds', (t) => {
  t.is(parseDuration('250ms'), 250_000)
  t.is(parseDuration('30s'), 30_000_000)
  t.is(parseDuration('1.5m'), 90_000_000)
  t.is(parseDuration('1h'), 3_600_000_000)
  t.is(parseDuration('1d'), 86_400_000_000)
  for (const text of ['30', '30us', '-1s', '1w', '']) t.is(parseDuration(text), null, text)
})

test('formatSize: the largest unit that leaves at least 1', (t) => {
  t.is(formatSize(0), '0 B')
  t.is(formatSize(1023), '1023 B')
  t.is(formatSize(KIB), '1 KiB')
  t.is(formatSize(1.5 * GIB), '1.5 GiB')
  t.is(formatSize(1000 * MIB), '1000 MiB')
  t.is(formatSize(1024 * TIB), '1024 TiB')
})
