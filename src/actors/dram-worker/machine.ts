import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { type CodecOp, CodecTally, encodedOf } from '../../shared/codec/lane-series.js'
import { codedPartStatus } from '../../shared/codec/part-failure.js'
import { CHECKSUM, COPY } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listOf } from '../../shared/layout/records.js'
import { type FinishSlot, finishSlot } from '../../shared/layout/slot-results.js'
import { FenceWaits } from '../../shared/scheduling/fence-waits.js'
import {
  DRAM_WORKER_COUNT as COUNT,
  DRAM_WORKER_HISTOGRAMS,
  DRAM_WORKER_SERIES,
  DRAM_WORKER_HISTOGRAM as HISTOGRAM,
} from './counters.js'
import { Job } from './job.js'
import { DRAM_JOBS_MAX, type DramWorkerReply, type DramWorkerRequest } from './messages.js'
import { type PartsOptions, type QueuedPart, resultsOf, StreamParts } from './parts.js'

/**
 * What the dram-worker does next. It owns the copies of a job from its first record to its reply; the manager holds
 * granules, leases and mapping for all of that time.
 *
 *   assembling ──last record──▶ fenced ──fence word reached──▶ copying ──last part ended──▶ answered
 *        └──────────────────────┴── cancel, stop ──▶ draining ──parts in flight ended──────────┘
 *                                    a part failed ──▶ draining
 *
 * | state      | parts on the stream | unqueued parts | leaves by                                             |
 * |------------|---------------------|----------------|-------------------------------------------------------|
 * | assembling | none                | growing        | the record without `more`                             |
 * | fenced     | none                | all            | the client's fence word, cancel, stop                 |
 * | copying    | some                | some           | the last part's end, a failure, cancel, stop          |
 * | draining   | some                | dropped        | the last part's end                                   |
 *
 * Invariants
 * - parts on the stream never exceed `parts`, and a part holds descriptors of one job and one kind (copied, encoded,
 *   decoded, summed): its failure is one job's;
 * - no part of a job is queued before its fence is reached, and a fenced job holds up no other;
 * - jobs with parts to queue take turns, one part each; restores, for which a request waits, go before saves and
 *   checksums, but after RESTORE_BURST parts of restores a waiting save or checksum is next; and these never hold more
 *   than half of the places, so that a restore finds the stream short;
 * - a job is answered exactly once, and only when none of its parts is on the stream; a restore's slot is finished once,
 *   immediately before that answer, unless the answer names damage: then the manager hides the generations first and
 *   finishes the slot itself; status 0 means that every descriptor was carried out;
 * - what a save says of a descriptor is what the stream said of it; a descriptor that it copied has 0 and 0;
 * - cancel changes nothing for a job that has ended, and nothing twice;
 * - a completion that names no part on the stream is counted and changes nothing;
 * - what the codec holds is given back, once for each request, when nothing is on the stream; until then nothing more is
 *   queued, so that jobs of a new rank keep nobody waiting;
 * - after `stop` nothing is queued, what has descriptors left (fenced jobs too) ends as `draining`; `stopped` is answered
 *   once, last.
 */
export class DramWorkerMachine {
  readonly #tally: Tally
  readonly #codec: CodecTally
  readonly #options: PartsOptions
  readonly #results: Uint32Array
  readonly #parts: StreamParts<Job>
  /** Jobs not answered; the job at the front has the next turn. */
  readonly #jobs: Job[] = []
  readonly #fences = new FenceWaits<Job>()
  /** Parts of saves and checksums on the stream. */
  #saveParts = 0
  /** Parts of restores queued since the last part of a save or checksum. */
  #restoreBurst = 0
  #nowUs = 0
  /** The workspace is asked for. */
  #releasing = false
  #stopping = false
  #stopped = false

  /** @param results where the port writes checksums and what codecs say: resultsOf(options) at least */
  constructor(options: PartsOptions, results: Uint32Array, tally: Tally) {
    const { parts } = options
    invariant(results.length >= resultsOf(options), 'every part has room for its results', { parts })
    this.#tally = tally
    this.#codec = new CodecTally(tally, DRAM_WORKER_SERIES.length, DRAM_WORKER_HISTOGRAMS.length)
    this.#options = options
    this.#results = results
    this.#parts = new StreamParts(options)
  }

