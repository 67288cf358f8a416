import { invariant } from '../base/invariant.js'
import { isOffset } from '../base/units.js'

/** What a budget answers before anything is queued: `busy` may be tried again later, `too-large` never fits. */
export type BudgetVerdict = 'fits' | 'busy' | 'too-large'

/**
 * Bytes that may be reserved at once. Charge before allocating, refund once: a refusal changes nothing, and the peak
 * is exact because every charge passes here. A budget inside a parent (an instance inside the whole Manager) charges
 * both or neither.
 */
export class ByteBudget {
  readonly limitBytes: number
  readonly #parent: ByteBudget | null
  #chargedBytes = 0
  #peakBytes = 0

  constructor(limitBytes: number, parent: ByteBudget | null = null) {
    invariant(isOffset(limitBytes), 'a budget limit is a byte count', { limitBytes })
    this.limitBytes = limitBytes
    this.#parent = parent
  }

  /** Bytes charged and not refunded. */
  get chargedBytes(): number {
    return this.#chargedBytes
  }

  /** The most bytes that were ever charged at once. */
  get peakBytes(): number {
    return this.#peakBytes
  }

  /** What `charge(bytes)` would answer now, and whether waiting can help. */
  verdict(bytes: number): BudgetVerdict {
    invariant(isOffset(bytes), 'a charge is a byte count', { bytes })
    if (bytes > this.limitBytes) return 'too-large'
    const above = this.#parent?.verdict(bytes) ?? 'fits'
    if (above !== 'fits') return above
    return bytes > this.limitBytes - this.#chargedBytes ? 'busy' : 'fits'
  }

  /** Charges `bytes` here and in every parent, or refuses and changes nothing. */
  charge(bytes: number): boolean {
    if (this.verdict(bytes) !== 'fits') return false
    this.#parent?.charge(bytes)
    this.#chargedBytes += bytes
    if (this.#chargedBytes > this.#peakBytes) this.#peakBytes = this.#chargedBytes
    return true
  }

  /** Gives `bytes` back, here and in every parent. */
  refund(bytes: number): void {
    invariant(isOffset(bytes), 'a refund is a byte count', { bytes })
    invariant(bytes <= this.#chargedBytes, 'a refund is at most what is charged', {
      bytes,
      chargedBytes: this.#chargedBytes,
    })
    this.#chargedBytes -= bytes
    this.#parent?.refund(bytes)
  }
}
