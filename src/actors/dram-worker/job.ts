import { ERROR_CODES } from '../../shared/base/errors.js'
import type { List } from '../../shared/layout/records.js'
import type { DramWorkerRequest, Finish } from './messages.js'

/** What a job does to its descriptors. */
export type JobKind = 'save' | 'restore' | 'checksum'

/** Next descriptors of a job that go to the stream together. */
export interface Part {
  readonly doubles: Float64Array
  readonly offset: number
  readonly count: number
  /** Position of the first descriptor in the whole job. */
  readonly first: number
}

/** One job from its first record to its reply. Only the machine changes it. */
export class Job {
  readonly id: number
  readonly kind: JobKind
  readonly finish: Finish | null
  readonly bytes: number
  readonly sinceUs: number
  /** Descriptors, ours; one chunk a record. */
  readonly #chunks: Float64Array[] = []
  readonly #doubles: number
  #chunk = 0
  #offset = 0
  #taken = 0
  #count = 0
  /** False while records of the job are still to come. */
  complete = false
  fenceReached: boolean
  partsInFlight = 0
  /** The first failure, `cancelled`, `draining`, or ok. */
  status: number = ERROR_CODES.ok
  /** Results of a checksum job, one a descriptor. */
  results = new Float64Array(0)

  constructor(request: DramWorkerRequest & { kind: JobKind }, descriptorDoubles: number, nowUs: number) {
    this.id = request.job
    this.kind = request.kind
    this.finish = request.kind === 'checksum' ? null : request
    this.bytes = request.kind === 'restore' ? request.bytes : 0
    this.sinceUs = request.kind === 'restore' ? request.admitUs : nowUs
    this.fenceReached = this.finish === null || this.finish.fence === 0
    this.#doubles = descriptorDoubles
  }

  /** Copies the descriptors of one record: its list ends with the record. */
  append(list: List): void {
    if (list.length === 0) return
    this.#chunks.push(list.doubles.slice(list.offset, list.offset + list.length))
    this.#count += list.length / this.#doubles
    if (this.kind === 'checksum') this.results = new Float64Array(this.#count)
  }

  /** Descriptors not yet taken by a part. */
  get left(): number {
    return this.#count - this.#taken
  }

  /** True when parts of the job may go to the stream. */
  get ready(): boolean {
    return this.complete && this.fenceReached && this.status === ERROR_CODES.ok && this.left > 0
  }

  /** True when nothing of the job is or will be on the stream. */
  get over(): boolean {
    if (!this.complete || this.partsInFlight > 0) return false
    return this.status !== ERROR_CODES.ok || (this.fenceReached && this.left === 0)
  }

  /** Takes the next part of at most `countMax` descriptors; only while `left` is above 0. */
  take(countMax: number): Part {
    const doubles = this.#chunks[this.#chunk] as Float64Array
    const offset = this.#offset
    const count = Math.min(countMax, (doubles.length - offset) / this.#doubles)
    const first = this.#taken
    this.#taken += count
    this.#offset += count * this.#doubles
    this.#skipEmptyChunks()
    return { doubles, offset, count, first }
  }

  #skipEmptyChunks(): void {
    while (this.#chunk < this.#chunks.length && this.#offset === this.#chunks[this.#chunk]?.length) {
      this.#chunk += 1
      this.#offset = 0
    }
  }
}
