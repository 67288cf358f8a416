import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Session } from '../sessions/session.js'
import type { BlockReads } from './block-reads.js'

/** One hint: reads that are on their way, and what they still charge. It holds no block. */
export interface Warming {
  readonly ticket: number
  readonly session: Session
  readonly reads: BlockReads
  readonly reservation: Reservation
  readonly endsUs: number
}

/** Open hints by ticket, oldest first; all live equally long. */
export class Warmings {
  readonly #open = new Map<number, Warming>()

  get count(): number {
    return this.#open.size
  }

  add(warming: Warming): void {
    this.#open.set(warming.ticket, warming)
  }

  delete(ticket: number): void {
    this.#open.delete(ticket)
  }

  get(ticket: number): Warming | undefined {
    return this.#open.get(ticket)
  }

  overdue(nowUs: number): Warming[] {
    return [...this.#open.values()].filter(({ endsUs }) => nowUs >= endsUs)
  }

  nextEndUs(): number {
    for (const { endsUs } of this.#open.values()) return endsUs
    return Number.POSITIVE_INFINITY
  }
}
