import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { nextRun, type Run, type RunMax } from '../../shared/codec/coded-run.js'
import { COPY, SOURCE, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt } from '../../shared/layout/records.js'
import { planStagingReads, type StagingReadPlan } from '../../shared/planning/staging-reads.js'
import type { Finish } from '../dram-worker/messages.js'
import type { EncodeJob } from './encode-job.js'
import type { SsdWorkerRequest } from './messages.js'
import { NO_TARGETS, Targets } from './targets.js'
import type { Batch as BatchOf, StagingWorker } from './worker.js'

/** Copies between DRAM and pages that a job still has to queue, in COPY descriptors. */
export class Copies {
  readonly doubles: Float64Array
  readonly #count: number
  #next = 0

  constructor(count: number) {
    this.#count = count
    this.doubles = new Float64Array(count * COPY.doubles)
  }

  get left(): number {
    return this.#count - this.#next
  }

  /** Takes the next that go together, from `first` on. */
  take(max: RunMax): Run & { readonly first: number } {
    const first = this.#next
    const run = nextRun(this.doubles, first * COPY.doubles, this.#count * COPY.doubles, max)
    invariant(run.count > 0, 'a lane that was told of no codec gets nothing coded', { first })
    this.#next += run.count
    return { ...run, first }
  }

  drop(): void {
    this.#next = this.#count
  }
}

const NO_COPIES = new Copies(0)

/** What restores, writes and encodings have in common: records, fence, copies beside I/O, and how they stop. */
export abstract class Job {
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

/** Jobs whose chunks go to the SSD. */
export type WritingJob = WriteJob | EncodeJob
export type AnyJob = RestoreJob | WritingJob
export type Worker = StagingWorker<RestoreJob, WritingJob, EncodeJob>
export type Batch = BatchOf<RestoreJob, WritingJob>
