import { invariant } from '../../shared/base/invariant.js'
import { CODEC_PART_DESCRIPTORS, type CodecTally, encodedOf } from '../../shared/codec/lane-series.js'
import { codedPartStatus } from '../../shared/codec/part-failure.js'
import { encodeBase } from './checks.js'
import type { EncodeJob, Worker } from './job.js'
import type { Encoding, Operations } from './operations.js'
import type { SsdWorkerEffect } from './steps.js'

/** What a device says at once of codings that it cannot hold: -E2BIG, -EOPNOTSUPP. */
const NOT_HELD: readonly number[] = [-7, -95]

/**
 * The arena of each worker, in which one job at a time has its codings: they are made there, and stay there until the job
 * has ended. What does not fit there is coded all the same, and is the manager's to write from DRAM.
 */
export class Encodings {
  readonly #operations: Operations
  readonly #results: Uint32Array
  readonly #codec: CodecTally
  readonly #codedDescriptors: number

  constructor(operations: Operations, results: Uint32Array, codec: CodecTally, codedDescriptors: number) {
    this.#operations = operations
    this.#results = results
    this.#codec = codec
    this.#codedDescriptors = codedDescriptors
  }

  /** Gives the arena to who waits for it, if it is nobody's. */
  begin(worker: Worker, nowUs: number, out: SsdWorkerEffect[]): void {
    if (worker.encoder !== null) return
    const job = worker.encoders.shift()
    if (job === undefined) return
    worker.encoder = job
    worker.want(job)
    if (job.codeCount > 0) this.#encode(job, nowUs, out)
  }

  #encode(job: EncodeJob, nowUs: number, out: SsdWorkerEffect[]): void {
    const { worker, codes, codeCount, holds } = job
    const most = this.#codedDescriptors === 0 ? 0 : CODEC_PART_DESCRIPTORS
    invariant(codeCount <= most, 'what is coded together has room for what is said of it', {
      job: job.id,
      codeCount,
    })
    job.coding = 'running'
    const resultBase = encodeBase(worker.number, this.#codedDescriptors)
    const tag = this.#operations.put({ kind: 'encode', job, resultBase, sinceUs: nowUs })
    const { number } = worker
    out.push({ kind: 'encode', worker: number, tag, copies: codes, count: codeCount, resultBase, held: holds })
  }

  /** The coding of a job has ended; the status that it fails with, or 0. */
  ended({ job, resultBase, sinceUs }: Encoding, result: number, nowUs: number, out: SsdWorkerEffect[]): number {
    job.coding = 'ended'
    if (job.holds && NOT_HELD.includes(result)) {
      job.holds = false
      if (job.starting) this.#encode(job, nowUs, out)
      return 0
    }
    if (result < 0) {
      this.#codec.batchFailed('encode')
      return codedPartStatus(result)
    }
    job.held = job.holds
    const results = this.#results.slice(resultBase, resultBase + 2 * job.codeCount)
    job.keep(results)
    const durationUs = nowUs - sinceUs
    this.#codec.batchEnded({ op: 'encode', segments: job.codeCount, ...encodedOf(results), durationUs })
    return 0
  }

  /** `encoded`, once: every copy and coding has ended, well or not. */
  say(job: EncodeJob, out: SsdWorkerEffect[]): void {
    if (job.said || !job.settled) return
    job.said = true
    const { id, status, outcomes } = job
    const held = job.writable ? 1 : 0
    out.push({ kind: 'reply', reply: { kind: 'encoded', job: id, status, held, list: outcomes } })
  }

  /** The job has ended: the arena is nobody's. */
  end(job: EncodeJob, out: SsdWorkerEffect[]): void {
    this.say(job, out)
    const { worker } = job
    if (job.held) out.push({ kind: 'release-codes', worker: worker.number })
    job.held = false
    if (worker.encoder === job) worker.encoder = null
  }
}