  /** Parts on the stream. */
  get inFlight(): number {
    return this.#parts.count
  }

  get idle(): boolean {
    return this.#jobs.length === 0
  }

  /** True once `stopped` was answered: nothing is owned and nothing follows. */
  get stopped(): boolean {
    return this.#stopped
  }

  /** When the next tick is needed to look at a fence; infinite when no job waits for one. */
  get nextTickUs(): number {
    return this.#fences.nextLookUs
  }

  step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
    switch (input.kind) {
      case 'request':
        this.#request(input.request, out)
        break
      case 'stream-completed':
        this.#complete(input.tag, input.result, out)
        break
      case 'fence-read':
        this.#fenceRead(input.job, input.value, out)
        break
      case 'tick':
        this.#nowUs = input.nowUs
        this.#pollFences(out)
        return
      default:
        return unreachable(input)
    }
    this.#releaseWhenEmpty(out)
    this.#queueInTurns(out)
    this.#gauge()
    this.#endWhenDrained(out)
  }

  #request(request: DramWorkerRequest, out: DramWorkerEffect[]): void {
    invariant(!this.#stopping, 'stop is the last request', { kind: request.kind })
    switch (request.kind) {
      case 'save':
      case 'restore':
        return this.#accept(this.#jobOf(request, COPY.doubles), request.list, request.more === 0, out)
      case 'checksum': {
        const job = new Job(request, CHECKSUM.doubles, this.#nowUs)
        this.#admit(job)
        return this.#accept(job, request.list, true, out)
      }
      case 'cancel':
        for (const job of this.#jobs.filter((each) => each.id === request.job)) {
          this.#drop(job, ERROR_CODES.cancelled, out)
        }
        return
      case 'release-workspace':
        invariant(!this.#releasing, 'a workspace is asked for once at a time')
        this.#releasing = true
        return
      case 'stop':
        this.#stopping = true
        for (const job of [...this.#jobs]) {
          if (job.complete && job.fenceReached && job.left === 0) continue // all of it is on the stream: let it end well
          job.complete = true // no record follows `stop`
          this.#drop(job, ERROR_CODES.draining, out)
        }
        return
      default:
        return unreachable(request)
    }
  }

  /** The job that a record belongs to: one that is still assembling, or a new one. */
  #jobOf(request: DramWorkerRequest & { kind: 'save' | 'restore' }, doubles: number): Job {
    const known = this.#jobs.find((job) => job.id === request.job && job.kind !== 'checksum')
    if (known !== undefined) {
      invariant(!known.complete && known.kind === request.kind, 'a job number is not used twice', { job: known.id })
      return known
    }
    const job = new Job(request, doubles, this.#nowUs)
    this.#admit(job)
    return job
  }

  #admit(job: Job): void {
    invariant(this.#jobs.length < DRAM_JOBS_MAX, 'the manager keeps within the completion ring', { job: job.id })
    this.#jobs.push(job)
  }

  #accept(job: Job, list: List, last: boolean, out: DramWorkerEffect[]): void {
    const doubles = job.kind === 'checksum' ? CHECKSUM.doubles : COPY.doubles
    invariant(list.length % doubles === 0, 'a list is a whole number of descriptors', { length: list.length })
    job.append(list)
    job.complete = last
    if (!last) return
    if (job.over) return this.#end(job, out)
    if (job.fenceReached) return
    this.#fences.add(job, job.sinceUs)
    this.#pollFences(out)
  }

  /** Nothing more of the job is queued; it ends once nothing of it is on the stream. The first reason stays. */
  #drop(job: Job, status: number, out: DramWorkerEffect[]): void {
    if (job.status === ERROR_CODES.ok) job.status = status
    if (job.over) this.#end(job, out)
  }

  #releaseWhenEmpty(out: DramWorkerEffect[]): void {
    if (!this.#releasing || this.inFlight > 0) return
    this.#releasing = false
    out.push({ kind: 'release-workspace' }, { kind: 'reply', reply: { kind: 'workspace-released' } })
  }

  #queueInTurns(out: DramWorkerEffect[]): void {
    while (!this.#releasing && this.#parts.freeCount > 0) {
      const turn = this.#nextTurn()
      const job = this.#jobs[turn]
      if (job === undefined) return
      this.#queuePart(job, out)
      this.#jobs.splice(turn, 1)
      this.#jobs.push(job)
    }
  }

  /** Position of the job whose part goes next, or -1. */
  #nextTurn(): number {
    const restore = this.#jobs.findIndex((job) => job.ready && job.kind === 'restore')
    const roomForSave = this.#saveParts < Math.max(1, this.#parts.capacity / 2)
    const save = roomForSave ? this.#jobs.findIndex((job) => job.ready && job.kind !== 'restore') : -1
    const savesTurn = restore < 0 || (save >= 0 && this.#restoreBurst >= RESTORE_BURST)
    return savesTurn ? save : restore
  }

  #queuePart(job: Job, out: DramWorkerEffect[]): void {
    const part = job.take(this.#options)
    const { tag, resultBase } = this.#parts.put(job, part, this.#nowUs)
    if (job.kind === 'restore') this.#restoreBurst += 1
    else {
      this.#restoreBurst = 0
      this.#saveParts += 1
    }
    const { kind, doubles, offset, count } = part
    if (kind === 'copy') out.push({ kind, tag, direction: job.kind === 'restore' ? 0 : 1, doubles, offset, count })
    else out.push({ kind, tag, doubles, offset, count, resultBase })
  }

  #complete(tag: number, result: number, out: DramWorkerEffect[]): void {
    const part = this.#parts.ended(tag)
    if (part === null) return this.#tally.add(COUNT.completionsStray, 1)
    const { job } = part
    if (job.kind !== 'restore') this.#saveParts -= 1
    const status = result < 0 ? this.#failed(part, result) : this.#carriedOut(part)
    if (status !== ERROR_CODES.ok) return this.#drop(job, status, out)
    if (job.over) this.#end(job, out)
  }

  /** What the failure of a part makes of its job. */
  #failed({ kind }: QueuedPart<Job>, result: number): number {
    if (kind !== 'encode' && kind !== 'decode') return ERROR_CODES.io_copy_failed
    this.#codec.batchFailed(kind)
    return codedPartStatus(result)
  }

  /** Keeps what a part says of its descriptors; not ok when a decoding found that some are none. */
  #carriedOut(part: QueuedPart<Job>): number {
    const { kind, job, first, count, resultBase, storedBytes, sinceUs } = part
    const durationUs = this.#nowUs - sinceUs
    switch (kind) {
      case 'copy':
        return ERROR_CODES.ok
      case 'checksum':
        job.keepChecksums(first, this.#results.subarray(resultBase, resultBase + count))
        this.#tally.add(COUNT.checksums, count)
        return ERROR_CODES.ok
      case 'encode': {
        const results = this.#results.subarray(resultBase, resultBase + 2 * count)
        job.keepCoded(first, results)
        this.#codec.batchEnded({ op: kind, segments: count, ...encodedOf(results), durationUs })
        return ERROR_CODES.ok
      }
      case 'decode': {
        const damaged = this.#damagedOf(part)
        job.damaged.push(...damaged)
        this.#codec.batchEnded({ op: kind, segments: count, storedBytes, refused: damaged.length, durationUs })
        return damaged.length > 0 ? ERROR_CODES.codec_damaged : ERROR_CODES.ok
      }
      default:
        return unreachable(kind)
    }
  }

  /** Positions in the job of what the stream refused to decode. */
  #damagedOf({ first, count, resultBase }: QueuedPart<Job>): number[] {
    const damaged: number[] = []
    for (let each = 0; each < count; each++) if (this.#results[resultBase + each] !== 0) damaged.push(first + each)
    return damaged
  }

  #fenceRead(id: number, value: number, out: DramWorkerEffect[]): void {
    const job = this.#fences.find((each) => each.id === id)
    if (job === undefined || job.finish === null || value < job.finish.fence) return
    this.#fences.remove(job)
    job.fenceReached = true
    if (job.over) this.#end(job, out)
  }

  #pollFences(out: DramWorkerEffect[]): void {
    for (const job of this.#fences.takeDue(this.#nowUs)) {
      if (job.finish === null) continue
      out.push({ kind: 'poll-fence', job: job.id, slots: job.finish.slots, slot: job.finish.slot })
    }
  }

  #end(job: Job, out: DramWorkerEffect[]): void {
    invariant(job.partsInFlight === 0, 'a job ends when nothing of it is on the stream', { job: job.id })
    this.#jobs.splice(this.#jobs.indexOf(job), 1)
    this.#fences.remove(job)
    const { id, status } = job
    const latencyUs = Math.max(0, this.#nowUs - job.sinceUs)
    if (status === ERROR_CODES.cancelled) this.#tally.add(COUNT.jobsCancelled, 1)
    switch (job.kind) {
      case 'save':
        this.#tally.observe(HISTOGRAM.saveDuration, latencyUs)
        this.#tally.add(status === ERROR_CODES.ok ? COUNT.savesDone : COUNT.savesFailed, 1)
        out.push({ kind: 'reply', reply: { kind: 'save-done', job: id, status, list: job.results } })
        return
      case 'checksum':
        out.push({ kind: 'reply', reply: { kind: 'checksum-done', job: id, status, list: job.results } })
        return
      case 'restore':
        return this.#endRestore(job, latencyUs, out)
      default:
        return unreachable(job.kind)
    }
  }

  #endRestore(job: Job, latencyUs: number, out: DramWorkerEffect[]): void {
    invariant(job.finish !== null, 'a restore names its slot', { job: job.id })
    const { id, status } = job
    const bytes = status === ERROR_CODES.ok ? job.bytes : 0
    this.#tally.observe(HISTOGRAM.loadDuration, latencyUs)
    this.#tally.add(status === ERROR_CODES.ok ? COUNT.loadsDone : COUNT.loadsFailed, 1)
    this.#tally.add(COUNT.loadBytes, bytes)
    const { damaged } = job
    const list = damaged.length === 0 ? EMPTY_LIST : listOf(damaged)
    if (damaged.length === 0) {
      out.push(finishSlot(job.finish, { status, firstFailed: -1, bytes, admitUs: job.sinceUs }))
    }
    out.push({ kind: 'reply', reply: { kind: 'restore-done', job: id, status, bytes, latencyUs, list } })
  }

  #endWhenDrained(out: DramWorkerEffect[]): void {
    if (!this.#stopping || this.#stopped || !this.idle) return
    this.#stopped = true
    out.push({ kind: 'reply', reply: { kind: 'stopped' } })
  }

  #gauge(): void {
    this.#tally.set(COUNT.jobsActive, this.#jobs.length)
    this.#tally.set(COUNT.jobsFenced, this.#fences.size)
    this.#tally.set(COUNT.partsInFlight, this.inFlight)
  }
}

/** Parts of restores that may go before a waiting save: a save ends, however many restores come. */
const RESTORE_BURST = 4

export type DramWorkerInput =
  | { readonly kind: 'request'; readonly request: DramWorkerRequest }
  /** `result`: 0, or -errno, from the stream or from the call that should have queued the part. */
  | { readonly kind: 'stream-completed'; readonly tag: number; readonly result: number }
  /** The client's fence word, as asked by `poll-fence`. */
  | { readonly kind: 'fence-read'; readonly job: number; readonly value: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type DramWorkerEffect =
  | {
      readonly kind: 'copy'
      readonly tag: number
      readonly direction: 0 | 1
      readonly doubles: Float64Array
      readonly offset: number
      readonly count: number
    }
  | {
      readonly kind: 'checksum' | CodecOp
      readonly tag: number
      readonly doubles: Float64Array
      readonly offset: number
      readonly count: number
      readonly resultBase: number
    }
  | { readonly kind: 'poll-fence'; readonly job: number; readonly slots: number; readonly slot: number }
  | FinishSlot
  | { readonly kind: 'release-workspace' }
  | { readonly kind: 'reply'; readonly reply: DramWorkerReply }
