import { ERROR_CODES } from '../../shared/base/errors.js'
import { SOURCE } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List } from '../../shared/layout/records.js'
import { planReaderBatches, type ReaderBatch, type ReaderPlan } from '../../shared/planning/reader-batches.js'
import type { Finish } from '../dram-worker/messages.js'
import type { HostRestoreRequest } from './messages.js'

const NO_READ = -1
const NOTHING_PLANNED = planReaderBatches(EMPTY_LIST)
const NO_INTS = new Int32Array(0)
const NO_DOUBLES = new Float64Array(0)

/** Reads asked of one reader in one message, and how many of them have not ended. */
export interface Ask {
  readonly batch: number
  readonly store: number
  left: number
}

/** Where a job stands with one store: its batches there are asked for in order. */
export class StoreCursor {
  readonly store: number
  readonly #batches: ReaderBatch[]
  #batch = 0
  #read = 0

  constructor(store: number, batches: ReaderBatch[]) {
    this.store = store
    this.#batches = batches
  }

  /** The next read of the current batch, or -1 at its end. */
  peek(): number {
    const batch = this.#batches[this.#batch]
    return batch === undefined || this.#read === batch.readCount ? NO_READ : batch.firstRead + this.#read
  }

  advance(): void {
    this.#read += 1
  }

  /** Goes on to the next batch when the current one is used up. */
  turnPage(): void {
    if (this.#read < (this.#batches[this.#batch]?.readCount ?? Number.POSITIVE_INFINITY)) return
    this.#batch += 1
    this.#read = 0
  }
}

/** Sources in the order in which they became ready; each comes once. */
export class ReadyQueue {
  readonly #sources: Int32Array
  #first = 0
  #end = 0

  /** `sources`: room for all that will ever come. */
  constructor(sources: Int32Array) {
    this.#sources = sources
  }

  get count(): number {
    return this.#end - this.#first
  }

  push(source: number): void {
    this.#sources[this.#end] = source
    this.#end += 1
  }

  /** The next source; only while there is one. */
  get next(): number {
    return this.#sources[this.#first] as number
  }

  shift(): number {
    const source = this.next
    this.#first += 1
    return source
  }
}

/** One restore from its first record to its reply. Only the machine changes it. */
export class RestoreJob {
  readonly id: number
  readonly finish: Finish
  readonly bytes: number
  readonly admitUs: number
  readonly #records: Float64Array[] = []
  /** False while records of the job are still to come. */
  complete = false
  fenceReached: boolean
  /** False once the job has failed or was cancelled: what is with readers and the stream ends, nothing else starts. */
  starting = true
  sources: List = EMPTY_LIST
  plan: ReaderPlan = NOTHING_PLANNED
  cursors: readonly StoreCursor[] = []
  readonly asks = new Set<Ask>()
  /** Reads not asked for yet; 0 once nothing more starts. */
  readsLeft = 0
  readsInFlight = 0
  partsInFlight = 0
  /** Cost of the window memory that the job holds. */
  heldBytes = 0
  ssdBytes = 0
  /** What the job's next part is, when both kinds are ready. */
  nextKind: 'copy' | 'decode' = 'copy'
  /** Sources whose copy has not ended. */
  sourcesLeft = 0
  /** The read that serves a source, or -1 for one in DRAM. */
  readOf: Int32Array = NO_INTS
  /** Where a read lands; meaningful from its request to its last copy. */
  readOffsetBytes: Float64Array = NO_DOUBLES
  /** Copies of a read that have not ended. */
  copiesLeft: Int32Array = NO_INTS
  /** Sources that may be copied, and those that may be decoded, each in the order of their landing. */
  #plain = new ReadyQueue(NO_INTS)
  #encoded = new ReadyQueue(NO_INTS)
  /** The first failure, `cancelled`, `draining`, or ok. */
  status: number = ERROR_CODES.ok
  /** Smallest block that failed, or -1. */
  firstFailed = -1
  readonly damaged = new Set<number>()

  constructor(request: HostRestoreRequest & { kind: 'restore' }) {
    this.id = request.job
    this.finish = request
    this.bytes = request.bytes
    this.admitUs = request.admitUs
    this.fenceReached = request.fence === 0
  }

  /** Copies the sources of one record: its list ends with the record. */
  append(list: List): void {
    this.#records.push(list.doubles.slice(list.offset, list.offset + list.length))
  }

