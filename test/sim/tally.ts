import type { Tally } from '../../src/shared/base/tally.js'
import { must } from './violation.js'

/** Counters of one machine: they never go back, gauges and durations are never below zero (N5). */
export class SimTally implements Tally {
  readonly #counts: number[] = []
  observations = 0

  add(counter: number, amount: number): void {
    must(amount >= 0, 'N5', () => `counter ${counter} would go back by ${amount}`)
    this.#counts[counter] = this.at(counter) + amount
  }

  set(gauge: number, value: number): void {
    must(value >= 0, 'N5', () => `gauge ${gauge} would be ${value}`)
    this.#counts[gauge] = value
  }

  observe(histogram: number, value: number): void {
    must(value >= 0, 'N5', () => `histogram ${histogram} would record ${value}`)
    this.observations++
  }

  at(counter: number): number {
    return this.#counts[counter] ?? 0
  }
}
