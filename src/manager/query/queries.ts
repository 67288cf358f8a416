import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Instance } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { BlockReads } from './block-reads.js'
import type { FoundBlocks } from './found-blocks.js'
import type { RequestCounts } from './request-counts.js'
import type { Selection } from './selection.js'

/**
 * One open query, or a preparation that a claim can turn into one: pages that were found and are being read into DRAM,
 * or are there and wait to be polled.
 *
 * Every selected entry is held and its bytes are reserved, from admission to the end. The answer is ready when nothing
 * is waited for. A block that cannot be read, or is not read because a limit stopped the reads, moves the selection to a
 * smaller boundary.
 */
export interface Query {
  readonly ticket: number
  readonly session: Session
  readonly instance: Instance
  requestId: number
  revision: number
  readonly allowSsd: boolean
  readonly found: FoundBlocks
  selection: Selection
  readonly reads: BlockReads
  /** Pages are read before the answer; false: the restore reads them. */
  reading: boolean
  /** A block of the selection was lost since it was made. */
  stale: boolean
  readonly reservation: Reservation
  readonly counts: RequestCounts
  /** From this time on the query reads nothing more and answers a miss; Infinity: never. */
  readonly readDeadlineUs: number
  /** Nobody asked until then: its interests are taken back. */
  endsUs: number
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
