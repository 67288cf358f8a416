import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { CHECKSUM, COPY, NO_CRC, SOURCE, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, listOf } from '../../shared/layout/records.js'
import { type FinishSlot, finishSlot } from '../../shared/layout/slot-results.js'
import { SLOT_GRANULES_MAX, type StagingRead } from '../../shared/planning/staging-reads.js'
import type { StagingChunk } from '../../shared/planning/staging-writes.js'
import { FenceWaits } from '../../shared/scheduling/fence-waits.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import { SSD_WORKER_COUNT as COUNT, SSD_WORKER_HISTOGRAM as HISTOGRAM } from './counters.js'
import { type AnyJob, type Batch, RestoreJob, type Worker, WriteJob } from './job.js'
import {
  GPU_RESTORES_MAX,
  GPU_WRITES_MAX,
  SSD_WORKERS_MAX,
  type SsdWorkerReply,
  type SsdWorkerRequest,
} from './messages.js'
import { COPY_PARTS, STAGING_SLOTS, StagingWorker } from './worker.js'

/** Places for operations: both slots and all parts of every worker. */
const OPERATIONS = 1024
/** What the device is said to have answered when it read or wrote less than it was asked to: EIO. */
const SHORT = -5

/** Checksums that the lane can have outstanding: those of both slots of every worker. */
export const CHECKS_MAX = SSD_WORKERS_MAX * STAGING_SLOTS * SLOT_GRANULES_MAX

