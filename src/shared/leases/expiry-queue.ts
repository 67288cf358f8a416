import { invariant } from '../base/invariant.js'

/** What the queue orders: by time, then by number, so that the order is the same in every run. */
export interface Expiring {
  readonly id: number
  expiresUs: number
  /** Place in the queue; kept by the queue. */
  place: number
}

/** A binary heap that knows where each member is: renewing or ending a lease moves it, and nothing stale stays behind. */
export class ExpiryQueue<T extends Expiring> {
  readonly #heap: T[] = []

  get size(): number {
    return this.#heap.length
  }

  /** The member that expires first, or null. */
  get first(): T | null {
    return this.#heap[0] ?? null
  }

  add(member: T): void {
    member.place = this.#heap.length
    this.#heap.push(member)
    this.#up(member)
  }

  remove(member: T): void {
    invariant(this.#heap[member.place] === member, 'a member is where the queue put it', { id: member.id })
    const last = this.#heap.pop() as T
    if (last === member) return
    this.#set(last, member.place)
    this.#up(last)
    this.#down(last)
  }

  /** Moves a member to a new time. */
  reschedule(member: T, expiresUs: number): void {
    member.expiresUs = expiresUs
    this.#up(member)
    this.#down(member)
  }

  #up(member: T): void {
    while (member.place > 0) {
      const parent = this.#heap[(member.place - 1) >> 1] as T
      if (!isBefore(member, parent)) return
      this.#swap(member, parent)
    }
  }

  #down(member: T): void {
    for (;;) {
      const left = this.#heap[member.place * 2 + 1]
      const right = this.#heap[member.place * 2 + 2]
      const child = right !== undefined && isBefore(right, left as T) ? right : left
      if (child === undefined || !isBefore(child, member)) return
      this.#swap(member, child)
    }
  }

  #swap(a: T, b: T): void {
    const place = a.place
    this.#set(a, b.place)
    this.#set(b, place)
  }

  #set(member: T, place: number): void {
    this.#heap[place] = member
    member.place = place
  }
}

function isBefore(a: Expiring, b: Expiring): boolean {
  return a.expiresUs < b.expiresUs || (a.expiresUs === b.expiresUs && a.id < b.id)
}
