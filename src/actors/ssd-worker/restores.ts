import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { CHECKSUM, COPY, NO_CRC, SOURCE } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, listOf } from '../../shared/layout/records.js'
import { finishSlot } from '../../shared/layout/slot-results.js'
import { SLOT_GRANULES_MAX, type StagingRead } from '../../shared/planning/staging-reads.js'
import { SSD_WORKER_COUNT as COUNT, SSD_WORKER_HISTOGRAM as HISTOGRAM } from './counters.js'
import type { Batch, RestoreJob } from './job.js'
import { GPU_RESTORES_MAX, SSD_WORKERS_MAX } from './messages.js'
import type { Operations } from './operations.js'
import type { SsdWorkerEffect } from './steps.js'
import { SHORT, STAGING_SLOTS } from './worker.js'

/** Checksums that the lane can have outstanding: those of both slots of every worker. */
export const CHECKS_MAX = SSD_WORKERS_MAX * STAGING_SLOTS * SLOT_GRANULES_MAX

type ReadBatch = Batch & { kind: 'read' }

/** Why a restore fails. */
export interface RestoreFailure {
  readonly status: number
  /** The sources that it did not get. */
  readonly sources: Int32Array | readonly number[]
  /** What the device said, which the route is told; 0: nothing is wrong with the route. */
  readonly code: number
}

/**
 * The batches of restores, from the read to the end of the scatter, and what is said when a restore ends. Only bytes
 * that were read in full and whose every checksum agrees go from a slot into pages.
 */
export class Restores {
  readonly #tally: Tally
  /** Where the port writes checksums: SLOT_GRANULES_MAX for each slot of each worker. */
  readonly #checks: Uint32Array
  readonly #operations: Operations
  #open = 0

  constructor(operations: Operations, checks: Uint32Array, tally: Tally) {
    invariant(checks.length >= CHECKS_MAX, 'every slot has room for its checksums', { checks: checks.length })
    this.#operations = operations
    this.#checks = checks
    this.#tally = tally
  }

  admit({ id }: RestoreJob): void {
    this.#open += 1
    invariant(this.#open <= GPU_RESTORES_MAX, 'the manager keeps within the completion ring', { job: id })
  }

  /** Starts the job's next batch in a free slot. */
  read(job: RestoreJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): void {
    const { worker, plan } = job
    const batch = job.takeBatch()
    const { file, fileOffsetBytes, bytes, firstRead, readCount } = plan.batches[batch] as StagingRead
    const checks = new Float64Array(readCount * CHECKSUM.doubles)
    for (let each = 0; each < readCount; each++) {
      const source = plan.reads[firstRead + each] as number
      const at = each * CHECKSUM.doubles
      checks[at + CHECKSUM.poolOffsetBytes] = job.field(source, SOURCE.fileOffsetBytes) - fileOffsetBytes
      checks[at + CHECKSUM.bytes] = job.field(source, SOURCE.bytes)
      checks[at + CHECKSUM.segmentBytes] = job.field(source, SOURCE.segmentBytes)
      checks[at + CHECKSUM.segmentStrideBytes] = job.field(source, SOURCE.segmentStrideBytes)
    }
    worker.occupy(slot, { kind: 'read', job, batch, submittedUs: nowUs })
    out.push({
      kind: 'read',
      worker: worker.number,
      slot,
      tag: this.#operations.put({ kind: 'read', job, slot }),
      file,
      fileOffsetBytes,
      bytes,
      checks,
      checkCount: readCount,
      checkBase: checkBase(job, slot),
    })
  }

  /** The read of a slot and its checksums have ended: scatters what is whole, wanted and right, else frees the slot. */
  readEnded(job: RestoreJob, slot: number, result: number, out: SsdWorkerEffect[]): RestoreFailure | null {
    const { worker } = job
    const current = worker.slots[slot] as ReadBatch
    const batch = job.plan.batches[current.batch] as StagingRead
    if (result !== batch.bytes) {
      worker.vacate(slot)
      this.#tally.add(COUNT.readFailures, 1)
      const status = result < 0 ? ERROR_CODES.io_read_failed : ERROR_CODES.io_short
      const code = result < 0 ? result : SHORT
      return { status, sources: job.served(batch.firstRead, batch.readCount), code }
    }
    this.#tally.add(COUNT.reads, 1)
    this.#tally.add(COUNT.readBytes, batch.bytes)
    const damaged = this.#damagedReads(job, batch, checkBase(job, slot))
    if (damaged.length > 0) {
      worker.vacate(slot)
      for (const read of damaged) job.damaged.add(job.readField(read, SOURCE.generation))
      const sources = damaged.flatMap((read) => [...job.served(read, 1)])
      return { status: ERROR_CODES.checksum_mismatch, sources, code: 0 }
    }
    if (!job.starting) {
      worker.vacate(slot)
      return null
    }
    for (let each = 0; each < batch.readCount; each++) {
      job.ssdBytes += job.readField(batch.firstRead + each, SOURCE.bytes)
    }
    this.#scatter(job, slot, batch, out)
    return null
  }

  /** Granules of a batch whose checksum differs. */
  #damagedReads(job: RestoreJob, batch: StagingRead, base: number): number[] {
    const damaged: number[] = []
    for (let each = 0; each < batch.readCount; each++) {
      const read = batch.firstRead + each
      const expected = job.readField(read, SOURCE.crc32)
      if (expected !== NO_CRC && expected !== this.#checks[base + each]) damaged.push(read)
    }
    return damaged
  }

  #scatter(job: RestoreJob, slot: number, batch: StagingRead, out: SsdWorkerEffect[]): void {
    const sources = job.served(batch.firstRead, batch.readCount)
    const copies = new Float64Array(sources.length * COPY.doubles)
    for (const [at, source] of sources.entries()) {
      const offsetBytes = job.field(source, SOURCE.fileOffsetBytes) - batch.fileOffsetBytes
      job.writeCopy(source, offsetBytes, copies, at * COPY.doubles)
    }
    const tag = this.#operations.put({ kind: 'scatter', job, slot })
    out.push({ kind: 'scatter', worker: job.worker.number, slot, tag, copies, copyCount: sources.length })
  }

