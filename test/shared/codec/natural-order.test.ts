import test from 'ava'
import fc from 'fast-check'
import { byNaturalName } from '../../../src/shared/codec/natural-order.js'
import { catches, holds } from '../../support/model-commands.js'

const names = fc.string({ maxLength: 6, unit: fc.constantFrom('0', '1', '2', '9', 'a', 'b', '.') })

type Order = (a: string, b: string) => number

/** A total order in which equal names alone are equal. */
function isTotal(order: Order): fc.IProperty<[string, string, string]> {
  return fc.property(names, names, names, (a, b, c) => {
    const [ab, ba, bc, ac] = [order(a, b), order(b, a), order(b, c), order(a, c)]
    return Math.sign(ab) === -Math.sign(ba) && (ab === 0) === (a === b) && !(ab <= 0 && bc <= 0 && ac > 0)
  })
}

/** Names that differ in one number only are in the order of that number. */
function countsNumbers(order: Order): fc.IProperty<[number, number, string]> {
  const number = fc.nat(10 ** 6)
  return fc.property(
    number,
    number,
    fc.constantFrom('', '.k', '.self_attn'),
    (a, b, rest) => Math.sign(order(`layers.${a}${rest}`, `layers.${b}${rest}`)) === Math.sign(a - b),
  )
}

test('natural order: it is total, and counts numbers', (t) => {
  t.true(holds(isTotal(byNaturalName), 5000))
  t.true(holds(countsNumbers(byNaturalName), 1000))
})

test('natural order: layer 2 comes before layer 10, also behind another number, and beyond what a double holds', (t) => {
  const given = ['l.10', 'l.9', 'l.2.v', 'l.2.k', 'l.02', 'l.2', 'm', 'l.9007199254740993', 'l.9007199254740992']
  t.deepEqual(given.sort(byNaturalName), [
    'l.02',
    'l.2',
    'l.2.k',
    'l.2.v',
    'l.9',
    'l.10',
    'l.9007199254740992',
    'l.9007199254740993',
    'm',
  ])
})

test('natural order: twins that compare letters, or round numbers, are caught', (t) => {
  const letters: Order = (a, b) => (a < b ? -1 : a > b ? 1 : 0)
  const zerosAlike: Order = (a, b) => byNaturalName(a.replace(/0+(?=\d)/g, ''), b.replace(/0+(?=\d)/g, ''))
  t.true(catches(countsNumbers(letters)))
  t.true(catches(isTotal(zerosAlike), 5000))
})
