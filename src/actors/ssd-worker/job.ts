import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { COPY, SOURCE, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt } from '../../shared/layout/records.js'
import { planStagingReads, type StagingReadPlan } from '../../shared/planning/staging-reads.js'
import type { Finish } from '../dram-worker/messages.js'
import { Copies, NO_COPIES } from './copies.js'
import type { SsdWorkerRequest } from './messages.js'
import { NO_TARGETS, Targets } from './targets.js'
import type { Batch as BatchOf, StagingWorker } from './worker.js'

/** What restores, writes and encodings have in common: records, fence, copies beside I/O, and how they stop. */
abstract class Job {
  readonly id: number
  readonly worker: Worker
  readonly finish: Finish
  fenceReached: boolean
  /** False while records of the job are still to come. */
  complete = false
  /** False once it failed or was cancelled: what is submitted ends, nothing else starts. */
  starting = true
  list: List = EMPTY_LIST
  copies = NO_COPIES
  /** Parts of copies on the stream. */
  partsInFlight = 0
  /** Staging slots that work for the job. */
  batchesInFlight = 0
  status: number = ERROR_CODES.ok
  readonly #records: Float64Array[] = []

  constructor(worker: Worker, request: { readonly job: number } & Finish) {
    this.id = request.job
    this.worker = worker
    this.finish = request
    this.fenceReached = request.fence === 0
  }

  /** Copies the descriptors of one record: its list ends with the record. */
  append(list: List): void {
    this.#records.push(list.doubles.slice(list.offset, list.offset + list.length))
  }

  protected join(): void {
    const records = this.#records.splice(0)
    const length = records.reduce((sum, record) => sum + record.length, 0)
    const doubles = new Float64Array(length)
    let at = 0
    for (const record of records) {
      doubles.set(record, at)
      at += record.length
    }
    this.list = { doubles, offset: 0, length }
    this.complete = true
  }

  abstract get batchesLeft(): number
  abstract dropBatches(): void
  /** The job ends early, for want of some sources. */
  abstract fail(status: number, sources: Int32Array | readonly number[]): void

  /** What is submitted ends; nothing else starts. */
  stopStarting(): void {
    this.starting = false
    this.dropBatches()
    this.copies.drop()
  }

  /** True when nothing of the job is left to start. */
  get started(): boolean {
    return this.complete && this.fenceReached && this.batchesLeft === 0 && this.copies.left === 0
  }

  /** True when nothing of the job is or will be in a slot or on the stream. */
  get over(): boolean {
    if (!this.complete || this.partsInFlight > 0 || this.batchesInFlight > 0) return false
    return !this.starting || this.started
  }

  /** Remembers a failure: the first status. */
  remember(status: number): void {
    if (this.status === ERROR_CODES.ok) this.status = status
  }
}

/** One restore. */
export class RestoreJob extends Job {
  readonly kind = 'restore'
  readonly bytes: number
  readonly admitUs: number
  plan: StagingReadPlan = planStagingReads(EMPTY_LIST, 0)
  ssdBytes = 0
  /** Smallest `pair` that failed, or -1. */
  firstFailed = -1
  readonly damaged = new Set<number>()
  #nextBatch = 0
  #resident: Int32Array = new Int32Array(0)

  constructor(worker: Worker, request: SsdWorkerRequest & { kind: 'restore' }) {
    super(worker, request)
    this.bytes = request.bytes
    this.admitUs = request.admitUs
  }

