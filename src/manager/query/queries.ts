import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Instance, Seal } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { BlockReads } from './block-reads.js'
import type { GroupSpan } from './lease-records.js'
import type { RequestCounts } from './request-counts.js'

/** Whether entry i of a query can be given out, will be, or will not. */
export const BLOCK = { reading: 0, usable: 1, failed: 2, unread: 3 } as const

/**
 * One open query, or a preparation that a claim can turn into one: pages that were found and are being read into DRAM,
 * or are there and wait to be polled.
 *
 * Every entry is held from admission to the end. The answer is ready when `reads` has settled: it ends before the first
 * block that is not usable.
 */
export interface Query {
  readonly ticket: number
  readonly session: Session
  readonly instance: Instance & { readonly seal: Seal }
  readonly requestId: number
  readonly revision: number
  readonly spans: readonly GroupSpan[]
  readonly firstBlocks: readonly number[]
  /** For each span, the number of its first key among all keys of the request. */
  readonly firstKeys: readonly number[]
  readonly entries: Int32Array
  /** A BLOCK for each entry. */
  readonly blocks: Uint8Array
  /** foundInDram[i] is 1 when entry i was in DRAM when the query came. */
  readonly foundInDram: Uint8Array
  readonly reads: BlockReads
  readonly reservation: Reservation
  readonly counts: RequestCounts
  /** From this time on the query reads nothing more and answers a miss; Infinity: never. */
  readonly readDeadlineUs: number
  /** Nobody asked until then: its interests are taken back. */
  readonly endsUs: number
}

/** Open queries by ticket. */
export class Queries {
  readonly #open = new Map<number, Query>()

  get count(): number {
    return this.#open.size
  }

  add(query: Query): void {
    this.#open.set(query.ticket, query)
  }

  get(ticket: number): Query | undefined {
    return this.#open.get(ticket)
  }

  delete(ticket: number): void {
    this.#open.delete(ticket)
  }

  /** Queries whose time is over, oldest first: they were added in the order of their deadlines. */
  *overdue(nowUs: number): IterableIterator<Query> {
    for (const query of this.#open.values()) {
      if (query.endsUs > nowUs) return
      yield query
    }
  }

  /** When the oldest query ends; Infinity when there is none. */
  nextEndUs(): number {
    for (const query of this.#open.values()) return query.endsUs
    return Number.POSITIVE_INFINITY
  }
}
