/**
 * Seeded choices of one round: the same seed makes the same plan. What the processes then do with it is up to the
 * machine.
 */
export class Draw {
  #state: number

  /** `seed` and what it is for: two phases of one seed have different plans. */
  constructor(seed: number, purpose: string) {
    this.#state = seed >>> 0
    for (const letter of purpose) this.#state = Math.imul(this.#state ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0
  }

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    // mulberry32: 32 bits of state, full period, good enough to choose by.
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) * limit) / 2 ** 32)
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }
}
