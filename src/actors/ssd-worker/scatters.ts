import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { CodecTally } from '../../shared/codec/lane-series.js'
import { codedPartStatus } from '../../shared/codec/part-failure.js'
import { COPY, SOURCE } from '../../shared/layout/descriptors.js'
import { SLOT_GRANULES_MAX, type StagingRead } from '../../shared/planning/staging-reads.js'
import { checkBase } from './checks.js'
import type { Batch, RestoreJob } from './job.js'
import type { Decoding, Operations } from './operations.js'
import type { SsdWorkerEffect } from './steps.js'

export type ReadBatch = Batch & { kind: 'read' }

/** Why a restore fails. */
export interface RestoreFailure {
  readonly status: number
  /** The sources that it did not get. */
  readonly sources: Int32Array | readonly number[]
  /** What the device said, which the route is told; 0: nothing is wrong with the route. */
  readonly code: number
}

/**
 * Parts of decodings that a slot has queued at once: with CODEC_PART_DESCRIPTORS in each all that may be said of a slot has
 * its room. More sources than that (one granule for very many pages) go in the next round.
 */
const SLOT_DECODINGS = 4

/** What a failed decoding makes of its restore: without room for an item the route is as good as before. */
export function decodingFailed(result: number, sources: Int32Array | readonly number[]): RestoreFailure {
  const status = codedPartStatus(result)
  return { status, sources, code: status === ERROR_CODES.capacity_codec ? 0 : result }
}

/**
 * The way of verified granules from a slot into pages, on the slot's stream: what is raw goes in one copy, codings in parts
 * of at most `codedDescriptors`. The checksums of the slot have been compared, so their room holds what decodings say.
 */
export class Scatters {
  readonly #operations: Operations
  readonly #results: Uint32Array
  readonly #codec: CodecTally
  readonly #codedDescriptors: number

  constructor(operations: Operations, results: Uint32Array, codec: CodecTally, codedDescriptors: number) {
    this.#operations = operations
    this.#results = results
    this.#codec = codec
    this.#codedDescriptors = Math.min(codedDescriptors, SLOT_GRANULES_MAX / SLOT_DECODINGS)
  }

  /** Queues the copy of a slot's raw granules, and the first of its decodings. */
  start(job: RestoreJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): void {
    const { batch, scatter } = job.worker.slots[slot] as ReadBatch
    const { firstRead, readCount } = job.plan.batches[batch] as StagingRead
    const sources = job.served(firstRead, readCount)
    const raw = sources.filter((source) => !job.encoded(source))
    scatter.encoded = raw.length === sources.length ? new Int32Array(0) : sources.filter((each) => job.encoded(each))
    if (raw.length > 0) {
      scatter.inFlight += 1
      const tag = this.#operations.put({ kind: 'scatter', job, slot })
      const copies = this.#copies(job, slot, raw)
      out.push({ kind: 'scatter', worker: job.worker.number, slot, tag, copies, copyCount: raw.length })
    }
    this.#decode(job, slot, nowUs, out)
  }

  /** Queues as many decodings as have room for what they say: mostly all of them. */
  #decode(job: RestoreJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): void {
    const { scatter } = job.worker.slots[slot] as ReadBatch
    const base = checkBase(job.worker.number, slot)
    let room = 0
    for (let part = 0; part < SLOT_DECODINGS && scatter.next < scatter.encoded.length; part++) {
      const sources = scatter.encoded.slice(scatter.next, scatter.next + this.#codedDescriptors)
      invariant(sources.length > 0, 'a lane that was told of no codec gets nothing coded', { job: job.id })
      scatter.next += sources.length
      scatter.inFlight += 1
      const resultBase = base + room
      room += sources.length
      const storedBytes = sources.reduce((sum, source) => sum + job.field(source, SOURCE.segmentBytes), 0)
      const copies = this.#copies(job, slot, sources)
      const decoding = { kind: 'decode', job, slot, sources, resultBase, storedBytes, sinceUs: nowUs } as const
      const tag = this.#operations.put(decoding)
      const { number: worker } = job.worker
      out.push({ kind: 'decode', worker, slot, tag, copies, offset: 0, count: sources.length, resultBase })
    }
  }

  #copies(job: RestoreJob, slot: number, sources: Int32Array): Float64Array {
    const { batch } = job.worker.slots[slot] as ReadBatch
    const { fileOffsetBytes } = job.plan.batches[batch] as StagingRead
    const copies = new Float64Array(sources.length * COPY.doubles)
    for (const [at, source] of sources.entries()) {
      job.writeCopy(source, job.field(source, SOURCE.fileOffsetBytes) - fileOffsetBytes, copies, at * COPY.doubles)
    }
    return copies
  }

  /** The copy of a slot's raw granules has ended. */
  copied(job: RestoreJob, slot: number, result: number): RestoreFailure | null {
    const { batch, scatter } = job.worker.slots[slot] as ReadBatch
    scatter.inFlight -= 1
    if (result >= 0) return null
    const { firstRead, readCount } = job.plan.batches[batch] as StagingRead
    const sources = job.served(firstRead, readCount).filter((source) => !job.encoded(source))
    return { status: ERROR_CODES.io_copy_failed, sources, code: result }
  }

  /** A part of a slot's decodings has ended. What is no coding is damaged, whatever its checksum. */
  decoded({ job, slot, sources, ...part }: Decoding, result: number, nowUs: number): RestoreFailure | null {
    const { scatter } = job.worker.slots[slot] as ReadBatch
    scatter.inFlight -= 1
    return this.said(job, sources, part, result, nowUs)
  }

  /** What decodings of some sources say, wherever the codings lay. */
  said(
    job: RestoreJob,
    sources: Int32Array,
    { resultBase, storedBytes, sinceUs }: Pick<Decoding, 'resultBase' | 'storedBytes' | 'sinceUs'>,
    result: number,
    nowUs: number,
  ): RestoreFailure | null {
    if (result < 0) {
      this.#codec.batchFailed('decode')
      return decodingFailed(result, sources)
    }
    const refused = sources.filter((_, each) => this.#results[resultBase + each] !== 0)
    const durationUs = nowUs - sinceUs
    const segments = sources.length
    this.#codec.batchEnded({ op: 'decode', segments, storedBytes, refused: refused.length, durationUs })
    if (refused.length === 0) return null
    job.damage(refused)
    return { status: ERROR_CODES.codec_damaged, sources: refused, code: 0 }
  }

  /** True when nothing of a slot is on its stream; what is left of its decodings starts, unless nobody wants it. */
  over(job: RestoreJob, slot: number, nowUs: number, out: SsdWorkerEffect[]): boolean {
    const { scatter } = job.worker.slots[slot] as ReadBatch
    if (scatter.inFlight === 0 && job.starting) this.#decode(job, slot, nowUs, out)
    return scatter.inFlight === 0
  }
}
