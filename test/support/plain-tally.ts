import type { Tally } from '../../src/shared/base/tally.js'

/** A tally over plain arrays that refuses what a counter must never see. */
export class PlainTally implements Tally {
  readonly counts: number[] = []
  readonly observed: number[][] = []

  add(counter: number, amount: number): void {
    if (!(amount >= 0)) throw new Error(`counter ${counter} would go back by ${amount}`)
    this.counts[counter] = this.at(counter) + amount
  }

  set(gauge: number, value: number): void {
    if (!(value >= 0)) throw new Error(`gauge ${gauge} would be ${value}`)
    this.counts[gauge] = value
  }

  observe(histogram: number, value: number): void {
    if (!(value >= 0)) throw new Error(`histogram ${histogram} would record ${value}`)
    const values = this.observed[histogram] ?? []
    values.push(value)
    this.observed[histogram] = values
  }

  at(counter: number): number {
    return this.counts[counter] ?? 0
  }
}
