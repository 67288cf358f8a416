import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { WRITE } from '../../shared/layout/descriptors.js'
import { ByteWindow } from '../../shared/scheduling/byte-window.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import { WRITEBACK_COUNT as COUNT, WRITEBACK_HISTOGRAM as HISTOGRAM } from './counters.js'
import { WRITES_OUTSTANDING_MAX, type WritebackReply, type WritebackRequest } from './messages.js'
import { NextWrite } from './next-write.js'

/**
 * What writeback does next. It owns the writes of a job from the request to `write-done`; the manager holds the source
 * granules and the reserved extent for all of that time.
 *
 *   waiting ──head of the line, window, place──▶ writing ──last of its writes ended──▶ answered
 *      └─stop──▶ answered (draining)                │ failure, stop: no further write of the job is submitted
 *
 * | state   | submitted writes | unsubmitted writes | leaves by                                          |
 * |---------|------------------|--------------------|----------------------------------------------------|
 * | waiting | none             | all                | its first submission, stop                         |
 * | writing | some             | rest, none if failed | the completion of its last submitted write       |
 *
 * A write carries one granule, or, where granules are joined, as many that follow one another as `joinBytes`, the window
 * and NextWrite allow. It waits for room as a whole: a write that were cut to what is free just now would leave room for
 * ever smaller ones.
 *
 * Invariants
 * - bytes in flight never exceed the window at a submission, except that a granule larger than the window goes alone, so
 *   that the smallest window slows writes down and never stops them;
 * - granules of two jobs never share a write;
 * - writes are submitted in the order of the requests and complete in any order;
 * - a job is answered exactly once, after every submitted write of it ended; status 0 means every byte was written;
 * - after the first failure of a job none of its writes is submitted, and no other job is affected;
 * - a completion that names no write in flight is counted and changes nothing;
 * - after `stop` nothing is submitted; `stopped` is answered once, after the last `write-done`.
 */
export class WritebackMachine {
  readonly #tally: Tally
  readonly #places: OperationSlots
  readonly #jobAt: (Job | null)[]
  readonly #bytesAt: Float64Array
  /** Jobs with something left to submit, oldest first. */
  readonly #line: Job[] = []
  readonly #open = new Set<Job>()
  readonly #window: ByteWindow
  readonly #joinBytes: number
  readonly #write = new NextWrite()
  #nowUs = 0
  #stopping = false
  #stopped = false

  constructor(options: WritebackOptions, tally: Tally) {
    this.#tally = tally
    this.#places = new OperationSlots(options.depth)
    this.#jobAt = new Array<Job | null>(options.depth).fill(null)
    this.#bytesAt = new Float64Array(options.depth)
    this.#window = new ByteWindow(options.windowBytes)
    this.#joinBytes = options.joinBytes
    this.#gauge()
  }

  /** Writes submitted and not ended. */
  get inFlight(): number {
    return this.#places.heldCount
  }

  get idle(): boolean {
    return this.#open.size === 0
  }

  /** True once `stopped` was answered: nothing is owned and nothing follows. */
  get stopped(): boolean {
    return this.#stopped
  }

  step(input: WritebackInput, out: WritebackEffect[]): void {
    switch (input.kind) {
      case 'request':
        this.#request(input.request, out)
        break
      case 'io-completed':
        this.#complete(input.tag, input.result, out)
        break
      case 'tick':
        this.#nowUs = input.nowUs
        return
      default:
        return unreachable(input)
    }
    this.#submit(out)
    this.#gauge()
    this.#endWhenDrained(out)
  }

  #request(request: WritebackRequest, out: WritebackEffect[]): void {
    invariant(!this.#stopping, 'stop is the last request', { kind: request.kind })
    switch (request.kind) {
      case 'write':
        return this.#accept(request)
      case 'set-window':
        this.#window.resize(request.bytes)
        return
      case 'stop':
        return this.#beginDrain(out)
      default:
        return unreachable(request)
    }
  }

  #accept(request: WritebackRequest & { kind: 'write' }): void {
    const { job: id, file, fileOffsetBytes, list } = request
    const count = list.length / WRITE.doubles
    invariant(Number.isInteger(count) && count > 0, 'a job writes whole granules', { length: list.length })
    invariant(this.#open.size < WRITES_OUTSTANDING_MAX, 'the manager keeps within the completion ring', { job: id })
    const job: Job = {
      id,
      file,
      granules: list.doubles.slice(list.offset, list.offset + list.length),
      next: 0,
      nextOffsetBytes: fileOffsetBytes,
      inFlight: 0,
      writtenBytes: 0,
      status: ERROR_CODES.ok,
      askedUs: this.#nowUs,
    }
    this.#open.add(job)
    this.#line.push(job)
  }

