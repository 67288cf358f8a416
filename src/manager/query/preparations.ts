import type { Query } from './queries.js'

/** Owned speculation of one session: a query that nobody has asked yet. */
export interface Preparation {
  readonly query: Query
  /** Digest of its groups and keys: a claim must name the same. */
  readonly digest: Uint8Array
  /** It ends then unless it is polled or claimed before. */
  endsUs: number
}

/** Open preparations by ticket. Few: each session may have only PREPARATIONS_PER_SESSION_MAX. */
export class Preparations {
  readonly #open = new Map<number, Preparation>()

  get count(): number {
    return this.#open.size
  }

  add(preparation: Preparation): void {
    this.#open.set(preparation.query.ticket, preparation)
  }

  delete(ticket: number): void {
    this.#open.delete(ticket)
  }

  find(ticket: number): Preparation | undefined {
    return this.#open.get(ticket)
  }

  overdue(nowUs: number): Preparation[] {
    return [...this.#open.values()].filter(({ endsUs }) => nowUs >= endsUs)
  }

  nextEndUs(): number {
    let first = Number.POSITIVE_INFINITY
    for (const { endsUs } of this.#open.values()) first = Math.min(first, endsUs)
    return first
  }
}
