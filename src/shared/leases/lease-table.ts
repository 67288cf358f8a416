import type { ErrorCode } from '../base/errors.js'
import { invariant } from '../base/invariant.js'
import { EndedLeases, type LeaseEnd } from './ended-leases.js'
import { type Expiring, ExpiryQueue } from './expiry-queue.js'

/** What `grant` answers when as many leases live as may: the caller drops the interests it took. */
export const LEASES_FULL = -1

/** Who counts interests in entries. */
export interface Interests {
  hold(entry: number): void
  drop(entry: number): void
}

export interface Grant {
  readonly instance: number
  /** Entries in the order of the request; the table keeps this array and nobody changes it. */
  readonly entries: Int32Array
  /** World size of the instance: each rank redeems once. */
  readonly ranks: number
  readonly expiresUs: number
}

export type Redemption = { readonly entries: Int32Array } | { readonly error: ErrorCode }
export type Redemptions =
  | { readonly entries: readonly Int32Array[] }
  | { readonly error: ErrorCode; readonly lease: number }

interface Lease extends Expiring {
  readonly instance: number
  readonly entries: Int32Array
  readonly redeemed: Uint8Array
  ranksLeft: number
}

/**
 * Rights to read entries, given out by a query and taken by restores.
 *
 * A lease owns one interest in each of its entries: the granter takes them before `grant`, and the lease's end (last
 * rank redeemed, release, expiry, instance dropped) drops each once. A redemption gives the redeemer interests of its
 * own, taken before the lease's can drop, so an entry is never without one in between; the redeemer drops them when
 * its restore has ended. Numbers of leases rise for ever and are never used again.
 */
export class LeaseTable {
  readonly leasesMax: number
  readonly #interests: Interests
  readonly #leases = new Map<number, Lease>()
  readonly #ofInstance = new Map<number, Set<Lease>>()
  readonly #expiry = new ExpiryQueue<Lease>()
  readonly #ended: EndedLeases
  #nextId = 1
  #peak = 0

  /** `firstId` lets a test begin next to the limit. */
  constructor(leasesMax: number, interests: Interests, firstId = 1) {
    invariant(Number.isSafeInteger(leasesMax) && leasesMax > 0, 'a lease table has a cap', { leasesMax })
    invariant(Number.isSafeInteger(firstId) && firstId > 0, 'leases are numbered from 1', { firstId })
    this.leasesMax = leasesMax
    this.#interests = interests
    this.#ended = new EndedLeases(leasesMax)
    this.#nextId = firstId
  }

  /** Live leases. */
  get live(): number {
    return this.#leases.size
  }

  /** The most leases that were ever live at once. */
  get peak(): number {
    return this.#peak
  }

  /** True while the lease has not ended. */
  has(lease: number): boolean {
    return this.#leases.has(lease)
  }

  /** When the next lease expires, or Infinity. */
  get nextExpiryUs(): number {
    return this.#expiry.first?.expiresUs ?? Number.POSITIVE_INFINITY
  }