  #beginDrain(out: WritebackEffect[]): void {
    this.#stopping = true
    for (const job of this.#line.splice(0)) {
      if (job.status === ERROR_CODES.ok) job.status = ERROR_CODES.draining
      if (job.inFlight === 0) this.#end(job, out)
    }
  }

  /** Submits from the head of the line while window and places allow. */
  #submit(out: WritebackEffect[]): void {
    const write = this.#write
    for (let job = this.#line[0]; job !== undefined && this.#places.freeCount > 0; job = this.#line[0]) {
      write.measure(job.granules, job.next, Math.min(this.#joinBytes, this.#window.limitBytes))
      if (!this.#window.enter(write.bytes)) return
      const place = this.#places.acquire()
      this.#jobAt[place] = job
      this.#bytesAt[place] = write.bytes
      job.inFlight += 1
      this.#tally.add(COUNT.writeOperations, 1)
      out.push(this.#effectOf(job, this.#places.tagOf(place)))
      job.next += write.granules
      job.nextOffsetBytes += write.bytes
      if (job.next * WRITE.doubles === job.granules.length) this.#line.shift()
    }
  }

  /** The measured write of a job. */
  #effectOf(job: Job, tag: number): WritebackEffect {
    const { bytes, spans } = this.#write
    const { file, nextOffsetBytes: fileOffsetBytes, granules: list } = job
    const offset = job.next * WRITE.doubles
    if (spans === 1) {
      const poolOffsetBytes = list[offset + WRITE.poolOffsetBytes] as number
      return { kind: 'submit-write', tag, file, fileOffsetBytes, poolOffsetBytes, bytes }
    }
    this.#write.merge(list, job.next)
    return { kind: 'submit-write-spans', tag, file, fileOffsetBytes, bytes, list, offset, spans }
  }

  #complete(tag: number, result: number, out: WritebackEffect[]): void {
    const place = this.#places.resolve(tag)
    if (place < 0) return this.#tally.add(COUNT.completionsStray, 1)
    const job = this.#jobAt[place]
    invariant(job !== null && job !== undefined, 'a held place names its job', { place })
    const bytes = this.#bytesAt[place] as number
    this.#jobAt[place] = null
    this.#places.release(place)
    this.#window.leave(bytes)
    job.inFlight -= 1
    const status = writeStatus(result, bytes)
    if (status === ERROR_CODES.ok) job.writtenBytes += bytes
    else this.#fail(job, status)
    if (job.inFlight === 0 && !this.#line.includes(job)) this.#end(job, out)
  }

  /** Keeps the first failure and drops what is not submitted. */
  #fail(job: Job, status: number): void {
    if (job.status === ERROR_CODES.ok) job.status = status
    const at = this.#line.indexOf(job)
    if (at >= 0) this.#line.splice(at, 1)
  }

  #end(job: Job, out: WritebackEffect[]): void {
    const latencyUs = this.#nowUs - job.askedUs
    this.#open.delete(job)
    this.#tally.observe(HISTOGRAM.writeDuration, latencyUs)
    if (job.status === ERROR_CODES.ok) this.#tally.add(COUNT.writeBytes, job.writtenBytes)
    else if (job.status === ERROR_CODES.draining) this.#tally.add(COUNT.jobsDropped, 1)
    else this.#tally.add(COUNT.writeFailures, 1)
    if (job.status === ERROR_CODES.io_disk_full) this.#tally.add(COUNT.diskFull, 1)
    const { id, status, writtenBytes } = job
    out.push({ kind: 'reply', reply: { kind: 'write-done', job: id, status, bytes: writtenBytes, latencyUs } })
  }

  #endWhenDrained(out: WritebackEffect[]): void {
    if (!this.#stopping || this.#stopped || !this.idle) return
    this.#stopped = true
    out.push({ kind: 'reply', reply: { kind: 'stopped' } })
  }

  #gauge(): void {
    const headStarted = (this.#line[0]?.next ?? 0) > 0
    const waiting = this.#line.length - (headStarted ? 1 : 0)
    this.#tally.set(COUNT.jobsQueued, waiting)
    this.#tally.set(COUNT.jobsInFlight, this.#open.size - waiting)
    this.#tally.set(COUNT.bytesInFlight, this.#window.inFlightBytes)
    this.#tally.set(COUNT.windowBytes, this.#window.limitBytes)
  }
}

export interface WritebackOptions {
  /** Writes in flight at once, a power of two: the depth of the port. */
  readonly depth: number
  /** Bytes in flight at once until the first `set-window`. */
  readonly windowBytes: number
  /** Granules of a job that follow one another go in writes of at most so many bytes; 0: each in one of its own. */
  readonly joinBytes: number
}

export type WritebackInput =
  | { readonly kind: 'request'; readonly request: WritebackRequest }
  /** `result`: bytes written, or -errno. */
  | { readonly kind: 'io-completed'; readonly tag: number; readonly result: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type WritebackEffect =
  | {
      readonly kind: 'submit-write'
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly poolOffsetBytes: number
      readonly bytes: number
    }
  /** `list` has one WRITE descriptor for each of `spans` from `offset` on, which are `bytes` in all. */
  | {
      readonly kind: 'submit-write-spans'
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly bytes: number
      readonly list: Float64Array
      readonly offset: number
      readonly spans: number
    }
  | { readonly kind: 'reply'; readonly reply: WritebackReply }

interface Job {
  readonly id: number
  readonly file: number
  /** WRITE descriptors, ours; in the place of those that were submitted stand the spans of their writes. */
  readonly granules: Float64Array
  /** Index of the next granule to submit, and where it goes. */
  next: number
  nextOffsetBytes: number
  inFlight: number
  writtenBytes: number
  /** The first failure, or ok. */
  status: number
  readonly askedUs: number
}

/** Linux errnos that mean "no room": ENOSPC, EFBIG, EDQUOT. */
const NO_ROOM = [28, 27, 122]

/** What a write's result means. A short write is a failed write, never resumed. */
function writeStatus(result: number, bytes: number): number {
  if (result === bytes) return ERROR_CODES.ok
  if (result >= 0) return ERROR_CODES.io_short
  return NO_ROOM.includes(-result) ? ERROR_CODES.io_disk_full : ERROR_CODES.io_write_failed
}