  /** The scatter of a slot has ended: the slot is free. */
  scattered(job: RestoreJob, slot: number, result: number, nowUs: number): RestoreFailure | null {
    const { batch, submittedUs } = job.worker.vacate(slot) as ReadBatch
    this.#tally.observe(HISTOGRAM.read, Math.max(0, nowUs - submittedUs))
    if (result >= 0) return null
    const { firstRead, readCount } = job.plan.batches[batch] as StagingRead
    return { status: ERROR_CODES.io_copy_failed, sources: job.served(firstRead, readCount), code: result }
  }

  /**
   * The one reply, after the job's slot. What is damaged is hidden by the manager first, which then finishes the slot:
   * a client's next query may overtake this reply.
   */
  end(job: RestoreJob, nowUs: number, out: SsdWorkerEffect[]): void {
    this.#open -= 1
    const { id, status, firstFailed, ssdBytes, damaged, admitUs } = job
    const bytes = status === ERROR_CODES.ok ? job.bytes : 0
    const latencyUs = Math.max(0, nowUs - admitUs)
    this.#count(job, bytes, latencyUs)
    if (damaged.size === 0) out.push(finishSlot(job.finish, { status, firstFailed, bytes, admitUs }))
    const list = damaged.size === 0 ? EMPTY_LIST : listOf([...damaged])
    const reply = { kind: 'restore-done', job: id, status, bytes, ssdBytes, firstFailed, latencyUs, list } as const
    out.push({ kind: 'reply', reply })
  }

  #count({ status, damaged }: RestoreJob, bytes: number, latencyUs: number): void {
    const ended =
      status === ERROR_CODES.ok
        ? COUNT.restoresDone
        : status === ERROR_CODES.cancelled
          ? COUNT.restoresCancelled
          : COUNT.restoresFailed
    this.#tally.add(ended, 1)
    this.#tally.add(COUNT.loadBytes, bytes)
    this.#tally.add(COUNT.damagedGenerations, damaged.size)
    this.#tally.observe(HISTOGRAM.loadDuration, latencyUs)
  }
}

function checkBase({ worker }: RestoreJob, slot: number): number {
  return (worker.number * STAGING_SLOTS + slot) * SLOT_GRANULES_MAX
}
