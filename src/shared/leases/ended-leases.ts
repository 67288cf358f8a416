import type { ErrorCode } from '../base/errors.js'

/** How a lease ended, for the answer to somebody who still names it. */
export type LeaseEnd = 'redeemed' | 'released' | 'expired' | 'dropped'

const ENDS: readonly (LeaseEnd | null)[] = [null, 'redeemed', 'released', 'expired', 'dropped']

/**
 * A bounded memory of how recent leases ended: a late restore then learns that its lease expired, not merely that it
 * is unknown. A newer lease takes the place of an older one; what was forgotten is unknown.
 */
export class EndedLeases {
  readonly #ids: Float64Array
  readonly #ends: Uint8Array

  constructor(remembered: number) {
    this.#ids = new Float64Array(remembered)
    this.#ends = new Uint8Array(remembered)
  }

  remember(lease: number, end: LeaseEnd): void {
    const place = lease % this.#ids.length
    this.#ids[place] = lease
    this.#ends[place] = ENDS.indexOf(end)
  }

  /** What to answer about a lease that is not live. */
  codeOf(lease: number): ErrorCode {
    const place = lease % this.#ids.length
    const end = this.#ids[place] === lease ? ENDS[this.#ends[place] as number] : null
    if (end === 'redeemed') return 'lease_already_redeemed'
    return end === 'expired' ? 'lease_expired' : 'lease_unknown'
  }
}
