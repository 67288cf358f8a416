import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { CodecTally } from '../../shared/codec/lane-series.js'
import { COPY, SOURCE, TARGET } from '../../shared/layout/descriptors.js'
import { FenceWaits } from '../../shared/scheduling/fence-waits.js'
import { resultsOf } from './checks.js'
import { SSD_WORKER_COUNT as COUNT, SSD_WORKER_HISTOGRAMS, SSD_WORKER_SERIES } from './counters.js'
import { Encodings } from './encodings.js'
import { type AnyJob, EncodeJob, RestoreJob, type Worker, WriteJob } from './job.js'
import type { SsdWorkerRequest } from './messages.js'
import { type CopyPart, Operations } from './operations.js'
import { Restores } from './restores.js'
import { type RestoreFailure, Scatters } from './scatters.js'
import type { SsdWorkerEffect, SsdWorkerInput } from './steps.js'
import { type SsdWorkerOptions, Workers } from './workers.js'
import { Writes } from './writes.js'

export { CHECKS_MAX, resultsOf } from './checks.js'
export type { SsdWorkerEffect, SsdWorkerInput } from './steps.js'
export type { SsdWorkerOptions } from './workers.js'

/**
 * What the cuFile lane does next. It owns the staging slots of every worker, a restore from its first record to its
 * slot's end, and a write job's bytes until their extents may be published.
 *
 * | a staging slot is | who may touch it          | leaves by                                                        |
 * |-------------------|---------------------------|------------------------------------------------------------------|
 * | free              | nobody                    | the turn of a job                                                |
 * | reading           | cuFile, then the checksum | the one completion of both: free when it failed, came short, is  |
 * |                   |                           | damaged or is not wanted any more; else scattering               |
 * | scattering        | the device's copies and   | the completion of the last: the second fence of the slot         |
 * |                   | decodings                 |                                                                  |
 * | writing           | the gather, then cuFile   | the one completion of both                                       |
 *
 *   assembling ──last record──▶ fenced ──fence word reached──▶ running ──last batch and part ended──▶ answered
 *        └──────────────────────┴── cancel, stop, a failure ──▶ draining ──batches and parts ended──┘
 *
 * An encoding goes through more states (EncodeJob), of which the manager decides in the middle.
 *
 * Invariants
 * - a worker has at most STAGING_SLOTS batches in flight and at most one of them writes; a slot has one batch at a
 *   time, from its submission to the end of its last device work;
 * - only bytes that were read in full and whose every checksum agrees are scattered; nothing else of a slot is; what is
 *   no coding then is damaged all the same, wherever it lay;
 * - a read is of one file, at most a slot long, on 4 KiB edges, and reads no page that no granule of its job touches;
 * - a job holds all its sources until its one reply, whichever of them a batch served;
 * - an object is `ok` only when every chunk of it was written in full; chunks are written in order, each once;
 * - the arena of a worker has the codings of one job, from their making to the end of the last chunk that is written of
 *   them; they are released once, before that job's `write-done`, and nothing is coded there meanwhile; `encoded` comes
 *   once and before `write-done`;
 * - jobs of a worker rotate after each batch; a write that waits goes after READ_BURST reads (StagingTurns);
 * - after a failure or cancel nothing of the job starts; what was submitted ends before its reply; the slot of a
 *   restore is finished once, immediately before that reply; `copied` comes once and before `write-done`;
 * - the pages of a job are in use until its own copies and its own batches have ended, whatever other jobs do;
 * - a worker's memory is given back only when it has no job and nothing in flight; `worker-closed` follows;
 * - a completion that names nothing in flight is counted and changes nothing; `stopped` comes once, last.
 */
export class SsdWorkerMachine {
  readonly #tally: Tally
  readonly #slotBytes: number
  readonly #operations = new Operations()
  readonly #scatters: Scatters
  readonly #restores: Restores
  readonly #writes: Writes
  readonly #encodings: Encodings
  readonly #workers: Workers
  readonly #jobs = new Map<number, AnyJob>()
  readonly #fences = new FenceWaits<AnyJob>()
  #nowUs = 0
  #stopping = false
  #stopped = false

  /** @param results where the port writes checksums and what decodings say: resultsOf(codedDescriptors) at least */
  constructor(options: SsdWorkerOptions, results: Uint32Array, tally: Tally) {
    const { slotBytes, codedDescriptors = 0 } = options
    const room = results.length
    invariant(room >= resultsOf(codedDescriptors), 'every slot and part has room for its results', { room })
    this.#tally = tally
    this.#slotBytes = slotBytes
    const codec = new CodecTally(tally, SSD_WORKER_SERIES.length, SSD_WORKER_HISTOGRAMS.length)
    this.#scatters = new Scatters(this.#operations, results, codec, codedDescriptors)
    this.#restores = new Restores(this.#operations, this.#scatters, results, tally)
    this.#writes = new Writes(this.#operations, tally)
    this.#encodings = new Encodings(this.#operations, results, codec, codedDescriptors)
    this.#workers = new Workers(options, this.#operations, this.#restores, this.#writes, this.#encodings)
  }

