import { invariant } from '../base/invariant.js'

/**
 * How many interests each entry has: leases, running restores, reads and writes. Grows with the entries in use; one
 * word an entry. `zero` is called when the last interest of an entry drops, and only then.
 */
export class InterestTable {
  readonly #entriesMax: number
  readonly #zero: (entry: number) => void
  #counts = new Uint32Array(64)
  #held = 0

  constructor(entriesMax: number, zero: (entry: number) => void) {
    invariant(Number.isSafeInteger(entriesMax) && entriesMax > 0, 'an interest table has a cap', { entriesMax })
    this.#entriesMax = entriesMax
    this.#zero = zero
  }

  /** All interests in all entries; 0 at rest. */
  get held(): number {
    return this.#held
  }

  /** Interests in `entry`. */
  count(entry: number): number {
    return this.#counts[entry] ?? 0
  }

  /** Adds one interest. */
  hold(entry: number): void {
    invariant(Number.isInteger(entry) && entry >= 0 && entry < this.#entriesMax, 'an interest names an entry', {
      entry,
      entriesMax: this.#entriesMax,
    })
    if (entry >= this.#counts.length) this.#grow(entry)
    const count = this.count(entry)
    invariant(count < 0xffff_ffff, 'interests in one entry stay countable', { entry })
    this.#counts[entry] = count + 1
    this.#held++
  }

  /** Takes one interest away. Dropping what nobody holds is a bug. */
  drop(entry: number): void {
    const count = this.count(entry)
    invariant(count > 0, 'only a held interest is dropped', { entry })
    this.#counts[entry] = count - 1
    this.#held--
    if (count === 1) this.#zero(entry)
  }

  #grow(entry: number): void {
    const counts = new Uint32Array(Math.min(this.#entriesMax, Math.max(entry + 1, this.#counts.length * 2)))
    counts.set(this.#counts)
    this.#counts = counts
  }
}
