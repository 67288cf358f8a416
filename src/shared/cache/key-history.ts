import { invariant } from '../base/invariant.js'

/** Keys that a reuse policy remembers: enough to see a prefix come back, small enough to be exact. */
export const HISTORY_KEYS = 16_384

/** The last `keysMax` different keys that were noted, exactly; the one noted longest ago is forgotten first. */
export class KeyHistory {
  readonly keysMax: number
  /** In order of the last note: a Set keeps the order of insertion. */
  readonly #keys = new Set<string>()

  constructor(keysMax = HISTORY_KEYS) {
    invariant(Number.isSafeInteger(keysMax) && keysMax > 0, 'a history remembers at least one key', { keysMax })
    this.keysMax = keysMax
  }

  get size(): number {
    return this.#keys.size
  }

  /** True when the key was remembered. From now on it is, as the most recent. */
  note(key: string): boolean {
    const known = this.#keys.delete(key)
    this.#keys.add(key)
    if (this.#keys.size > this.keysMax) for (const oldest of this.#keys) return this.#keys.delete(oldest) && known
    return known
  }
}
