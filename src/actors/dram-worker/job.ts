import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { nextRun, type Run } from '../../shared/codec/coded-run.js'
import { EMPTY_LIST, type List } from '../../shared/layout/records.js'
import type { DramWorkerRequest, Finish } from './messages.js'
import type { Part, PartsOptions } from './parts.js'

/** What a job does to its descriptors. */
export type JobKind = 'save' | 'restore' | 'checksum'

const CODED_KIND = { save: 'encode', restore: 'decode' } as const

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
  /** Restores: descriptors whose stored bytes are no coding. */
  readonly damaged: number[] = []
  /** Checksums: one a descriptor. Saves that code anything: stored bytes and CRC of each descriptor. */
  #results = new Float64Array(0)
  #coded = false

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
    if (this.kind === 'checksum') this.#results = new Float64Array(this.#count)
  }

  /** Keeps the results of a part of checksums: one a descriptor from `first` on. */
  keepChecksums(first: number, results: Uint32Array): void {
    this.#results.set(results, first)
  }

  /** Keeps the results of an encoded part: two a descriptor from `first` on. */
  keepCoded(first: number, results: Uint32Array): void {
    if (!this.#coded) this.#results = new Float64Array(2 * this.#count)
    this.#coded = true
    this.#results.set(results, 2 * first)
  }

  /** What the job says of its descriptors: nothing when it failed, or when it is a save that coded nothing. */
  get results(): List {
    if (this.status !== ERROR_CODES.ok || (this.kind === 'save' && !this.#coded)) return EMPTY_LIST
    return { doubles: this.#results, offset: 0, length: this.#results.length }
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

  /** Takes the next part, which ends where the record or the kind does; only while `left` is above 0. */
  take(max: PartsOptions): Part {
    const doubles = this.#chunks[this.#chunk] as Float64Array
    const offset = this.#offset
    const first = this.#taken
    const { coded, count, storedBytes } = this.#run(max)
    invariant(count > 0, 'a lane that was told of no codec gets nothing coded', { job: this.id })
    this.#taken += count
    this.#offset += count * this.#doubles
    this.#skipEmptyChunks()
    const kind = this.kind === 'checksum' ? 'checksum' : coded ? CODED_KIND[this.kind] : 'copy'
    return { kind, doubles, offset, count, first, storedBytes }
  }

  #run(max: PartsOptions): Run {
    const doubles = this.#chunks[this.#chunk] as Float64Array
    if (this.kind !== 'checksum') return nextRun(doubles, this.#offset, doubles.length, max)
    const count = Math.min(max.partDescriptors, (doubles.length - this.#offset) / this.#doubles)
    return { coded: false, count, storedBytes: 0 }
  }

  #skipEmptyChunks(): void {
    while (this.#chunk < this.#chunks.length && this.#offset === this.#chunks[this.#chunk]?.length) {
      this.#chunk += 1
      this.#offset = 0
    }
  }
}
