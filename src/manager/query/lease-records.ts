import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Session } from '../sessions/session.js'

/**
 * Entries of one group under a lease or in a query. Sources count the keys of the group in the query; the sources
 * `firstSource … firstSource + count - 1` are held, and source s is entries[first + s - firstSource].
 */
export interface GroupSpan {
  readonly group: number
  readonly firstSource: number
  readonly first: number
  readonly count: number
}

/** What the Manager remembers of a lease beside the lease table: how its sources are numbered and what it charges. */
export interface LeaseRecord {
  readonly lease: number
  readonly instance: number
  /** Who asked; the lease ends with this session. */
  readonly session: Session
  readonly spans: readonly GroupSpan[]
  readonly entries: Int32Array
  /** Charged until the lease and every restore that redeemed it have ended. */
  readonly reservation: Reservation
}

/** Records of all live leases. */
export class LeaseRecords {
  readonly #records = new Map<number, LeaseRecord>()

  get count(): number {
    return this.#records.size
  }

  add(record: LeaseRecord): void {
    this.#records.set(record.lease, record)
  }

  get(lease: number): LeaseRecord | undefined {
    return this.#records.get(lease)
  }

  delete(lease: number): void {
    this.#records.delete(lease)
  }

  ofInstance(instance: number): number[] {
    return [...this.#records.values()].filter((record) => record.instance === instance).map((record) => record.lease)
  }
}
