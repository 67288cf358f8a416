import type { Instance } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { GroupSpan } from './lease-records.js'

/**
 * One open query: pages that were found and are being read into DRAM, or are there and wait to be polled.
 *
 * Every entry is held from admission to the end. `pending` counts fills that have not reported; the answer is ready
 * at 0. `usable[i]` turns 0 when the fill of entry i fails: the answer then ends before it.
 */
export interface Query {
  readonly ticket: number
  readonly session: Session
  readonly instance: Instance
  readonly requestId: number
  readonly revision: number
  readonly spans: readonly GroupSpan[]
  readonly firstBlocks: readonly number[]
  readonly entries: Int32Array
  readonly usable: Uint8Array
  /** foundInDram[i] is 1 when entry i was in DRAM when the query came. */
  readonly foundInDram: Uint8Array
  /** Entries whose fill this query still waits for. */
  readonly waiting: Set<number>
  readonly bytes: number
  readonly endsUs: number
}

/** Open queries by ticket. Tickets are never reused. */
export class Queries {
  readonly #open = new Map<number, Query>()
  #next: number

  constructor(firstTicket = 1) {
    this.#next = firstTicket
  }

  get count(): number {
    return this.#open.size
  }

  nextTicket(): number {
    return this.#next++
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

  /** Queries whose time is over, oldest first: tickets are in order of their deadlines. */
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
