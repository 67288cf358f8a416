import { invariant } from '../base/invariant.js'
import type { HistogramSpec, SeriesSpec, Tally } from '../base/tally.js'

/**
 * The numbers of one actor: written by its thread alone, read by any other at any time. Plain float64 stores cost
 * about 3 ns; a reader may see a histogram between its sum and its count, which a scrape can bear.
 *
 *   float64 0 …            series: counters and gauges, in the layout's order
 *   then, a histogram      sum, count, HISTOGRAM_BUCKETS buckets
 *
 * Bucket 0 counts values up to 1, bucket k values above 2^(k-1) and up to 2^k, the last one everything above.
 */
export const HISTOGRAM_BUCKETS = 40
const HISTOGRAM_DOUBLES = 2 + HISTOGRAM_BUCKETS

/** Names of an actor's numbers (its counters.ts); the position is the index that the actor writes with. */
export interface CounterLayout {
  readonly series: readonly SeriesSpec[]
  readonly histograms: readonly HistogramSpec[]
}

/** One histogram as a reader sees it. `buckets[k]` is not cumulative. */
export interface HistogramReading {
  readonly sum: number
  readonly count: number
  readonly buckets: Float64Array
}

/** Makes the memory of a page. Main keeps it for ever. */
export function createCounterPage(layout: CounterLayout): SharedArrayBuffer {
  return new SharedArrayBuffer(8 * (layout.series.length + layout.histograms.length * HISTOGRAM_DOUBLES))
}

/** Upper bound, inclusive, of bucket `index`. */
export function bucketLimit(index: number): number {
  return index === HISTOGRAM_BUCKETS - 1 ? Number.POSITIVE_INFINITY : 2 ** index
}

/** The bucket that a non-negative value falls into. */
export function bucketOf(value: number): number {
  if (value <= 1) return 0
  const below = Math.ceil(value) - 1
  const bucket = below < 2 ** 32 ? 32 - Math.clz32(below) : 64 - Math.clz32(below / 2 ** 32)
  return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1
}

/** The writing side. Owned by the actor's thread. */
export class CounterPage implements Tally {
  private readonly doubles: Float64Array
  private readonly firstHistogram: number

  constructor(buffer: SharedArrayBuffer, layout: CounterLayout) {
    this.doubles = pageOf(buffer, layout)
    this.firstHistogram = layout.series.length
  }

  /** Adds to a counter. */
  add(counter: number, amount: number): void {
    this.doubles[counter] = (this.doubles[counter] as number) + amount
  }

  /** Sets a gauge. */
  set(gauge: number, value: number): void {
    this.doubles[gauge] = value
  }

  /** Counts one non-negative value in a histogram. */
  observe(histogram: number, value: number): void {
    const { doubles } = this
    const base = this.firstHistogram + histogram * HISTOGRAM_DOUBLES
    const bucket = base + 2 + bucketOf(value)
    doubles[bucket] = (doubles[bucket] as number) + 1
    doubles[base] = (doubles[base] as number) + value
    doubles[base + 1] = (doubles[base + 1] as number) + 1
  }
}

/** The reading side, for any thread. */
export class CounterReader {
  private readonly doubles: Float64Array
  private readonly layout: CounterLayout

  constructor(buffer: SharedArrayBuffer, layout: CounterLayout) {
    this.doubles = pageOf(buffer, layout)
    this.layout = layout
  }

  /** A counter or gauge. */
  series(index: number): number {
    return this.doubles[index] as number
  }

  histogram(index: number): HistogramReading {
    const base = this.layout.series.length + index * HISTOGRAM_DOUBLES
    const copy = this.doubles.slice(base, base + HISTOGRAM_DOUBLES)
    return { sum: copy[0] as number, count: copy[1] as number, buckets: copy.subarray(2) }
  }
}

function pageOf(buffer: SharedArrayBuffer, layout: CounterLayout): Float64Array {
  const doubles = new Float64Array(buffer)
  const expected = layout.series.length + layout.histograms.length * HISTOGRAM_DOUBLES
  invariant(doubles.length === expected, 'a counter page has the size of its layout', { expected, is: doubles.length })
  return doubles
}
