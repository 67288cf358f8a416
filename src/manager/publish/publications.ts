/** What the table needs to know of one open publication. */
export interface OpenPublication {
  readonly number: number
  /** When it stops waiting for DRAM; Infinity while it does not wait. */
  readonly giveUpUs: number
  /** Goes on as far as memory allows. False: it found no room and goes on waiting. */
  advance(): boolean
}

/** Open publications in the order they were admitted, and those among them that wait for DRAM. */
export class Publications {
  readonly #open = new Set<OpenPublication>()
  readonly #waiting = new Set<OpenPublication>()
  #next = 1

  get count(): number {
    return this.#open.size
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Numbers rise; SYNC waits for all below the next one. */
  nextNumber(): number {
    return this.#next++
  }

  /** Every publication below this number has been admitted. */
  get frontier(): number {
    return this.#next
  }

  /** The smallest open number, or Infinity. */
  get oldest(): number {
    for (const publication of this.#open) return publication.number
    return Number.POSITIVE_INFINITY
  }

  add(publication: OpenPublication): void {
    this.#open.add(publication)
  }

  end(publication: OpenPublication): void {
    this.#open.delete(publication)
    this.#waiting.delete(publication)
  }

  /** It found no room. Those that came earlier are served first. */
  wait(publication: OpenPublication): void {
    this.#waiting.add(publication)
  }

  stopWaiting(publication: OpenPublication): void {
    this.#waiting.delete(publication)
  }

  /** Memory may have been freed or time has passed: those that wait try again, until one still finds no room. */
  retry(): void {
    for (const publication of [...this.#waiting]) if (!publication.advance()) return
  }

  /** When the first that waits gives up; Infinity when none waits. */
  nextGiveUpUs(): number {
    let first = Number.POSITIVE_INFINITY
    for (const { giveUpUs } of this.#waiting) first = Math.min(first, giveUpUs)
    return first
  }
}
