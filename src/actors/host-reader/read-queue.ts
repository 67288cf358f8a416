import { invariant } from '../../shared/base/invariant.js'
import { READ } from '../../shared/layout/descriptors.js'

/** Per read: its descriptor, its batch, the time of its request. */
const DOUBLES = READ.doubles + 2
const BATCH = READ.doubles
const ASKED_US = READ.doubles + 1

/**
 * The reads of one client that wait for a place, oldest first: a fixed circle of descriptors, copied on arrival because
 * the list of a request ends with its record.
 */
export class ReadQueue {
  readonly #doubles: Float64Array
  readonly #capacity: number
  #head = 0
  #length = 0

  constructor(capacity: number) {
    this.#capacity = capacity
    this.#doubles = new Float64Array(capacity * DOUBLES)
  }

  get length(): number {
    return this.#length
  }

  /** Place of the oldest read; meaningful while `length` is above 0. */
  get head(): number {
    return this.#head
  }

  push(source: Float64Array, offset: number, batch: number, askedUs: number): void {
    invariant(this.#length < this.#capacity, 'the queue of a client has room', { capacity: this.#capacity })
    const base = ((this.#head + this.#length) % this.#capacity) * DOUBLES
    for (let field = 0; field < READ.doubles; field++) {
      this.#doubles[base + field] = source[offset + field] as number
    }
    this.#doubles[base + BATCH] = batch
    this.#doubles[base + ASKED_US] = askedUs
    this.#length += 1
  }

  /** Drops the oldest read. */
  shift(): void {
    invariant(this.#length > 0, 'a read is taken from a queue that has one')
    this.#head = (this.#head + 1) % this.#capacity
    this.#length -= 1
  }

  /** Moves the oldest read behind the youngest; a full round keeps the order. */
  rotate(): void {
    invariant(this.#length > 0, 'a read is moved in a queue that has one')
    const from = this.#head * DOUBLES
    const to = ((this.#head + this.#length) % this.#capacity) * DOUBLES
    this.#doubles.copyWithin(to, from, from + DOUBLES)
    this.#head = (this.#head + 1) % this.#capacity
  }

  fieldAt(place: number, field: number): number {
    return this.#doubles[place * DOUBLES + field] as number
  }

  batchAt(place: number): number {
    return this.#doubles[place * DOUBLES + BATCH] as number
  }

  askedUsAt(place: number): number {
    return this.#doubles[place * DOUBLES + ASKED_US] as number
  }
}
