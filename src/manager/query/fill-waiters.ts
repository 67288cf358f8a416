/** Who waits for reads of blocks under a ticket. */
export interface FillWaiter {
  /** The read of a block has ended. */
  filled(entry: number, ok: boolean): void
}

/** Everybody who waits for reads, by ticket. Tickets are never reused: they name queries and preparations too. */
export class FillWaiters {
  readonly #waiters = new Map<number, FillWaiter>()
  #next: number

  constructor(firstTicket = 1) {
    this.#next = firstTicket
  }

  /** Makes a ticket. */
  add(waiter: FillWaiter): number {
    const ticket = this.#next++
    this.#waiters.set(ticket, waiter)
    return ticket
  }

  /** Somebody else waits under the ticket from here on. */
  replace(ticket: number, waiter: FillWaiter): void {
    this.#waiters.set(ticket, waiter)
  }

  remove(ticket: number): void {
    this.#waiters.delete(ticket)
  }

  filled(ticket: number, entry: number, ok: boolean): void {
    this.#waiters.get(ticket)?.filled(entry, ok)
  }

  get count(): number {
    return this.#waiters.size
  }
}
