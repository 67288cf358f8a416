import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { alignUp, SECTOR_BYTES } from '../../shared/base/units.js'
import { COPY, HELD_CODE, NO_CODE, TARGET } from '../../shared/layout/descriptors.js'
import type { StagingChunk } from '../../shared/planning/staging-writes.js'
import { SSD_WORKER_COUNT as COUNT, SSD_WORKER_HISTOGRAM as HISTOGRAM } from './counters.js'
import type { Batch, WriteJob, WritingJob } from './job.js'
import { GPU_WRITES_MAX } from './messages.js'
import type { Operations } from './operations.js'
import type { SsdWorkerEffect } from './steps.js'
import { SHORT } from './worker.js'

/**
 * The chunks of write jobs, from the gather to the end of the write, and what is said of them: `copied` when the copies
 * to DRAM have ended, `write-done` when nothing touches pages or extents any more. The two halves fail apart.
 */
export class Writes {
  readonly #tally: Tally
  readonly #operations: Operations

  constructor(operations: Operations, tally: Tally) {
    this.#operations = operations
    this.#tally = tally
  }

  admit({ id, worker }: WritingJob): void {
    let writes = 0
    for (const each of worker.jobs) if (each.kind !== 'restore') writes += 1
    invariant(writes <= GPU_WRITES_MAX, 'every write job has a permit', { job: id, writes })
  }

  /** Starts the job's next chunk in a free slot: what is coded from where it is held, all else from pages. */
  write(job: WritingJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): void {
    const { worker, targets } = job
    const number = targets.take()
    const chunk = targets.chunks[number] as StagingChunk
    const copies = new Float64Array(chunk.count * COPY.doubles)
    let copyCount = 0
    const codes: number[] = []
    for (let each = 0; each < chunk.count; each++) {
      const target = chunk.first + each
      const offsetBytes = targets.field(target, TARGET.fileOffsetBytes) - chunk.baseOffsetBytes
      const code = targets.field(target, TARGET.code)
      if (code === NO_CODE) targets.writeCopy(target, offsetBytes, copies, copyCount++ * COPY.doubles)
      else codes.push(code, offsetBytes, this.#codedBytes(job, target, code))
    }
    worker.occupy(slot, { kind: 'write', job, chunk: number, submittedUs: nowUs })
    out.push({
      kind: 'write',
      worker: worker.number,
      slot,
      tag: this.#operations.put({ kind: 'write', job, slot }),
      file: chunk.file,
      fileOffsetBytes: chunk.fileOffsetBytes,
      stagingOffsetBytes: chunk.fileOffsetBytes - chunk.baseOffsetBytes,
      bytes: chunk.bytes,
      zeroFromBytes: chunk.zeroFromBytes,
      copies,
      copyCount,
      codes: Float64Array.from(codes),
      codeCount: codes.length / HELD_CODE.doubles,
    })
  }

  /** What is written of a coding that the job holds: as much as its extent has room for. */
  #codedBytes(job: WritingJob, target: number, code: number): number {
    const bytes = job.kind === 'encode' && job.held ? job.storedBytes(code) : 0
    const roomBytes = job.targets.field(target, TARGET.bytes)
    const fits = bytes > 0 && alignUp(bytes, SECTOR_BYTES) === roomBytes
    invariant(fits, 'a coding that is written is held, and fills its place', { job: job.id, code, bytes, roomBytes })
    return bytes
  }

  /**
   * A chunk has ended and its slot is free. After a failure no further one starts, but copies to DRAM go on: what has
   * reached DRAM is saved, whatever the disk says. Returns what the route is told, or 0.
   */
  written(job: WritingJob, slot: number, result: number, nowUs: number): number {
    const { chunk, submittedUs } = job.worker.vacate(slot) as Batch & { kind: 'write' }
    const { bytes } = job.targets.chunks[chunk] as StagingChunk
    if (result === bytes) {
      this.#tally.add(COUNT.writes, 1)
      this.#tally.add(COUNT.writeBytes, bytes)
      this.#tally.observe(HISTOGRAM.write, Math.max(0, nowUs - submittedUs))
      if (job.targets.written(chunk)) this.#tally.add(COUNT.objectsWritten, 1)
      return 0
    }
    this.#tally.add(COUNT.writeFailures, 1)
    const status = result < 0 ? ERROR_CODES.io_write_failed : ERROR_CODES.io_short
    job.targets.failed(chunk, status)
    job.remember(status)
    job.dropBatches()
    job.worker.turns.removeWrite(job)
    return result < 0 ? result : SHORT
  }

  /** `copied`, once: every copy to DRAM has ended, well or not; the SSD may still be at work. */
  sayCopied(job: WriteJob, out: SsdWorkerEffect[]): void {
    if (job.copiesSaid || !job.complete || job.partsInFlight > 0 || job.copies.left > 0) return
    if (job.starting && !job.fenceReached) return
    job.copiesSaid = true
    out.push({ kind: 'reply', reply: { kind: 'copied', job: job.id, status: job.copyStatus } })
  }

  /** Nothing touches pages and extents any more. */
  end(job: WritingJob, out: SsdWorkerEffect[]): void {
    const { objects } = job.targets
    const list = { doubles: objects, offset: 0, length: objects.length }
    out.push({ kind: 'reply', reply: { kind: 'write-done', job: job.id, status: job.status, list } })
  }
}