  /** The last record has come: decides what is read, in which order, and whom each read serves. */
  lay(): void {
    this.complete = true
    const doubles = joined(this.#records.splice(0))
    const { length } = doubles
    this.sources = { doubles, offset: 0, length }
    this.plan = planReaderBatches(this.sources)
    this.#index(length / SOURCE.doubles)
  }

  #index(count: number): void {
    const { reads, scatter, scatterFirst, batches } = this.plan
    this.sourcesLeft = count
    this.readsLeft = reads.length
    let encoded = 0
    for (let source = 0; source < count; source++) if (this.encoded(source)) encoded += 1
    // One piece of memory: this is between a request and its first read.
    const memory = new Int32Array(2 * count + reads.length)
    this.readOf = memory.subarray(0, count).fill(NO_READ)
    this.#encoded = new ReadyQueue(memory.subarray(count, count + encoded))
    this.#plain = new ReadyQueue(memory.subarray(count + encoded, 2 * count))
    this.copiesLeft = memory.subarray(2 * count)
    this.readOffsetBytes = new Float64Array(reads.length)
    for (let read = 0; read < reads.length; read++) {
      const end = scatterFirst[read + 1] as number
      for (let at = scatterFirst[read] as number; at < end; at++) this.readOf[scatter[at] as number] = read
      this.copiesLeft[read] = end - (scatterFirst[read] as number)
    }
    const stores = new Map<number, ReaderBatch[]>()
    for (const batch of batches) {
      const known = stores.get(batch.store)
      if (known === undefined) stores.set(batch.store, [batch])
      else known.push(batch)
    }
    this.cursors = [...stores].map(([store, ofStore]) => new StoreCursor(store, ofStore))
  }

  field(source: number, at: number): number {
    return this.sources.doubles[source * SOURCE.doubles + at] as number
  }

  /** A field of what a read reads. */
  readField(read: number, at: number): number {
    return this.field(this.plan.reads[read] as number, at)
  }

  /** The sources that a read serves. */
  served(read: number): Int32Array {
    const { scatter, scatterFirst } = this.plan
    return scatter.subarray(scatterFirst[read] as number, scatterFirst[read + 1] as number)
  }

  /** True for a source whose stored bytes are a coding. */
  encoded(source: number): boolean {
    return this.field(source, SOURCE.encoded) === 1
  }

  get readyCount(): number {
    return this.#plain.count + this.#encoded.count
  }

  /** The sources that are ready for one kind of part. */
  readyFor(kind: 'copy' | 'decode'): ReadyQueue {
    return kind === 'copy' ? this.#plain : this.#encoded
  }

  pushReady(source: number): void {
    this.readyFor(this.encoded(source) ? 'decode' : 'copy').push(source)
  }

  shiftReady(): number {
    return (this.#plain.count > 0 ? this.#plain : this.#encoded).shift()
  }

  /** Where a source lies in the pool: in the window, or where the manager has it. */
  poolOffsetBytes(source: number): number {
    const read = this.readOf[source] as number
    return read === NO_READ ? this.field(source, SOURCE.poolOffsetBytes) : (this.readOffsetBytes[read] as number)
  }

  /** Remembers a failure: the first status, the smallest block. */
  fail(status: number, blocks: Int32Array | readonly number[]): void {
    if (this.status === ERROR_CODES.ok) this.status = status
    for (const source of blocks) {
      const pair = this.field(source, SOURCE.pair)
      if (this.firstFailed < 0 || pair < this.firstFailed) this.firstFailed = pair
    }
  }

  /** True when everything of the job is on the stream or done: nothing is left to start. */
  get started(): boolean {
    return (
      this.complete && this.fenceReached && this.readsLeft === 0 && this.readsInFlight === 0 && this.readyCount === 0
    )
  }

  /** True when nothing of the job is or will be with a reader or on the stream. */
  get over(): boolean {
    if (!this.complete || this.readsInFlight > 0 || this.partsInFlight > 0) return false
    return this.status !== ERROR_CODES.ok || (this.fenceReached && this.sourcesLeft === 0)
  }
}

/** All records as one; most restores have one record. */
function joined(records: readonly Float64Array[]): Float64Array {
  const [first] = records
  if (first !== undefined && records.length === 1) return first
  const doubles = new Float64Array(records.reduce((sum, record) => sum + record.length, 0))
  let offset = 0
  for (const record of records) {
    doubles.set(record, offset)
    offset += record.length
  }
  return doubles
}