/**
 * What the cuFile lane does next. It owns the staging slots of every worker, a restore from its first record to its
 * slot's end, and a write job's bytes until their extents may be published.
 *
 * | a staging slot is | who may touch it          | leaves by                                                        |
 * |-------------------|---------------------------|------------------------------------------------------------------|
 * | free              | nobody                    | the turn of a job                                                |
 * | reading           | cuFile, then the checksum | the one completion of both: free when it failed, came short, is  |
 * |                   |                           | damaged or is not wanted any more; else scattering               |
 * | scattering        | the device's copies       | their completion: the second fence of the slot                   |
 * | writing           | the gather, then cuFile   | the one completion of both                                       |
 *
 *   assembling ──last record──▶ fenced ──fence word reached──▶ running ──last batch and part ended──▶ answered
 *        └──────────────────────┴── cancel, stop, a failure ──▶ draining ──batches and parts ended──┘
 *
 * Invariants
 * - a worker has at most STAGING_SLOTS batches in flight and at most one of them writes; a slot has one batch at a
 *   time, from its submission to the end of its last device work;
 * - only bytes that were read in full and whose every checksum agrees are scattered; nothing else of a slot is;
 * - a read is of one file, at most a slot long, on 4 KiB edges, and reads no page that no granule of its job touches;
 * - a job holds all its sources until its one reply, whichever of them a batch served;
 * - an object is `ok` only when every chunk of it was written in full; chunks are written in order, each once;
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
  readonly #partDescriptors: number
  /** Where the port writes checksums: SLOT_GRANULES_MAX for each slot of each worker. */
  readonly #checks: Uint32Array
  readonly #workers = new Map<number, Worker>()
  readonly #jobs = new Map<number, AnyJob>()
  readonly #fences = new FenceWaits<AnyJob>()
  readonly #operations = new OperationSlots(OPERATIONS)
  readonly #operationAt: (Operation | null)[] = new Array<Operation | null>(OPERATIONS).fill(null)
  #restores = 0
  #nowUs = 0
  #stopping = false
  #stopped = false

  /** @param checks where the port writes checksums: CHECKS_MAX of them */
  constructor(options: SsdWorkerOptions, checks: Uint32Array, tally: Tally) {
    invariant(checks.length >= CHECKS_MAX, 'every slot has room for its checksums', { checks: checks.length })
    this.#tally = tally
    this.#slotBytes = options.slotBytes
    this.#partDescriptors = options.partDescriptors
    this.#checks = checks
  }

  /** Operations that a device works on. */
  get inFlight(): number {
    return this.#operations.heldCount
  }

  get idle(): boolean {
    return this.#jobs.size === 0 && this.#operations.heldCount === 0
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
    for (const worker of [...this.#workers.values()]) this.#advance(worker, out)
    this.#gauge()
    if (!this.#stopping || this.#stopped || !this.idle || this.#workers.size > 0) return
    this.#stopped = true
    out.push({ kind: 'reply', reply: { kind: 'stopped' } })
  }

  #request(request: SsdWorkerRequest, out: SsdWorkerEffect[]): void {
    invariant(!this.#stopping, 'stop is the last request', { kind: request.kind })
    switch (request.kind) {
      case 'open-worker': {
        const { worker } = request
        const fits = worker >= 0 && worker < SSD_WORKERS_MAX && !this.#workers.has(worker)
        invariant(fits, 'a worker number names one worker', { worker })
        this.#workers.set(worker, new StagingWorker(worker))
        return
      }
      case 'restore':
      case 'write':
        return this.#accept(request, out)
      case 'cancel': {
        const job = this.#jobs.get(request.job)
        if (job !== undefined) this.#fail(job, ERROR_CODES.cancelled, [], out)
        return
      }
      case 'close-worker':
        this.#worker(request.worker).closing = true
        return
      case 'stop':
        this.#stopping = true
        for (const job of [...this.#jobs.values()]) {
          if (job.started) continue // all of it is with the device: let it end well
          job.complete = true // no record follows `stop`
          this.#fail(job, ERROR_CODES.draining, [], out)
        }
        for (const worker of this.#workers.values()) worker.closing = true
        return
      default:
        return unreachable(request)
    }
  }

  #accept(request: JobRequest, out: SsdWorkerEffect[]): void {
    const { list } = request
    const worker = this.#worker(request.worker)
    invariant(!worker.closing, 'a worker that closes has no more jobs', { worker: worker.number })
    const known = this.#jobs.get(request.job)
    const job = known ?? (request.kind === 'restore' ? new RestoreJob(worker, request) : new WriteJob(worker, request))
    invariant(!job.complete && job.kind === request.kind, 'a job number is not used twice', { job: job.id })
    if (known === undefined) this.#admit(job)
    const doubles = request.kind === 'restore' ? SOURCE.doubles : TARGET.doubles
    invariant(list.length % doubles === 0, 'a list is a whole number of descriptors', { length: list.length })
    job.append(list)
    if (request.more === 1) return
    job.lay(this.#slotBytes)
    if (!job.starting) {
      job.dropBatches()
      job.copies.drop()
    }
    if (job.over) return this.#end(job, out)
    if (!job.starting) return
    if (job.fenceReached) return this.#start(job, out)
    this.#fences.add(job, this.#nowUs)
    this.#pollFences(out)
  }

  #admit(job: AnyJob): void {
    this.#jobs.set(job.id, job)
    job.worker.jobs.add(job)
    if (job.kind === 'restore') {
      this.#restores += 1
      invariant(this.#restores <= GPU_RESTORES_MAX, 'the manager keeps within the completion ring', { job: job.id })
      return
    }
    let writes = 0
    for (const each of job.worker.jobs) if (each.kind === 'write') writes += 1
    invariant(writes <= GPU_WRITES_MAX, 'every write job has a permit', { job: job.id, writes })
  }

  /** The fence is reached and the list is whole: the job may have turns. The first one opens its worker. */
  #start(job: AnyJob, out: SsdWorkerEffect[]): void {
    const { worker } = job
    if (job.batchesLeft > 0) this.#queue(job)
    if (job.copies.left > 0) worker.copiers.push(job)
    if (worker.state !== 'closed') return
    worker.state = 'opening'
    out.push({ kind: 'open-worker', worker: worker.number, slotBytes: this.#slotBytes })
  }

  #opened(number: number, code: number, out: SsdWorkerEffect[]): void {
    const worker = this.#worker(number)
    invariant(worker.state === 'opening', 'a worker opens when it was asked to', { worker: number })
    worker.state = code < 0 ? 'closed' : 'open'
    if (code >= 0) return
    this.#routeFailed(worker, code, out)
    for (const job of [...worker.jobs]) {
      // What still waits for its records or its fence tries again: the next job opens the worker anew.
      if (job.complete && job.fenceReached) this.#fail(job, ERROR_CODES.io_open_failed, [], out)
    }
  }

  // Turns

  /** Gives a worker's free slots and places to its jobs; ends it when it was asked to and nothing is left. */
  #advance(worker: Worker, out: SsdWorkerEffect[]): void {
    if (worker.state === 'open') {
      for (let slot = worker.freeSlot; slot >= 0; slot = worker.freeSlot) {
        const turn = worker.turns.take(worker.writesInFlight > 0)
        if (turn === null) break
        if (turn.kind === 'read') this.#read(worker, slot, turn.job, out)
        else this.#write(worker, slot, turn.job, out)
        if (turn.job.batchesLeft > 0) this.#queue(turn.job)
      }
      while (worker.copiers.length > 0 && worker.partsInFlight < COPY_PARTS) {
        const job = worker.copiers.shift() as AnyJob
        this.#copy(worker, job, out)
        if (job.copies.left > 0) worker.copiers.push(job)
      }
    }
    if (!worker.closing || worker.jobs.size > 0) return
    invariant(worker.batchesInFlight === 0 && worker.partsInFlight === 0, 'a worker without jobs has nothing in flight')
    this.#workers.delete(worker.number)
    if (worker.state === 'open') out.push({ kind: 'close-worker', worker: worker.number })
    // After `stop` nobody waits for single workers.
    if (!this.#stopping) out.push({ kind: 'reply', reply: { kind: 'worker-closed', worker: worker.number } })
  }

  #queue(job: AnyJob): void {
    if (job.kind === 'restore') job.worker.turns.addRead(job)
    else job.worker.turns.addWrite(job)
  }

  #read(worker: Worker, slot: number, job: RestoreJob, out: SsdWorkerEffect[]): void {
    const batch = job.takeBatch()
    const { file, fileOffsetBytes, bytes, firstRead, readCount } = job.plan.batches[batch] as StagingRead
    const checks = new Float64Array(readCount * CHECKSUM.doubles)
    for (let each = 0; each < readCount; each++) {
      const source = job.plan.reads[firstRead + each] as number
      const at = each * CHECKSUM.doubles
      checks[at + CHECKSUM.poolOffsetBytes] = job.field(source, SOURCE.fileOffsetBytes) - fileOffsetBytes
      checks[at + CHECKSUM.bytes] = job.field(source, SOURCE.bytes)
      checks[at + CHECKSUM.segmentBytes] = job.field(source, SOURCE.segmentBytes)
      checks[at + CHECKSUM.segmentStrideBytes] = job.field(source, SOURCE.segmentStrideBytes)
    }
    worker.occupy(slot, { kind: 'read', job, batch, submittedUs: this.#nowUs })
    out.push({
      kind: 'read',
      worker: worker.number,
      slot,
      tag: this.#tag({ kind: 'read', worker, slot }),
      file,
      fileOffsetBytes,
      bytes,
      checks,
      checkCount: readCount,
      checkBase: checkBase(worker, slot),
    })
  }

  #write(worker: Worker, slot: number, job: WriteJob, out: SsdWorkerEffect[]): void {
    const number = job.takeChunk()
    const chunk = job.chunks[number] as StagingChunk
    const copies = new Float64Array(chunk.count * COPY.doubles)
    for (let each = 0; each < chunk.count; each++) {
      const target = chunk.first + each
      const offsetBytes = job.field(target, TARGET.fileOffsetBytes) - chunk.baseOffsetBytes
      job.writeCopy(target, offsetBytes, copies, each * COPY.doubles)
    }
    worker.occupy(slot, { kind: 'write', job, chunk: number, submittedUs: this.#nowUs })
    out.push({
      kind: 'write',
      worker: worker.number,
      slot,
      tag: this.#tag({ kind: 'write', worker, slot }),
      file: chunk.file,
      fileOffsetBytes: chunk.fileOffsetBytes,
      stagingOffsetBytes: chunk.fileOffsetBytes - chunk.baseOffsetBytes,
      bytes: chunk.bytes,
      zeroFromBytes: chunk.zeroFromBytes,
      copies,
      copyCount: chunk.count,
    })
  }

  #copy(worker: Worker, job: AnyJob, out: SsdWorkerEffect[]): void {
    const { first, count } = job.copies.take(this.#partDescriptors)
    worker.partsInFlight += 1
    job.partsInFlight += 1
    out.push({
      kind: 'copy',
      worker: worker.number,
      tag: this.#tag({ kind: 'copy', worker, job, first, count }),
      toPages: job.kind === 'restore',
      copies: job.copies.doubles,
      offset: first * COPY.doubles,
      count,
    })
  }

  #tag(operation: Operation): number {
    const place = this.#operations.acquire()
    invariant(place >= 0, 'every slot and part of every worker has a place', { inFlight: this.inFlight })
    this.#operationAt[place] = operation
    return this.#operations.tagOf(place)
  }

  // Completions

  #completed(tag: number, result: number, out: SsdWorkerEffect[]): void {
    const place = this.#operations.resolve(tag)
    const operation = place < 0 ? null : (this.#operationAt[place] as Operation)
    if (operation === null) return this.#tally.add(COUNT.completionsStray, 1)
    this.#operationAt[place] = null
    this.#operations.release(place)
    switch (operation.kind) {
      case 'read':
        return this.#readEnded(operation.worker, operation.slot, result, out)
      case 'scatter':
        return this.#scattered(operation.worker, operation.slot, result, out)
      case 'write':
        return this.#written(operation.worker, operation.slot, result, out)
      case 'copy':
        return this.#copied(operation, result, out)
      default:
        return unreachable(operation)
    }
  }

  #readEnded(worker: Worker, slot: number, result: number, out: SsdWorkerEffect[]): void {
    const current = worker.slots[slot] as Batch & { kind: 'read' }
    const { job } = current
    const batch = job.plan.batches[current.batch] as StagingRead
    if (result !== batch.bytes) {
      worker.vacate(slot)
      this.#tally.add(COUNT.readFailures, 1)
      this.#routeFailed(worker, result < 0 ? result : SHORT, out)
      const status = result < 0 ? ERROR_CODES.io_read_failed : ERROR_CODES.io_short
      return this.#fail(job, status, job.served(batch.firstRead, batch.readCount), out)
    }
    this.#tally.add(COUNT.reads, 1)
    this.#tally.add(COUNT.readBytes, batch.bytes)
    const damaged = this.#damagedReads(job, batch, checkBase(worker, slot))
    if (damaged.length > 0) {
      worker.vacate(slot)
      for (const read of damaged) job.damaged.add(job.field(job.plan.reads[read] as number, SOURCE.generation))
      const sources = damaged.flatMap((read) => [...job.served(read, 1)])
      return this.#fail(job, ERROR_CODES.checksum_mismatch, sources, out)
    }
    if (!job.starting) {
      worker.vacate(slot)
      return this.#endWhenOver(job, out)
    }
    for (let each = 0; each < batch.readCount; each++) {
      job.ssdBytes += job.field(job.plan.reads[batch.firstRead + each] as number, SOURCE.bytes)
    }
    this.#scatter(worker, slot, job, batch, out)
  }

  /** Granules of a batch whose checksum differs. */
  #damagedReads(job: RestoreJob, batch: StagingRead, base: number): number[] {
    const damaged: number[] = []
    for (let each = 0; each < batch.readCount; each++) {
      const read = batch.firstRead + each
      const expected = job.field(job.plan.reads[read] as number, SOURCE.crc32)
      if (expected !== NO_CRC && expected !== this.#checks[base + each]) damaged.push(read)
    }
    return damaged
  }

  #scatter(worker: Worker, slot: number, job: RestoreJob, batch: StagingRead, out: SsdWorkerEffect[]): void {
    const sources = job.served(batch.firstRead, batch.readCount)
    const copies = new Float64Array(sources.length * COPY.doubles)
    for (const [at, source] of sources.entries()) {
      const offsetBytes = job.field(source, SOURCE.fileOffsetBytes) - batch.fileOffsetBytes
      job.writeCopy(source, offsetBytes, copies, at * COPY.doubles)
    }
    const tag = this.#tag({ kind: 'scatter', worker, slot })
    out.push({ kind: 'scatter', worker: worker.number, slot, tag, copies, copyCount: sources.length })
  }

  #scattered(worker: Worker, slot: number, result: number, out: SsdWorkerEffect[]): void {
    const { job, batch, submittedUs } = worker.vacate(slot) as Batch & { kind: 'read' }
    this.#tally.observe(HISTOGRAM.read, Math.max(0, this.#nowUs - submittedUs))
    if (result >= 0) return this.#endWhenOver(job, out)
    this.#routeFailed(worker, result, out)
    const { firstRead, readCount } = job.plan.batches[batch] as StagingRead
    this.#fail(job, ERROR_CODES.io_copy_failed, job.served(firstRead, readCount), out)
  }

  #written(worker: Worker, slot: number, result: number, out: SsdWorkerEffect[]): void {
    const { job, chunk, submittedUs } = worker.vacate(slot) as Batch & { kind: 'write' }
    const { bytes } = job.chunks[chunk] as StagingChunk
    if (result === bytes) {
      this.#tally.add(COUNT.writes, 1)
      this.#tally.add(COUNT.writeBytes, bytes)
      this.#tally.observe(HISTOGRAM.write, Math.max(0, this.#nowUs - submittedUs))
      if (job.chunkWritten(chunk)) this.#tally.add(COUNT.objectsWritten, 1)
      return this.#endWhenOver(job, out)
    }
    this.#tally.add(COUNT.writeFailures, 1)
    this.#routeFailed(worker, result < 0 ? result : SHORT, out)
    // The copies to DRAM go on: what has reached DRAM is saved, whatever the disk says.
    job.chunkFailed(chunk, result < 0 ? ERROR_CODES.io_write_failed : ERROR_CODES.io_short)
    job.dropBatches()
    worker.turns.removeWrite(job)
    this.#endWhenOver(job, out)
  }

  #copied(operation: Operation & { kind: 'copy' }, result: number, out: SsdWorkerEffect[]): void {
    const { worker, job, first, count } = operation
    worker.partsInFlight -= 1
    job.partsInFlight -= 1
    if (result < 0) {
      const sources = job.kind === 'restore' ? job.residentOf(first, count) : []
      return this.#fail(job, ERROR_CODES.io_copy_failed, sources, out)
    }
    this.#endWhenOver(job, out)
  }

  #routeFailed(worker: Worker, code: number, out: SsdWorkerEffect[]): void {
    out.push({ kind: 'reply', reply: { kind: 'route-failed', worker: worker.number, code } })
  }

  // Endings

  /** The job failed or was cancelled: it leaves the turns, nothing of it starts any more. */
  #fail(job: AnyJob, status: number, sources: Int32Array | readonly number[], out: SsdWorkerEffect[]): void {
    if (job.kind === 'restore') job.fail(status, sources)
    else {
      job.cancel(status)
      if (!job.copiesSaid && job.copyStatus === ERROR_CODES.ok && (job.copies.left > 0 || !job.complete)) {
        job.copyStatus = status
      }
      if (status === ERROR_CODES.io_copy_failed) job.copyStatus = status
    }
    job.starting = false
    job.dropBatches()
    job.copies.drop()
    if (job.kind === 'restore') job.worker.turns.removeRead(job)
    else job.worker.turns.removeWrite(job)
    const at = job.worker.copiers.indexOf(job)
    if (at >= 0) job.worker.copiers.splice(at, 1)
    this.#fences.remove(job)
    this.#endWhenOver(job, out)
  }

  #endWhenOver(job: AnyJob, out: SsdWorkerEffect[]): void {
    if (job.kind === 'write') this.#sayCopied(job, out)
    if (job.over && this.#jobs.has(job.id)) this.#end(job, out)
  }

  /** `copied`: every copy to DRAM has ended, well or not; the SSD may still be at work. */
  #sayCopied(job: WriteJob, out: SsdWorkerEffect[]): void {
    if (job.copiesSaid || !job.complete || job.partsInFlight > 0 || job.copies.left > 0) return
    if (job.starting && !job.fenceReached) return
    job.copiesSaid = true
    out.push({ kind: 'reply', reply: { kind: 'copied', job: job.id, status: job.copyStatus } })
  }

  #end(job: AnyJob, out: SsdWorkerEffect[]): void {
    this.#jobs.delete(job.id)
    job.worker.jobs.delete(job)
    if (job.kind === 'restore') return this.#endRestore(job, out)
    this.#sayCopied(job, out)
    const list = { doubles: job.objects, offset: 0, length: job.objects.length }
    out.push({ kind: 'reply', reply: { kind: 'write-done', job: job.id, status: job.status, list } })
  }

  #endRestore(job: RestoreJob, out: SsdWorkerEffect[]): void {
    this.#restores -= 1
    const { id, status, firstFailed, ssdBytes, damaged } = job
    const bytes = status === ERROR_CODES.ok ? job.bytes : 0
    const latencyUs = Math.max(0, this.#nowUs - job.admitUs)
    this.#countRestore(job, bytes, latencyUs)
    // What is damaged is hidden by the manager first, which then finishes the slot: a client's next query may overtake
    // this reply.
    if (damaged.size === 0) out.push(finishSlot(job.finish, { status, firstFailed, bytes, admitUs: job.admitUs }))
    const list = damaged.size === 0 ? EMPTY_LIST : listOf([...damaged])
    const reply = { kind: 'restore-done', job: id, status, bytes, ssdBytes, firstFailed, latencyUs, list } as const
    out.push({ kind: 'reply', reply })
  }

  #countRestore(job: RestoreJob, bytes: number, latencyUs: number): void {
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

  // Fences

  #fenceRead(id: number, value: number, out: SsdWorkerEffect[]): void {
    const job = this.#fences.find((each) => each.id === id)
    if (job === undefined || value < job.finish.fence) return
    this.#fences.remove(job)
    job.fenceReached = true
    if (job.over) this.#end(job, out)
    else this.#start(job, out)
  }

  #pollFences(out: SsdWorkerEffect[]): void {
    for (const job of this.#fences.takeDue(this.#nowUs)) {
      out.push({ kind: 'poll-fence', job: job.id, slots: job.finish.slots, slot: job.finish.slot })
    }
  }

  #worker(number: number): Worker {
    const worker = this.#workers.get(number)
    invariant(worker !== undefined, 'a worker is opened before it is named', { worker: number })
    return worker
  }

  #gauge(): void {
    let batches = 0
    let writes = 0
    let parts = 0
    let open = 0
    for (const worker of this.#workers.values()) {
      batches += worker.batchesInFlight
      writes += worker.writesInFlight
      parts += worker.partsInFlight
      if (worker.state === 'open') open += STAGING_SLOTS
    }
    this.#tally.set(COUNT.batchesInFlight, batches)
    this.#tally.set(COUNT.writesInFlight, writes)
    this.#tally.set(COUNT.copiesInFlight, parts)
    this.#tally.set(COUNT.slotsOpen, open)
    this.#tally.set(COUNT.stagingBytes, open * this.#slotBytes)
    this.#tally.set(COUNT.jobsActive, this.#jobs.size)
    this.#tally.set(COUNT.jobsFenced, this.#fences.size)
  }
}

