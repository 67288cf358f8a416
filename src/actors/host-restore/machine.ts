import { ERROR_CODES, errorCodeName, provesLoss } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { CodecTally } from '../../shared/codec/lane-series.js'
import { codedPartStatus } from '../../shared/codec/part-failure.js'
import { SOURCE } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, listOf } from '../../shared/layout/records.js'
import { type FinishSlot, finishSlot } from '../../shared/layout/slot-results.js'
import { FenceWaits } from '../../shared/scheduling/fence-waits.js'
import {
  HOST_RESTORE_COUNT as COUNT,
  HOST_RESTORE_HISTOGRAM as HISTOGRAM,
  HOST_RESTORE_HISTOGRAMS,
  HOST_RESTORE_SERIES,
} from './counters.js'
import { RestoreJob } from './job.js'
import { type HostRestoreReply, type HostRestoreRequest, RESTORES_MAX } from './messages.js'
import { type CopyPart, CopyParts, type CopyPartsOptions, type EndedPart, resultsOf } from './parts.js'
import { type AskReader, OutstandingReads, type OutstandingReadsOptions } from './reads.js'

/**
 * What host-restore does next. It owns a restore from its first record to its reply: the window memory of its reads,
 * its copies, and the slot's end. Each granule goes its own way, so reads and copies overlap:
 *
 *   asked ──read-done, verified──▶ ready ──turn, a place on the stream──▶ copying ──last copy ended──▶ free
 *     └─────read-done, failed────────┴──────── job failed, cancelled ─────────────────────────────────▶ free
 *
 * | a window unit is | who may touch it | leaves by                                                           |
 * |------------------|------------------|---------------------------------------------------------------------|
 * | asked            | the reader       | its read-done only: cancel and failure wait for it                  |
 * | ready            | this lane        | submission of its copies; the end of the job's starting             |
 * | copying          | the stream       | the end of every part that names it                                 |
 *
 *   assembling ──last record──▶ fenced ──fence word reached──▶ running ──last copy ended──▶ answered
 *        └──────────────────────┴── cancel, stop, a failure ──▶ draining ──reads and parts ended──┘
 *
 * Invariants
 * - a window unit is given back only when its read has ended and no part on the stream names it; units never overlap;
 * - reads outstanding at one reader never exceed `storeReads` (at most CLIENT_READS_MAX); parts never exceed `parts`;
 * - a granule that several sources name is read once; a message to a reader is part of one planned batch;
 * - only a granule that a reader called verified is copied or decoded; sources in DRAM are so without a read; what the
 *   stream refuses to decode is damaged, wherever it lay;
 * - jobs take turns for reads and for parts; the job whose turn meets a full window is served first when memory
 *   returns, and no job holds the last eighth of the window alone, so that small restores pass large ones;
 * - after a failure or cancel nothing of the job starts; what is with readers or the stream ends before the slot is
 *   written; the slot is finished once, immediately before the one reply, unless the reply names damaged generations:
 *   then the manager hides them first and finishes the slot itself, so that no client asks again and finds them;
 * - a read-done or completion that names nothing in flight is counted and changes nothing;
 * - what the codec holds is given back, once for each request, when nothing is on the stream; until then no part is
 *   queued;
 * - after `stop` nothing is started, what is not wholly on the stream ends as `draining`; `stopped` comes once, last.
 */
export class HostRestoreMachine {
  readonly #tally: Tally
  readonly #codec: CodecTally
  readonly #results: Uint32Array
  readonly #reads: OutstandingReads
  readonly #jobs = new Map<number, RestoreJob>()
  /** Jobs with reads to ask for; the job at the front has the next turn. */
  readonly #readers: RestoreJob[] = []
  /** Jobs with copies to submit; the job at the front has the next turn. */
  readonly #copiers: RestoreJob[] = []
  readonly #fences = new FenceWaits<RestoreJob>()
  readonly #parts: CopyParts
  #nowUs = 0
  /** The workspace is asked for. */
  #releasing = false
  #stopping = false
  #stopped = false