  /** The last record has come: decides what is read and what is copied. */
  lay(slotBytes: number): void {
    this.join()
    this.plan = planStagingReads(this.list, slotBytes)
    this.#resident = this.plan.resident
    this.copies = new Copies(this.#resident.length)
    for (const [at, source] of this.#resident.entries()) {
      this.writeCopy(source, this.field(source, SOURCE.poolOffsetBytes), this.copies.doubles, at * COPY.doubles)
    }
  }

  field(source: number, at: number): number {
    return listAt(this.list, source * SOURCE.doubles + at)
  }

  /** A field of the granule that read `read` of the plan brings. */
  readField(read: number, at: number): number {
    return this.field(this.plan.reads[read] as number, at)
  }

  get batchesLeft(): number {
    return this.plan.batches.length - this.#nextBatch
  }

  takeBatch(): number {
    const batch = this.#nextBatch
    this.#nextBatch += 1
    return batch
  }

  dropBatches(): void {
    this.#nextBatch = this.plan.batches.length
  }

  /** True for a source whose stored bytes are a coding. */
  encoded(source: number): boolean {
    return this.field(source, SOURCE.encoded) === 1
  }

  /** The generation of each source has bytes that are not those that were published. */
  damage(sources: Int32Array | readonly number[]): void {
    for (const source of sources) this.damaged.add(this.field(source, SOURCE.generation))
  }

  /** One COPY descriptor of a source whose granule lies at `poolOffsetBytes`. */
  writeCopy(source: number, poolOffsetBytes: number, doubles: Float64Array, at: number): void {
    doubles[at + COPY.template] = this.field(source, SOURCE.template)
    doubles[at + COPY.granule] = this.field(source, SOURCE.granule)
    doubles[at + COPY.page] = this.field(source, SOURCE.page)
    doubles[at + COPY.poolOffsetBytes] = poolOffsetBytes
    doubles[at + COPY.firstItem] = this.field(source, SOURCE.firstItem)
    doubles[at + COPY.itemCount] = this.field(source, SOURCE.itemCount)
    doubles[at + COPY.storedBytes] = this.encoded(source) ? this.field(source, SOURCE.segmentBytes) : 0
  }

  /** The sources that copies `first … first + count - 1` serve. */
  residentOf(first: number, count: number): Int32Array {
    return this.#resident.subarray(first, first + count)
  }

  /** The sources that granules `firstRead … firstRead + readCount - 1` serve. */
  served(firstRead: number, readCount: number): Int32Array {
    const { scatter, scatterFirst } = this.plan
    return scatter.subarray(scatterFirst[firstRead] as number, scatterFirst[firstRead + readCount] as number)
  }

  /** Remembers a failure: the first status, the smallest block. */
  fail(status: number, sources: Int32Array | readonly number[]): void {
    this.remember(status)
    for (const source of sources) {
      const pair = this.field(source, SOURCE.pair)
      if (this.firstFailed < 0 || pair < this.firstFailed) this.firstFailed = pair
    }
  }
}

/** One publication's blocks on their way to the SSD, and to DRAM. The two halves fail apart. */
export class WriteJob extends Job {
  readonly kind = 'write'
  /** Status of the copies to DRAM. */
  copyStatus: number = ERROR_CODES.ok
  /** True once `copied` was said. */
  copiesSaid = false
  targets = NO_TARGETS

  /** The last record has come: cuts the blocks into chunks. */
  lay(slotBytes: number): void {
    this.join()
    this.targets = new Targets(this.list, slotBytes)
    this.copies = new Copies(this.targets.count)
    for (let target = 0; target < this.targets.count; target++) {
      const poolOffsetBytes = this.targets.field(target, TARGET.poolOffsetBytes)
      this.targets.writeCopy(target, poolOffsetBytes, this.copies.doubles, target * COPY.doubles)
    }
  }

  get batchesLeft(): number {
    return this.targets.left
  }

  dropBatches(): void {
    this.targets.drop()
  }

  /** The job itself ends early, and with it what of its copies has not ended. */
  fail(status: number): void {
    this.remember(status)
    const cut = !this.copiesSaid && this.copyStatus === ERROR_CODES.ok && (this.copies.left > 0 || !this.complete)
    if (cut || status === ERROR_CODES.io_copy_failed) this.copyStatus = status
  }
}

/**
 * One part of a publication under a codec, on its way to DRAM and, from where its codings were made, to the SSD. What comes
 * of its codings decides what may be written, so the manager is told first and says which blocks go where.
 *
 *   assembling ─▶ fenced ─▶ waiting ──the arena is its──▶ encoding ──last copy, coding ended──▶ said ─┐
 *                                                                       ┌── nothing is held ──────────┤
 *                                                                       │                             ▼
 *                                                                     over ◀──`write-codes`, empty── held
 *                                                                       ▲                             │ `write-codes`
 *                                                                       └──last chunk ended─────── writing
 *
 * | state    | the arena      | pages            | leaves by                                               |
 * |----------|----------------|------------------|---------------------------------------------------------|
 * | waiting  | another job's  | untouched        | the end of the job that has it                          |
 * | encoding | is written     | are read         | the last raw copy's end and the coding's                |
 * | held     | stays as it is | are read by none | `write-codes`, cancel, stop                             |
 * | writing  | is read        | raw ones read    | the last chunk's end; after a failure, of what was sent |
 */
export class EncodeJob extends Job {
  readonly kind = 'encode'
  /** Of the coded descriptors; see COPY. */
  codes = new Float64Array(0)
  /** What is asked of the device: that it keeps the codings. False once it said that it cannot. */
  holds = true
  /** The device has codings of this job. */
  held = false
  /** The one coding of the job. */
  coding: 'left' | 'running' | 'ended' = 'left'
  /** `encoded` was said. */
  said = false
  /** `write-codes` has come. */
  asked = false
  targets = NO_TARGETS
  /** Two numbers a descriptor: see `encoded`. */
  #outcomes = new Float64Array(0)
  #firstCoded = 0