  /** Operations that a device works on. */
  get inFlight(): number {
    return this.#operations.count
  }

  get idle(): boolean {
    return this.#jobs.size === 0 && this.#operations.count === 0
  }

  /** True once `stopped` was answered: nothing is owned and nothing follows. */
  get stopped(): boolean {
    return this.#stopped
  }

  /** When the next tick is needed to look at a fence; infinite when no job waits for one. */
  get nextTickUs(): number {
    return this.#fences.nextLookUs
  }

  step(input: SsdWorkerInput, out: SsdWorkerEffect[]): void {
    switch (input.kind) {
      case 'request':
        this.#request(input.request, out)
        break
      case 'worker-opened':
        this.#opened(input.worker, input.code, out)
        break
      case 'completed':
        this.#completed(input.tag, input.result, out)
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
    // After `stop` nobody waits for single workers.
    this.#workers.advance(this.#nowUs, !this.#stopping, out)
    this.#gauge()
    if (!this.#stopping || this.#stopped || !this.idle || this.#workers.size > 0) return
    this.#stopped = true
    out.push({ kind: 'reply', reply: { kind: 'stopped' } })
  }

  #request(request: SsdWorkerRequest, out: SsdWorkerEffect[]): void {
    invariant(!this.#stopping, 'stop is the last request', { kind: request.kind })
    switch (request.kind) {
      case 'open-worker':
        return this.#workers.add(request.worker)
      case 'restore':
      case 'write':
      case 'encode':
        return this.#accept(request, out)
      case 'write-codes':
        return this.#writeCodes(request, out)
      case 'cancel': {
        const job = this.#jobs.get(request.job)
        if (job !== undefined) this.#fail(job, ERROR_CODES.cancelled, [], out)
        return
      }
      case 'close-worker':
        this.#workers.of(request.worker).closing = true
        return
      case 'stop':
        return this.#stop(out)
      default:
        return unreachable(request)
    }
  }

  #stop(out: SsdWorkerEffect[]): void {
    this.#stopping = true
    for (const job of [...this.#jobs.values()]) {
      if (job.started) continue // all of it is with the device: let it end well
      job.complete = true // no record follows `stop`
      this.#fail(job, ERROR_CODES.draining, [], out)
    }
    this.#workers.closeAll()
  }

  #accept(request: JobRequest, out: SsdWorkerEffect[]): void {
    const { list } = request
    const worker = this.#workers.of(request.worker)
    invariant(!worker.closing, 'a worker that closes has no more jobs', { worker: worker.number })
    const known = this.#jobs.get(request.job)
    const job = known ?? jobOf(worker, request)
    invariant(!job.complete && job.kind === request.kind, 'a job number is not used twice', { job: job.id })
    if (known === undefined) this.#admit(job)
    invariant(list.length % DOUBLES[request.kind] === 0, 'a list is a whole number of descriptors', {
      length: list.length,
    })
    job.append(list)
    if (request.more === 1) return
    job.lay(this.#slotBytes)
    if (!job.starting) job.stopStarting()
    if (job.over) return this.#end(job, out)
    if (!job.starting) return
    if (job.fenceReached) return this.#workers.start(job, out)
    this.#fences.add(job, this.#nowUs)
    this.#pollFences(out)
  }

  #admit(job: AnyJob): void {
    this.#jobs.set(job.id, job)
    job.worker.jobs.add(job)
    if (job.kind === 'restore') this.#restores.admit(job)
    else this.#writes.admit(job)
  }

  /** What is written of what a job holds; then it goes on by itself. */
  #writeCodes({ job: id, list }: SsdWorkerRequest & { kind: 'write-codes' }, out: SsdWorkerEffect[]): void {
    const job = this.#jobs.get(id)
    const held = job?.kind === 'encode' && job.said && job.writable && !job.asked
    invariant(held && list.length % TARGET.doubles === 0, 'what is held is written or released once', { job: id })
    job.write(list, this.#slotBytes)
    job.worker.wantSlot(job)
    this.#endWhenOver(job, out)
  }

  #opened(number: number, code: number, out: SsdWorkerEffect[]): void {
    const worker = this.#workers.opened(number, code)
    if (code >= 0) return
    this.#routeFailed(worker, code, out)
    for (const job of [...worker.jobs]) {
      // What still waits for its records or its fence tries again: the next job opens the worker anew.
      if (job.complete && job.fenceReached) this.#fail(job, ERROR_CODES.io_open_failed, [], out)
    }
  }

  // Completions