  /** @param results where the port writes what decodings say: resultsOf(options) at least */
  constructor(options: HostRestoreOptions, tally: Tally, results: Uint32Array = NO_RESULTS) {
    invariant(results.length >= resultsOf(options), 'every part has room for its results', { parts: options.parts })
    this.#tally = tally
    this.#codec = new CodecTally(tally, HOST_RESTORE_SERIES.length, HOST_RESTORE_HISTOGRAMS.length)
    this.#results = results
    this.#reads = new OutstandingReads(options)
    this.#parts = new CopyParts(options)
  }

  /** Parts on the stream. */
  get inFlight(): number {
    return this.#parts.count
  }

  get idle(): boolean {
    return this.#jobs.size === 0
  }

  /** True once `stopped` was answered: nothing is owned and nothing follows. */
  get stopped(): boolean {
    return this.#stopped
  }

  /** When the next tick is needed to look at a fence; infinite when no job waits for one. */
  get nextTickUs(): number {
    return this.#fences.nextLookUs
  }

  step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
    switch (input.kind) {
      case 'request':
        this.#request(input.request, out)
        break
      case 'read-done':
        this.#readDone(input.batch, input.index, input.status, out)
        break
      case 'stream-completed':
        this.#partEnded(input.tag, input.result, out)
        break
      case 'fence-read':
        this.#fenceRead(input.job, input.value, out)
        break
      case 'tick':
        this.#nowUs = input.nowUs
        return this.#pollFences(out)
      default:
        return unreachable(input)
    }
  }

  /** Starts what the inputs of this turn made possible: granules that landed together travel in one part. */
  settle(out: HostRestoreEffect[]): void {
    this.#releaseWhenEmpty(out)
    this.#startCopies(out)
    this.#startReads(out)
    this.#gauge()
    this.#endWhenDrained(out)
  }

  #request(request: HostRestoreRequest, out: HostRestoreEffect[]): void {
    invariant(!this.#stopping, 'stop is the last request', { kind: request.kind })
    switch (request.kind) {
      case 'restore':
        return this.#accept(request, out)
      case 'cancel': {
        const job = this.#jobs.get(request.job)
        if (job !== undefined) this.#drop(job, ERROR_CODES.cancelled, out)
        return
      }
      case 'release-workspace':
        invariant(!this.#releasing, 'a workspace is asked for once at a time')
        this.#releasing = true
        return
      case 'stop':
        this.#stopping = true
        for (const job of [...this.#jobs.values()]) {
          if (job.started) continue // all of it is on the stream: let it end well
          job.complete = true // no record follows `stop`
          this.#drop(job, ERROR_CODES.draining, out)
        }
        return
      default:
        return unreachable(request)
    }
  }

  #accept(request: HostRestoreRequest & { kind: 'restore' }, out: HostRestoreEffect[]): void {
    const { list } = request
    invariant(list.length % SOURCE.doubles === 0, 'a list is a whole number of descriptors', { length: list.length })
    const job = this.#jobs.get(request.job) ?? new RestoreJob(request)
    invariant(!job.complete, 'a job number is not used twice', { job: job.id })
    this.#jobs.set(job.id, job)
    invariant(this.#jobs.size <= RESTORES_MAX, 'the manager keeps within the completion ring', { job: job.id })
    job.append(list)
    if (request.more === 1) return
    job.lay()
    if (job.over) return this.#end(job, out)
    const { resident, reads } = job.plan
    this.#tally.add(COUNT.readsShared, job.sourcesLeft - resident.length - reads.length)
    if (job.fenceReached) return this.#start(job)
    this.#fences.add(job, job.admitUs)
    this.#pollFences(out)
  }

  #start(job: RestoreJob): void {
    for (const source of job.plan.resident) this.#ready(job, source)
    if (job.readsLeft > 0) this.#readers.push(job)
  }

  #ready(job: RestoreJob, source: number): void {
    if (job.readyCount === 0) this.#copiers.push(job)
    job.pushReady(source)
  }

  // Reads

  #startReads(out: HostRestoreEffect[]): void {
    for (let passed = 0; passed < this.#readers.length; ) {
      const job = this.#readers[0] as RestoreJob
      const turn = this.#reads.takeTurn(job, (message) => out.push(message))
      if (turn === 'no-memory') return
      this.#readers.shift()
      if (job.readsLeft > 0) this.#readers.push(job)
      passed = turn === 'asked' ? 0 : passed + 1
    }
  }

  #readDone(batch: number, tag: number, status: number, out: HostRestoreEffect[]): void {
    const ended = this.#reads.ended(batch, tag)
    if (ended === null) return this.#tally.add(COUNT.completionsStray, 1)
    const { job, read } = ended
    if (status === ERROR_CODES.ok) this.#landed(job, read)
    else this.#readFailed(job, read, status, out)
    if (job.over) this.#end(job, out)
  }

  #landed(job: RestoreJob, read: number): void {
    const bytes = job.readField(read, SOURCE.bytes)
    job.ssdBytes += bytes
    this.#tally.add(COUNT.ssdBytes, bytes)
    if (job.status !== ERROR_CODES.ok) return this.#reads.free(job, read)
    for (const source of job.served(read)) this.#ready(job, source)
  }

  #readFailed(job: RestoreJob, read: number, status: number, out: HostRestoreEffect[]): void {
    this.#reads.free(job, read)
    if (provesLoss(errorCodeName(status))) job.damaged.add(job.readField(read, SOURCE.generation))
    // A read that was dropped because the job is ending says nothing new about it.
    const dropped = status === ERROR_CODES.cancelled && job.status !== ERROR_CODES.ok
    job.fail(status, dropped ? [] : job.served(read))
    this.#stopStarting(job, out)
  }

  // Copies

  #releaseWhenEmpty(out: HostRestoreEffect[]): void {
    if (!this.#releasing || this.inFlight > 0) return
    this.#releasing = false
    out.push({ kind: 'release-workspace' }, { kind: 'reply', reply: { kind: 'workspace-released' } })
  }

  #startCopies(out: HostRestoreEffect[]): void {
    while (!this.#releasing && this.#copiers.length > 0 && this.#parts.freeCount > 0) {
      const job = this.#copiers.shift() as RestoreJob
      out.push(this.#parts.take(job, this.#nowUs))
      if (job.readyCount > 0) this.#copiers.push(job)
    }
  }

  #partEnded(tag: number, result: number, out: HostRestoreEffect[]): void {
    const part = this.#parts.ended(tag)
    if (part === null) return this.#tally.add(COUNT.completionsStray, 1)
    const { job, sources } = part
    for (const source of sources) this.#copyEnded(job, source)
    const healthy = result < 0 ? this.#partFailed(part, result) : part.kind === 'copy' || this.#decoded(part)
    if (!healthy) this.#stopStarting(job, out)
    if (job.over) this.#end(job, out)
  }

  #partFailed({ kind, job, sources }: EndedPart, result: number): false {
    if (kind === 'decode') this.#codec.batchFailed(kind)
    job.fail(kind === 'decode' ? codedPartStatus(result) : ERROR_CODES.io_copy_failed, sources)
    return false
  }

  /** What a part of decodings says: true when every one of its sources is a coding. The others are damaged. */
  #decoded({ job, sources, resultBase, count, storedBytes, sinceUs }: EndedPart): boolean {
    const refused = sources.filter((_, each) => this.#results[resultBase + each] !== 0)
    const durationUs = this.#nowUs - sinceUs
    this.#codec.batchEnded({ op: 'decode', segments: count, storedBytes, refused: refused.length, durationUs })
    if (refused.length === 0) return true
    for (const source of refused) job.damaged.add(job.field(source, SOURCE.generation))
    job.fail(ERROR_CODES.codec_damaged, refused)
    return false
  }

  /** The copy of a source ended, well or not, or will never start. The last one of a read frees its memory. */
  #copyEnded(job: RestoreJob, source: number): void {
    job.sourcesLeft -= 1
    const read = job.readOf[source] as number
    if (read < 0) return
    job.copiesLeft[read] = (job.copiesLeft[read] as number) - 1
    if (job.copiesLeft[read] === 0) this.#reads.free(job, read)
  }

  // Endings

  #drop(job: RestoreJob, status: number, out: HostRestoreEffect[]): void {
    job.fail(status, [])
    this.#stopStarting(job, out)
    if (job.over) this.#end(job, out)
  }

  /** The job has a failure: it leaves the turns, what is ready is given up, readers are asked to drop what waits. */
  #stopStarting(job: RestoreJob, out: HostRestoreEffect[]): void {
    if (!job.starting) return
    job.starting = false
    job.readsLeft = 0
    remove(this.#readers, job)
    remove(this.#copiers, job)
    this.#fences.remove(job)
    while (job.readyCount > 0) this.#copyEnded(job, job.shiftReady())
    for (const { store, batch } of job.asks) {
      out.push({ kind: 'ask-reader', store, request: { kind: 'cancel-batch', batch } })
    }
  }

  #end(job: RestoreJob, out: HostRestoreEffect[]): void {
    invariant(job.heldBytes === 0 && job.asks.size === 0, 'a job ends with its memory given back', { job: job.id })
    this.#jobs.delete(job.id)
    const { id, status, firstFailed, ssdBytes } = job
    const ok = status === ERROR_CODES.ok
    const bytes = ok ? job.bytes : 0
    const latencyUs = Math.max(0, this.#nowUs - job.admitUs)
    this.#countEnd(job, bytes, latencyUs)
    const list = job.damaged.size === 0 ? EMPTY_LIST : listOf([...job.damaged])
    if (job.damaged.size === 0) out.push(finishSlot(job.finish, { status, firstFailed, bytes, admitUs: job.admitUs }))
    const reply = { kind: 'restore-done', job: id, status, bytes, ssdBytes, firstFailed, latencyUs, list } as const
    out.push({ kind: 'reply', reply })
  }

  #countEnd(job: RestoreJob, bytes: number, latencyUs: number): void {
    const ended =
      job.status === ERROR_CODES.ok
        ? COUNT.restoresDone
        : job.status === ERROR_CODES.cancelled
          ? COUNT.restoresCancelled
          : COUNT.restoresFailed
    this.#tally.add(ended, 1)
    this.#tally.add(COUNT.loadBytes, bytes)
    this.#tally.add(COUNT.damagedGenerations, job.damaged.size)
    this.#tally.observe(HISTOGRAM.loadDuration, latencyUs)
  }

  #endWhenDrained(out: HostRestoreEffect[]): void {
    if (!this.#stopping || this.#stopped || !this.idle) return
    this.#stopped = true
    out.push({ kind: 'reply', reply: { kind: 'stopped' } })
  }

  // Fences

  #fenceRead(id: number, value: number, out: HostRestoreEffect[]): void {
    const job = this.#fences.find((each) => each.id === id)
    if (job === undefined || value < job.finish.fence) return
    this.#fences.remove(job)
    job.fenceReached = true
    if (job.over) this.#end(job, out)
    else this.#start(job)
  }

  #pollFences(out: HostRestoreEffect[]): void {
    for (const job of this.#fences.takeDue(this.#nowUs)) {
      out.push({ kind: 'poll-fence', job: job.id, slots: job.finish.slots, slot: job.finish.slot })
    }
  }

  #gauge(): void {
    this.#tally.set(COUNT.readsInFlight, this.#reads.count)
    this.#tally.set(COUNT.partsInFlight, this.#parts.count)
    this.#tally.set(COUNT.windowBytes, this.#reads.windowUsedBytes)
    this.#tally.set(COUNT.jobsActive, this.#jobs.size)
    this.#tally.set(COUNT.jobsFenced, this.#fences.size)
  }
}

const NO_RESULTS = new Uint32Array(0)

export interface HostRestoreOptions extends OutstandingReadsOptions, CopyPartsOptions {}

export type HostRestoreInput =
  | { readonly kind: 'request'; readonly request: HostRestoreRequest }
  /** A reader's answer; `index` is what READ.index was. */
  | { readonly kind: 'read-done'; readonly batch: number; readonly index: number; readonly status: number }
  /** `result`: 0, or -errno, from the stream or from the call that should have queued the part. */
  | { readonly kind: 'stream-completed'; readonly tag: number; readonly result: number }
  /** The client's fence word, as asked by `poll-fence`. */
  | { readonly kind: 'fence-read'; readonly job: number; readonly value: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type HostRestoreEffect =
  | AskReader
  | CopyPart
  | { readonly kind: 'poll-fence'; readonly job: number; readonly slots: number; readonly slot: number }
  | FinishSlot
  | { readonly kind: 'release-workspace' }
  | { readonly kind: 'reply'; readonly reply: HostRestoreReply }

function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item)
  if (at >= 0) list.splice(at, 1)
}
