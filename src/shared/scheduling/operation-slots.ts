import { invariant } from '../base/invariant.js'

/**
 * A fixed number of places for operations that somebody else carries out, each named by a tag that holds its place and
 * the generation of that place. A completion is matched by its whole tag: the second completion of one operation, one
 * of an operation never started, or one of an earlier holder of the place is a stray, which changes nothing.
 *
 *   tag (31 bits) = generation * capacity + place
 *
 * Generations count the uses of a place and wrap within the tag's bits (at 128 places after 16 million uses); the
 * device completes an operation exactly once, so a stray that old cannot exist.
 *
 * Invariants: a place is free or held, never both; free + held = capacity; a held place has exactly one live tag.
 */
export class OperationSlots {
  readonly capacity: number
  readonly #generationsMax: number
  readonly #generation: Uint32Array
  readonly #held: Uint8Array
  readonly #free: Int32Array
  #freeCount: number

  /** @param capacity a power of two */
  constructor(capacity: number) {
    invariant(capacity >= 1 && capacity <= 1 << 20 && (capacity & (capacity - 1)) === 0, 'capacity is a power of two', {
      capacity,
    })
    this.capacity = capacity
    this.#generationsMax = 2 ** 31 / capacity
    this.#generation = new Uint32Array(capacity)
    this.#held = new Uint8Array(capacity)
    this.#free = new Int32Array(capacity)
    for (let index = 0; index < capacity; index++) this.#free[index] = capacity - 1 - index
    this.#freeCount = capacity
  }

  get heldCount(): number {
    return this.capacity - this.#freeCount
  }

  get freeCount(): number {
    return this.#freeCount
  }

  /** Takes a place, or -1 when all are held. */
  acquire(): number {
    if (this.#freeCount === 0) return -1
    this.#freeCount -= 1
    const place = this.#free[this.#freeCount] as number
    this.#held[place] = 1
    this.#generation[place] = ((this.#generation[place] as number) + 1) % this.#generationsMax
    return place
  }

  /** The tag of a held place. */
  tagOf(place: number): number {
    invariant(this.#held[place] === 1, 'a tag is asked of a held place', { place })
    return (this.#generation[place] as number) * this.capacity + place
  }

  /** The held place that a tag names, or -1 for a stray. */
  resolve(tag: number): number {
    if (!Number.isInteger(tag) || tag < 0 || tag >= 2 ** 31) return -1
    const place = tag % this.capacity
    if (this.#held[place] !== 1 || this.#generation[place] !== (tag - place) / this.capacity) return -1
    return place
  }

  /** Gives a held place back. Its tag is a stray from now on. */
  release(place: number): void {
    invariant(this.#held[place] === 1, 'a released place was held', { place })
    this.#held[place] = 0
    this.#free[this.#freeCount] = place
    this.#freeCount += 1
  }
}
