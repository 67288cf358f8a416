import test from 'ava'
import fc from 'fast-check'
import type { HistogramSpec, SeriesSpec } from '../../../src/shared/base/tally.js'
import {
  bucketLimit,
  bucketOf,
  CounterPage,
  CounterReader,
  createCounterPage,
  HISTOGRAM_BUCKETS,
} from '../../../src/shared/rings/counter-page.js'

const series: SeriesSpec[] = ['a', 'b', 'c'].map((name) => ({ name, kind: 'counter', text: name }))
const histograms: HistogramSpec[] = ['x', 'y'].map((name) => ({ name, unit: 'us', text: name }))
const layout = { series, histograms }

test('CounterPage: a value falls into the first bucket whose limit is not below it', (t) => {
  const edges = Array.from({ length: 52 }, (_, power) => [2 ** power - 1, 2 ** power, 2 ** power + 0.5, 2 ** power + 1])
  const value = fc.oneof(
    fc.constantFrom(...edges.flat()),
    fc.maxSafeNat(),
    fc.double({ min: 0, max: 2 ** 53, noNaN: true }),
  )
  fc.assert(
    fc.property(value, (one) => {
      const bucket = bucketOf(one)
      t.true(one <= bucketLimit(bucket))
      if (bucket > 0) t.true(one > bucketLimit(bucket - 1), `${one} in bucket ${bucket}`)
    }),
    { numRuns: 2000 },
  )
  t.is(bucketOf(Number.MAX_SAFE_INTEGER), HISTOGRAM_BUCKETS - 1)
})

test('CounterPage: a reader sees every counter, gauge and histogram apart, as a plain model does', (t) => {
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom('add' as const, 'set' as const), at: fc.nat(2), value: fc.nat(1e6) }),
    fc.record({ kind: fc.constant('observe' as const), at: fc.nat(1), value: fc.nat(1e6) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const buffer = createCounterPage(layout)
      const page = new CounterPage(buffer, layout)
      const reader = new CounterReader(buffer, layout)
      const values = [0, 0, 0]
      const seen: number[][] = [[], []]
      for (const { kind, at, value } of steps) {
        page[kind](at, value)
        if (kind === 'observe') seen[at]?.push(value)
        else values[at] = kind === 'set' ? value : (values[at] ?? 0) + value
      }
      t.deepEqual(
        [0, 1, 2].map((at) => reader.series(at)),
        values,
      )
      for (const [at, all] of seen.entries()) {
        const { sum, count, buckets } = reader.histogram(at)
        t.is(
          sum,
          all.reduce((total, one) => total + one, 0),
        )
        t.is(count, all.length)
        const expected = Array.from(
          { length: HISTOGRAM_BUCKETS },
          (_, b) => all.filter((one) => bucketOf(one) === b).length,
        )
        t.deepEqual([...buckets], expected)
      }
    }),
  )
})

test('CounterPage: memory of another layout is refused', (t) => {
  t.throws(() => new CounterPage(createCounterPage({ series, histograms: [] }), layout), {
    message: /size of its layout/,
  })
})
