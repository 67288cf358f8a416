/**
 * Where a deterministic core counts. Production binds it to the lane's counter page, tests to arrays. Indices are those
 * of the lane's counters.ts, which gives every counter and histogram its stable name.
 */
export interface Tally {
  /** Adds to a counter; the amount is never negative. */
  add(counter: number, amount: number): void
  /** Sets a gauge. */
  set(gauge: number, value: number): void
  /** Records one value of a histogram. */
  observe(histogram: number, value: number): void
}

/** One named series of a lane; metrics are exported as `orbitkv_<name>`, a counter with `_total`, durations in seconds. */
export interface SeriesSpec {
  readonly name: string
  readonly kind: 'counter' | 'gauge'
  readonly text: string
  /** Series of one name that differ in labels share its text and kind. */
  readonly labels?: Readonly<Record<string, string>>
  /** Without this feature the series is absent, not zero. */
  readonly feature?: Feature
}

/** What may be off; `ssd_` names belong to the feature `ssd`. */
export type Feature = 'ssd' | 'protection' | 'lfu' | 'cufile' | 'codec'

/** One named distribution of a lane. Values are observed in `unit`. */
export interface HistogramSpec {
  readonly name: string
  readonly unit: 'us' | 'bytes' | 'bytes_per_second' | 'segments'
  readonly text: string
  readonly labels?: Readonly<Record<string, string>>
  /** As in SeriesSpec. */
  readonly feature?: Feature
}