  #completed(tag: number, result: number, out: SsdWorkerEffect[]): void {
    const operation = this.#operations.take(tag)
    if (operation === null) return this.#tally.add(COUNT.completionsStray, 1)
    switch (operation.kind) {
      case 'read': {
        const { job, slot } = operation
        return this.#restoreWentOn(job, this.#restores.readEnded(job, slot, result, this.#nowUs, out), out)
      }
      case 'scatter': {
        const { job, slot } = operation
        return this.#scattered(job, slot, this.#restores.scattered(job, slot, result), out)
      }
      case 'decode': {
        const { job, slot } = operation
        return this.#scattered(job, slot, this.#restores.decoded(operation, result, this.#nowUs), out)
      }
      case 'write': {
        const { job, slot } = operation
        const code = this.#writes.written(job, slot, result, this.#nowUs)
        if (code !== 0) this.#routeFailed(job.worker, code, out)
        return this.#endWhenOver(job, out)
      }
      case 'encode': {
        const { job } = operation
        const status = this.#encodings.ended(operation, result, this.#nowUs, out)
        return status === ERROR_CODES.ok ? this.#endWhenOver(job, out) : this.#fail(job, status, [], out)
      }
      case 'copy':
        return this.#copied(operation, result, out)
      default:
        return unreachable(operation)
    }
  }

  #restoreWentOn(job: RestoreJob, failure: RestoreFailure | null, out: SsdWorkerEffect[]): void {
    if (failure === null) return this.#endWhenOver(job, out)
    if (failure.code !== 0) this.#routeFailed(job.worker, failure.code, out)
    this.#fail(job, failure.status, failure.sources, out)
  }

  /** One part of a slot's scatter has ended: what came of it first, then what becomes of the slot. */
  #scattered(job: RestoreJob, slot: number, failure: RestoreFailure | null, out: SsdWorkerEffect[]): void {
    if (failure !== null) this.#restoreWentOn(job, failure, out)
    this.#restores.settleSlot(job, slot, this.#nowUs, out)
    this.#endWhenOver(job, out)
  }

  #copied(part: CopyPart, result: number, out: SsdWorkerEffect[]): void {
    const { job, first, count, coded, place } = part
    job.worker.parts[place] = false
    job.partsInFlight -= 1
    const sources = job.kind === 'restore' ? job.residentOf(first, count) : NO_SOURCES
    if (coded && job.kind === 'restore') {
      const failure = this.#scatters.said(job, sources, part, result, this.#nowUs)
      // Copies beside I/O are not of the route.
      return failure === null ? this.#endWhenOver(job, out) : this.#fail(job, failure.status, failure.sources, out)
    }
    if (result >= 0) return this.#endWhenOver(job, out)
    this.#fail(job, ERROR_CODES.io_copy_failed, sources, out)
  }

  #routeFailed(worker: Worker, code: number, out: SsdWorkerEffect[]): void {
    out.push({ kind: 'reply', reply: { kind: 'route-failed', worker: worker.number, code } })
  }

  // Endings

  /** The job failed or was cancelled: it leaves the turns, nothing of it starts any more. */
  #fail(job: AnyJob, status: number, sources: Int32Array | readonly number[], out: SsdWorkerEffect[]): void {
    job.fail(status, sources)
    job.stopStarting()
    job.worker.withdraw(job)
    this.#fences.remove(job)
    this.#endWhenOver(job, out)
  }

  #endWhenOver(job: AnyJob, out: SsdWorkerEffect[]): void {
    if (job.kind === 'write') this.#writes.sayCopied(job, out)
    if (job.kind === 'encode') this.#encodings.say(job, out)
    if (job.over && this.#jobs.has(job.id)) this.#end(job, out)
  }

  #end(job: AnyJob, out: SsdWorkerEffect[]): void {
    this.#jobs.delete(job.id)
    job.worker.jobs.delete(job)
    if (job.kind === 'restore') return this.#restores.end(job, this.#nowUs, out)
    if (job.kind === 'write') this.#writes.sayCopied(job, out)
    else this.#encodings.end(job, out)
    this.#writes.end(job, out)
  }

  // Fences

  #fenceRead(id: number, value: number, out: SsdWorkerEffect[]): void {
    const job = this.#fences.find((each) => each.id === id)
    if (job === undefined || value < job.finish.fence) return
    this.#fences.remove(job)
    job.fenceReached = true
    if (job.over) this.#end(job, out)
    else this.#workers.start(job, out)
  }

  #pollFences(out: SsdWorkerEffect[]): void {
    for (const job of this.#fences.takeDue(this.#nowUs)) {
      out.push({ kind: 'poll-fence', job: job.id, slots: job.finish.slots, slot: job.finish.slot })
    }
  }

  #gauge(): void {
    this.#workers.gauge(this.#tally)
    this.#tally.set(COUNT.jobsActive, this.#jobs.size)
    this.#tally.set(COUNT.jobsFenced, this.#fences.size)
  }
}

const NO_SOURCES = new Int32Array(0)

type JobRequest = SsdWorkerRequest & { kind: AnyJob['kind'] }

/** Numbers of one descriptor of each kind of job. */
const DOUBLES = { restore: SOURCE.doubles, write: TARGET.doubles, encode: COPY.doubles } as const

function jobOf(worker: Worker, request: JobRequest): AnyJob {
  switch (request.kind) {
    case 'restore':
      return new RestoreJob(worker, request)
    case 'write':
      return new WriteJob(worker, request)
    case 'encode':
      return new EncodeJob(worker, request)
    default:
      return unreachable(request)
  }
}
