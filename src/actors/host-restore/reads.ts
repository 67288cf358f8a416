import { invariant } from '../../shared/base/invariant.js'
import { GRANULE_BYTES_MAX } from '../../shared/base/units.js'
import { READ, SOURCE } from '../../shared/layout/descriptors.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import { CLIENT_READS_MAX, type HostReaderRequest } from '../host-reader/messages.js'
import type { Ask, RestoreJob, StoreCursor } from './job.js'
import { RestoreWindow } from './window.js'

/** Reads that one job may ask of one store before the next job has its turn: a reader batch of upstream's size. */
const READS_PER_TURN = 16

/** A message to a reader. */
export interface AskReader {
  readonly kind: 'ask-reader'
  readonly store: number
  readonly request: HostReaderRequest
}

/** What came of a job's turn: something was asked, the window was full, or the job has to wait for its own reads. */
export type Turn = 'asked' | 'no-memory' | 'waits'

export interface OutstandingReadsOptions {
  /** Pool memory to read into; the manager charged it once, at start. */
  readonly windowOffsetBytes: number
  readonly windowBytes: number
  /** Host-reader lanes; with none every source must be in DRAM and the window may be empty. */
  readonly stores: number
  /** Reads outstanding at one reader at most; about the reader's depth, so that the queue there stays short. */
  readonly storeReads: number
  /** Reads outstanding at all readers, a power of two. */
  readonly reads: number
}

/**
 * The reads that readers have been asked for and have not ended, and the window memory that they land in. A unit of
 * the window belongs to one read from `takeTurn` to `free`; the reader may write to it until `ended`.
 */
export class OutstandingReads {
  readonly #storeReads: number
  readonly #window: RestoreWindow
  readonly #shareBytes: number
  readonly #places: OperationSlots
  readonly #askAt: (Ask | null)[]
  readonly #jobAt: (RestoreJob | null)[]
  readonly #readAt: Int32Array
  readonly #countOfStore: Int32Array
  #nextBatch = 1

  constructor(options: OutstandingReadsOptions) {
    const { reads, storeReads, stores } = options
    invariant(storeReads >= 1 && storeReads <= CLIENT_READS_MAX, 'reads fit the completion ring', { storeReads })
    this.#storeReads = storeReads
    this.#window = new RestoreWindow(options.windowOffsetBytes, options.windowBytes)
    const { capacityBytes } = this.#window
    invariant(stores === 0 || capacityBytes > 0, 'a window that is read into holds a granule', { capacityBytes })
    this.#shareBytes = shareOf(capacityBytes)
    this.#places = new OperationSlots(reads)
    this.#askAt = new Array<Ask | null>(reads).fill(null)
    this.#jobAt = new Array<RestoreJob | null>(reads).fill(null)
    this.#readAt = new Int32Array(reads)
    this.#countOfStore = new Int32Array(stores)
  }

  get count(): number {
    return this.#places.heldCount
  }

  get windowUsedBytes(): number {
    return this.#window.usedBytes
  }

  /** One turn of a job: up to READS_PER_TURN reads at each store that it needs, each message of one planned batch. */
  takeTurn(job: RestoreJob, send: (message: AskReader) => void): Turn {
    let asked = false
    let noMemory = false
    for (const cursor of job.cursors) {
      const doubles = new Float64Array(READS_PER_TURN * READ.doubles)
      const ask: Ask = { batch: this.#nextBatch, store: cursor.store, left: 0 }
      noMemory = this.#collect(job, cursor, ask, doubles) || noMemory
      if (ask.left === 0) continue
      asked = true
      this.#nextBatch += 1
      job.asks.add(ask)
      const list = { doubles, offset: 0, length: ask.left * READ.doubles }
      send({ kind: 'ask-reader', store: ask.store, request: { kind: 'read-batch', batch: ask.batch, list } })
    }
    if (asked) return 'asked'
    return noMemory ? 'no-memory' : 'waits'
  }

  /** Adds reads of one cursor to a message; true when the window had no room for the next. */
  #collect(job: RestoreJob, cursor: StoreCursor, ask: Ask, doubles: Float64Array): boolean {
    cursor.turnPage()
    const { store } = cursor
    invariant(store < this.#countOfStore.length, 'a source names a store that exists', { store })
    for (let read = cursor.peek(); read >= 0 && ask.left < READS_PER_TURN; read = cursor.peek()) {
      const bytes = job.readField(read, SOURCE.bytes)
      const cost = this.#window.costBytes(bytes)
      if (this.#places.freeCount === 0 || (this.#countOfStore[store] as number) >= this.#storeReads) return false
      if (job.heldBytes > 0 && job.heldBytes + cost > this.#shareBytes) return false
      const offsetBytes = this.#window.take(bytes)
      if (offsetBytes < 0) return true
      cursor.advance()
      job.heldBytes += cost
      job.readOffsetBytes[read] = offsetBytes
      this.#note(job, read, ask, doubles)
    }
    return false
  }

  #note(job: RestoreJob, read: number, ask: Ask, doubles: Float64Array): void {
    const place = this.#places.acquire()
    this.#askAt[place] = ask
    this.#jobAt[place] = job
    this.#readAt[place] = read
    this.#countOfStore[ask.store] = (this.#countOfStore[ask.store] as number) + 1
    const at = ask.left * READ.doubles
    ask.left += 1
    job.readsLeft -= 1
    job.readsInFlight += 1
    doubles[at + READ.index] = this.#places.tagOf(place)
    doubles[at + READ.file] = job.readField(read, SOURCE.file)
    doubles[at + READ.fileOffsetBytes] = job.readField(read, SOURCE.fileOffsetBytes)
    doubles[at + READ.poolOffsetBytes] = job.readOffsetBytes[read] as number
    doubles[at + READ.bytes] = job.readField(read, SOURCE.bytes)
    doubles[at + READ.segmentBytes] = job.readField(read, SOURCE.segmentBytes)
    doubles[at + READ.segmentStrideBytes] = job.readField(read, SOURCE.segmentStrideBytes)
    doubles[at + READ.crc32] = job.readField(read, SOURCE.crc32)
  }

  /** A reader has let go of a read; its memory is this lane's until `free`. Null: no such read is outstanding. */
  ended(batch: number, tag: number): { readonly job: RestoreJob; readonly read: number } | null {
    const place = this.#places.resolve(tag)
    const ask = place < 0 ? null : this.#askAt[place]
    const job = place < 0 ? null : this.#jobAt[place]
    if (!ask || !job || ask.batch !== batch) return null
    this.#askAt[place] = null
    this.#jobAt[place] = null
    this.#places.release(place)
    this.#countOfStore[ask.store] = (this.#countOfStore[ask.store] as number) - 1
    job.readsInFlight -= 1
    ask.left -= 1
    if (ask.left === 0) job.asks.delete(ask)
    return { job, read: this.#readAt[place] as number }
  }

  /** Gives the memory of an ended read back, when no copy names it any more. */
  free(job: RestoreJob, read: number): void {
    this.#window.give(job.readOffsetBytes[read] as number)
    job.heldBytes -= this.#window.costBytes(job.readField(read, SOURCE.bytes))
  }
}

/** What one job may hold of the window: all but an eighth, unless that leaves no whole granule. */
function shareOf(windowBytes: number): number {
  const reserve = Math.max(GRANULE_BYTES_MAX, Math.floor(windowBytes / 8))
  return windowBytes > reserve ? windowBytes - reserve : windowBytes
}
