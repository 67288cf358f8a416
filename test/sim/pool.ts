import { PoolAllocator } from '../../src/shared/pool/pool-allocator.js'
import { Codings } from './codings.js'
import type { CopyMemory } from './device.js'
import type { Engagements, Flights } from './ledger.js'
import { POISON } from './oracle.js'
import { must } from './violation.js'

/** The bytes of the pinned pool: what storage allocates from, then the window that host-restore owns. */
export class Pool implements CopyMemory {
  readonly space = 'pool'
  readonly words: Uint32Array
  readonly bytes: Uint8Array
  readonly codings = new Codings()
  readonly allocatedBytes: number
  /** Set once storage has its allocator. */
  allocator: PoolAllocator | null = null

  constructor(storageBytes: number, windowBytes: number) {
    this.words = new Uint32Array((storageBytes + windowBytes) / 4)
    this.words.fill(POISON, 0, storageBytes / 4)
    this.bytes = new Uint8Array(this.words.buffer)
    this.allocatedBytes = storageBytes
  }

  /** A device may only be pointed at the window or at allocated memory. */
  mustBeOwned(offsetBytes: number, bytes: number, what: string): void {
    must(
      offsetBytes >= 0 && offsetBytes + bytes <= this.bytes.length,
      'X3',
      () => `${what} at ${offsetBytes} leaves the pool`,
    )
    if (offsetBytes >= this.allocatedBytes) return
    const owned = (this.allocator as WatchedPool).covers(offsetBytes, bytes)
    must(owned, 'O2', () => `${what} at ${offsetBytes} touches memory that nobody owns`)
  }

  /** The same of a span that granules have together: each of its bytes is allocated. */
  mustBeOwnedTogether(offsetBytes: number, bytes: number, what: string): void {
    must(
      offsetBytes >= 0 && offsetBytes + bytes <= this.allocatedBytes,
      'X3',
      () => `${what} at ${offsetBytes} leaves what is allocated from`,
    )
    const owned = (this.allocator as WatchedPool).coverTogether(offsetBytes, bytes)
    must(owned, 'O2', () => `${what} at ${offsetBytes} touches memory that nobody owns`)
  }
}

/** The pool's allocator under watch: memory with work on it is not given back, what is given back is spoiled. */
export class WatchedPool extends PoolAllocator {
  readonly #pool: Pool
  readonly #engaged: Engagements
  readonly #flights: Flights
  readonly #starts: Int32Array
  /** Allocations that gave pages back. */
  shrinks = 0

  constructor(pool: Pool, engaged: Engagements, flights: Flights) {
    super(pool.allocatedBytes)
    this.#pool = pool
    this.#engaged = engaged
    this.#flights = flights
    this.#starts = new Int32Array(pool.allocatedBytes / 4096).fill(-1)
    pool.allocator = this
  }

  /** True when allocations that adjoin cover the bytes. */
  coverTogether(offsetBytes: number, bytes: number): boolean {
    let at = offsetBytes
    while (at < offsetBytes + bytes) {
      const start = this.#starts[Math.floor(at / 4096)] ?? -1
      if (start < 0) return false
      at = start + this.bytesAt(start)
    }
    return true
  }

  /** True when one allocation covers the bytes. */
  covers(offsetBytes: number, bytes: number): boolean {
    const start = this.#starts[Math.floor(offsetBytes / 4096)] as number
    return start >= 0 && offsetBytes + bytes <= start + this.bytesAt(start)
  }

  override allocate(bytes: number): number {
    const offsetBytes = super.allocate(bytes)
    if (offsetBytes < 0) return offsetBytes
    const taken = this.bytesAt(offsetBytes)
    this.#mark(offsetBytes, taken, offsetBytes)
    this.#watch(offsetBytes, taken, 'allocates')
    return offsetBytes
  }

  override free(offsetBytes: number): void {
    const bytes = this.bytesAt(offsetBytes)
    this.#watch(offsetBytes, bytes, 'frees')
    super.free(offsetBytes)
    this.#mark(offsetBytes, bytes, -1)
    this.#pool.words.fill(POISON, offsetBytes / 4, (offsetBytes + bytes) / 4)
    this.#pool.codings.forget(offsetBytes)
  }

  override shrink(offsetBytes: number, bytes: number): number {
    const before = this.bytesAt(offsetBytes)
    // What is kept is at rest as well: nobody shortens what a lane works on.
    this.#watch(offsetBytes, before, 'shrinks')
    const given = super.shrink(offsetBytes, bytes)
    const end = offsetBytes + before
    this.#mark(end - given, given, -1)
    this.#pool.words.fill(POISON, (end - given) / 4, end / 4)
    if (given > 0) this.shrinks++
    return given
  }

  #mark(offsetBytes: number, bytes: number, start: number): void {
    this.#starts.fill(start, offsetBytes / 4096, (offsetBytes + bytes) / 4096)
  }

  #watch(offsetBytes: number, bytes: number, verb: string): void {
    this.#engaged.mustBeClear(offsetBytes, bytes, verb)
    this.#flights.mustBeClear('pool', offsetBytes, offsetBytes + bytes, verb)
  }
}