export interface SsdWorkerOptions {
  /** Bytes of one staging slot. */
  readonly slotBytes: number
  /** Copies in one part at most. */
  readonly partDescriptors: number
}

type JobRequest = SsdWorkerRequest & { kind: 'restore' | 'write' }

/** What a tag stands for. */
type Operation =
  | { readonly kind: 'read' | 'scatter' | 'write'; readonly worker: Worker; readonly slot: number }
  | {
      readonly kind: 'copy'
      readonly worker: Worker
      readonly job: AnyJob
      readonly first: number
      readonly count: number
    }

export type SsdWorkerInput =
  | { readonly kind: 'request'; readonly request: SsdWorkerRequest }
  /** `code`: 0, or what refused a buffer or stream: -errno or minus a cuFile status. */
  | { readonly kind: 'worker-opened'; readonly worker: number; readonly code: number }
  /** `result`: bytes of a read or write, 0 of copies; -errno or minus a cuFile status. */
  | { readonly kind: 'completed'; readonly tag: number; readonly result: number }
  /** The client's fence word, as asked by `poll-fence`. */
  | { readonly kind: 'fence-read'; readonly job: number; readonly value: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type SsdWorkerEffect =
  /** Two registered slots and a stream for copies; answered by `worker-opened`. */
  | { readonly kind: 'open-worker'; readonly worker: number; readonly slotBytes: number }
  | { readonly kind: 'close-worker'; readonly worker: number }
  /** Into the slot, then `checkCount` CHECKSUM descriptors over it; results from `checkBase` on. Completes once. */
  | {
      readonly kind: 'read'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly bytes: number
      readonly checks: Float64Array
      readonly checkCount: number
      readonly checkBase: number
    }
  /** COPY descriptors from the slot to pages. Completes once. */
  | {
      readonly kind: 'scatter'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly copies: Float64Array
      readonly copyCount: number
    }
  /** Zeros from `zeroFromBytes` to the chunk's end, copies from pages to the slot, then the write. Completes once. */
  | {
      readonly kind: 'write'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly stagingOffsetBytes: number
      readonly bytes: number
      readonly zeroFromBytes: number
      readonly copies: Float64Array
      readonly copyCount: number
    }
  /** COPY descriptors between the pool and pages. They stay as they are until the part has ended. */
  | {
      readonly kind: 'copy'
      readonly worker: number
      readonly tag: number
      readonly toPages: boolean
      readonly copies: Float64Array
      readonly offset: number
      readonly count: number
    }
  | { readonly kind: 'poll-fence'; readonly job: number; readonly slots: number; readonly slot: number }
  | FinishSlot
  | { readonly kind: 'reply'; readonly reply: SsdWorkerReply }

function checkBase(worker: Worker, slot: number): number {
  return (worker.number * STAGING_SLOTS + slot) * SLOT_GRANULES_MAX
}
