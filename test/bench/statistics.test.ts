import test from 'ava'
import { parseOptions, Refusal } from '../../bench/support/options.js'
import { estimate, lowRank, median, quantile, ratios } from '../../bench/support/statistics.js'

/** Chance that the median lies between the k-th smallest and the k-th largest of `count` samples, by enumeration. */
function coverage(count: number, rank: number): number {
  let inside = 0
  for (let signs = 0; signs < 2 ** count; signs++) {
    let below = 0
    for (let bits = signs; bits > 0; bits &= bits - 1) below++
    if (below >= rank && below <= count - rank) inside++
  }
  return inside / 2 ** count
}

test('estimate: its interval is the narrowest pair of order statistics that covers the median in 95 of 100 runs', (t) => {
  for (let count = 6; count <= 18; count++) {
    const rank = lowRank(count)
    t.true(coverage(count, rank) >= 0.95, `${count} samples`)
    t.true(coverage(count, rank + 1) < 0.95, `${count} samples, one rank further in`)
  }
  t.is(lowRank(15), 4)
})

test('estimate: the order of samples does not matter', (t) => {
  const samples = Array.from({ length: 15 }, (_, i) => (i * 7) % 15)
  t.deepEqual(estimate(samples), { median: 7, low: 3, high: 11 })
  t.is(median([4, 1, 3, 2]), 2.5)
  t.is(quantile(samples, 0.99), 14)
})

test('ratios: are taken pair by pair, so that drift of the machine cancels', (t) => {
  const control = Array.from({ length: 15 }, (_, i) => 100 + 50 * i)
  t.deepEqual(
    ratios(
      control.map((value) => value * 2),
      control,
    ),
    { median: 2, low: 2, high: 2 },
  )
})

test('options: a run has 15 pairs or says that it is a quick one', (t) => {
  t.is(parseOptions(['ssd']).options.pairs, 15)
  t.throws(() => parseOptions(['ssd', '--pairs', '14']), { instanceOf: Refusal, message: /at least 15/ })
  t.like(parseOptions(['ssd', '--quick', '--pairs', '2']).options, { pairs: 2, quick: true })
  t.throws(() => parseOptions(['ssd', '--fast']), { instanceOf: Refusal })
})