  /** Makes a lease that takes over one interest in each entry from the caller. @returns its number, or LEASES_FULL. */
  grant(grant: Grant): number {
    invariant(Number.isSafeInteger(grant.ranks) && grant.ranks > 0, 'an instance has ranks', { ranks: grant.ranks })
    if (this.#leases.size >= this.leasesMax || this.#nextId >= Number.MAX_SAFE_INTEGER) return LEASES_FULL
    const lease: Lease = {
      id: this.#nextId++,
      instance: grant.instance,
      entries: grant.entries,
      redeemed: new Uint8Array(grant.ranks),
      ranksLeft: grant.ranks,
      expiresUs: grant.expiresUs,
      place: -1,
    }
    this.#leases.set(lease.id, lease)
    this.#instanceLeases(grant.instance).add(lease)
    this.#expiry.add(lease)
    if (this.#leases.size > this.#peak) this.#peak = this.#leases.size
    return lease.id
  }

  /** What `redeem` would answer; changes nothing. */
  check(lease: number, instance: number, rank: number, nowUs: number): ErrorCode {
    const found = this.#find(lease, instance, nowUs)
    if (typeof found === 'string') return found
    invariant(rank >= 0 && rank < found.redeemed.length, 'a rank is one of the instance', { rank, lease })
    return found.redeemed[rank] === 0 ? 'ok' : 'lease_already_redeemed'
  }

  /** Takes one rank's share. Every entry is held once more for the caller, who drops it when its restore has ended. */
  redeem(lease: number, instance: number, rank: number, nowUs: number): Redemption {
    const code = this.check(lease, instance, rank, nowUs)
    if (code !== 'ok') return { error: code }
    return { entries: this.#take(this.#leases.get(lease) as Lease, rank) }
  }

  /** Takes one rank's share of several leases, all or none. A lease that is named twice is refused the second time. */
  redeemAll(leases: readonly number[], instance: number, rank: number, nowUs: number): Redemptions {
    const seen = new Set<number>()
    for (const lease of leases) {
      const code = seen.has(lease) ? 'lease_already_redeemed' : this.check(lease, instance, rank, nowUs)
      if (code !== 'ok') return { error: code, lease }
      seen.add(lease)
    }
    return { entries: leases.map((lease) => this.#take(this.#leases.get(lease) as Lease, rank)) }
  }

  /** Lets a lease live until `expiresUs`; never makes it shorter. An expired one stays expired. */
  renew(lease: number, instance: number, expiresUs: number, nowUs: number): ErrorCode {
    const found = this.#find(lease, instance, nowUs)
    if (typeof found === 'string') return found
    if (expiresUs > found.expiresUs) this.#expiry.reschedule(found, expiresUs)
    return 'ok'
  }

  /** Ends a lease. Idempotent: one that has ended is ok, one that never was is not. */
  release(lease: number, instance: number): ErrorCode {
    const found = this.#leases.get(lease)
    if (found === undefined) return this.#wasGranted(lease) ? 'ok' : 'lease_unknown'
    if (found.instance !== instance) return 'lease_wrong_instance'
    this.#end(found, 'released')
    return 'ok'
  }

  /** Ends every lease whose time has come (`nowUs` >= its expiry) and appends its number to `ended`. */
  expire(nowUs: number, ended: number[]): void {
    for (let first = this.#expiry.first; first !== null && nowUs >= first.expiresUs; first = this.#expiry.first) {
      ended.push(first.id)
      this.#end(first, 'expired')
    }
  }

  /** Ends every lease of an instance and appends their numbers to `ended`. */
  dropInstance(instance: number, ended: number[]): void {
    for (const lease of this.#ofInstance.get(instance) ?? []) {
      ended.push(lease.id)
      this.#end(lease, 'dropped')
    }
  }

  #find(lease: number, instance: number, nowUs: number): Lease | ErrorCode {
    const found = this.#leases.get(lease)
    if (found === undefined) return this.#ended.codeOf(lease)
    if (found.instance !== instance) return 'lease_wrong_instance'
    return nowUs >= found.expiresUs ? 'lease_expired' : found
  }

  #take(lease: Lease, rank: number): Int32Array {
    for (const entry of lease.entries) this.#interests.hold(entry)
    lease.redeemed[rank] = 1
    lease.ranksLeft--
    if (lease.ranksLeft === 0) this.#end(lease, 'redeemed')
    return lease.entries
  }

  /** The only way out: the lease leaves every table first, then its interests drop. */
  #end(lease: Lease, how: LeaseEnd): void {
    this.#leases.delete(lease.id)
    this.#expiry.remove(lease)
    const siblings = this.#instanceLeases(lease.instance)
    siblings.delete(lease)
    if (siblings.size === 0) this.#ofInstance.delete(lease.instance)
    this.#ended.remember(lease.id, how)
    for (const entry of lease.entries) this.#interests.drop(entry)
  }

  #instanceLeases(instance: number): Set<Lease> {
    let leases = this.#ofInstance.get(instance)
    if (leases === undefined) {
      leases = new Set()
      this.#ofInstance.set(instance, leases)
    }
    return leases
  }

  #wasGranted(lease: number): boolean {
    return Number.isSafeInteger(lease) && lease > 0 && lease < this.#nextId
  }
}
