import type { Instance } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { FoundBlocks } from './found-blocks.js'
import type { Selection } from './selection.js'

/**
 * One open query: pages that were found and are being read into DRAM, or are there and wait to be polled.
 *
 * Every selected entry is held and its bytes are charged, from admission to the end. The answer is ready when nothing
 * is waited for. A block that cannot be read moves the selection to a smaller boundary.
 */
export interface Query {
  readonly ticket: number
  readonly session: Session
  readonly instance: Instance
  readonly requestId: number
  readonly revision: number
  readonly allowSsd: boolean
  readonly found: FoundBlocks
  selection: Selection
  /** Selected entries whose fill this query still waits for. */
  readonly waiting: Set<number>
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