  /** The last record has come: what is copied as it is comes first, then what is coded. */
  lay(): void {
    this.join()
    const count = this.list.length / COPY.doubles
    invariant(count > 0, 'an encoding has something to bring to DRAM', { job: this.id })
    const coded = (each: number) => listAt(this.list, each * COPY.doubles + COPY.storedBytes) > 0
    while (this.#firstCoded < count && !coded(this.#firstCoded)) this.#firstCoded += 1
    for (let each = this.#firstCoded; each < count; each++) invariant(coded(each), 'what is coded comes last', { each })
    const { doubles } = this.list
    this.copies = new Copies(this.#firstCoded)
    this.copies.doubles.set(doubles.subarray(0, this.#firstCoded * COPY.doubles))
    this.codes = doubles.slice(this.#firstCoded * COPY.doubles)
    this.#outcomes = new Float64Array(2 * count)
    if (this.codeCount === 0) this.coding = 'ended'
  }

  /** Coded descriptors. */
  get codeCount(): number {
    return this.codes.length / COPY.doubles
  }

  /** Keeps what the device says of each coding: stored bytes and CRC32. */
  keep(results: Uint32Array): void {
    this.#outcomes.set(results, 2 * this.#firstCoded)
  }

  /** Stored bytes of coding `code`; 0: there is none. */
  storedBytes(code: number): number {
    return this.#outcomes[2 * (this.#firstCoded + code)] ?? 0
  }

  /** Two numbers a descriptor, 0 and 0 of raw ones; empty when nothing is known, or nothing was coded. */
  get outcomes(): List {
    const { length } = this.#outcomes
    if (this.status !== ERROR_CODES.ok || this.codeCount === 0) return EMPTY_LIST
    return { doubles: this.#outcomes, offset: 0, length }
  }

  /** True when the copies to DRAM have ended, well or not, and nothing of them follows. */
  get settled(): boolean {
    if (!this.complete || this.partsInFlight > 0 || this.coding === 'running') return false
    return !this.starting || (this.fenceReached && this.coding === 'ended' && this.copies.left === 0)
  }

  /** Whether blocks of it may be written from where they are. */
  get writable(): boolean {
    return this.holds && this.status === ERROR_CODES.ok
  }

  /** The manager says what is written; an empty list: nothing. */
  write(list: List, slotBytes: number): void {
    const doubles = list.doubles.slice(list.offset, list.offset + list.length)
    this.asked = true
    this.targets = new Targets({ doubles, offset: 0, length: doubles.length }, slotBytes)
  }

  get batchesLeft(): number {
    return this.targets.left
  }

  dropBatches(): void {
    this.targets.drop()
  }

  override get started(): boolean {
    if (!this.said || this.coding !== 'ended') return false
    return super.started && (this.asked || !this.writable)
  }

  override get over(): boolean {
    return this.coding !== 'running' && super.over
  }

  fail(status: number): void {
    this.remember(status)
  }
}

/** Jobs whose chunks go to the SSD. */
export type WritingJob = WriteJob | EncodeJob
export type AnyJob = RestoreJob | WritingJob
export type Worker = StagingWorker<RestoreJob, WritingJob, EncodeJob>
export type Batch = BatchOf<RestoreJob, WritingJob>
