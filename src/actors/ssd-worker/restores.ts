import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { CHECKSUM, NO_CRC, SOURCE } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, listOf } from '../../shared/layout/records.js'
import { finishSlot } from '../../shared/layout/slot-results.js'
import type { StagingRead } from '../../shared/planning/staging-reads.js'
import { checkBase } from './checks.js'
import { SSD_WORKER_COUNT as COUNT, SSD_WORKER_HISTOGRAM as HISTOGRAM } from './counters.js'
import type { RestoreJob } from './job.js'
import { GPU_RESTORES_MAX } from './messages.js'
import type { Decoding, Operations } from './operations.js'
import type { ReadBatch, RestoreFailure, Scatters } from './scatters.js'
import type { SsdWorkerEffect } from './steps.js'
import { SHORT } from './worker.js'

const NO_SOURCES = new Int32Array(0)

/**
 * The batches of restores, from the read to the end of the scatter, and what is said when a restore ends. Only bytes
 * that were read in full and whose every checksum agrees go from a slot into pages.
 */
export class Restores {
  readonly #tally: Tally
  /** Where the port writes checksums: SLOT_GRANULES_MAX for each slot of each worker. */
  readonly #checks: Uint32Array
  readonly #operations: Operations
  readonly #scatters: Scatters
  #open = 0

  constructor(operations: Operations, scatters: Scatters, checks: Uint32Array, tally: Tally) {
    this.#operations = operations
    this.#scatters = scatters
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
    const scatter = { inFlight: 0, encoded: NO_SOURCES, next: 0 }
    worker.occupy(slot, { kind: 'read', job, batch, submittedUs: nowUs, scatter })
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
      checkBase: checkBase(worker.number, slot),
    })
  }

  /** The read of a slot and its checksums have ended: scatters what is whole, wanted and right, else frees the slot. */
  readEnded(
    job: RestoreJob,
    slot: number,
    result: number,
    nowUs: number,
    out: SsdWorkerEffect[],
  ): RestoreFailure | null {
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
    const damaged = this.#damagedReads(job, batch, checkBase(worker.number, slot))
    if (damaged.length > 0) {
      worker.vacate(slot)
      const sources = damaged.flatMap((read) => [...job.served(read, 1)])
      job.damage(sources)
      return { status: ERROR_CODES.checksum_mismatch, sources, code: 0 }
    }
    if (!job.starting) {
      worker.vacate(slot)
      return null
    }
    for (let each = 0; each < batch.readCount; each++) {
      job.ssdBytes += job.readField(batch.firstRead + each, SOURCE.bytes)
    }
    this.#scatters.start(job, slot, nowUs, out)
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

  /** The copy of a slot's raw granules has ended. */
  scattered(job: RestoreJob, slot: number, result: number): RestoreFailure | null {
    return this.#scatters.copied(job, slot, result)
  }

  /** A part of a slot's decodings has ended. */
  decoded(decoding: Decoding, result: number, nowUs: number): RestoreFailure | null {
    return this.#scatters.decoded(decoding, result, nowUs)
  }

  /** Frees the slot after the last of its scatter; call it when the end of each part was heard. */
  settleSlot(job: RestoreJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): void {
    if (!this.#scatters.over(job, slot, nowUs, out)) return
    const { submittedUs } = job.worker.vacate(slot) as ReadBatch
    this.#tally.observe(HISTOGRAM.read, Math.max(0, nowUs - submittedUs))
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
