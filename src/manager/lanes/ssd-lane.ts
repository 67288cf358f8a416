import {
  GPU_RESTORES_MAX,
  GPU_WRITES_MAX,
  SSD_WORKERS_MAX,
  type SsdWorkerReply,
  type SsdWorkerRequest,
} from '../../actors/ssd-worker/messages.js'
import { invariant } from '../../shared/base/invariant.js'
import { Permits } from '../../shared/scheduling/permits.js'
import { LaneJobs } from './lane-jobs.js'

/** The terminal reply of an ssd-worker lane to one of its jobs. */
export type SsdJobReply = Extract<SsdWorkerReply, { kind: 'restore-done' | 'write-done' }>

/** What the lane says of a job's copies to DRAM, before the terminal reply. */
export type SsdCopiesReply = Extract<SsdWorkerReply, { kind: 'copied' | 'encoded' }>

/** What one rank has in the ssd-worker lane of its device: its number there, its permits for writes, and its one arena. */
export interface RankStaging {
  readonly worker: number
  readonly permits: Permits
  /** Taken by the job whose codings are held until they are on the SSD. */
  readonly arena: Permits
  /** `close-worker` was sent; `worker-closed` has not come. */
  closing: boolean
}

/**
 * The ssd-worker lane of one device as the manager sees it. A rank's staging begins with its first job of the cuFile
 * route and ends before its mappings are released: `left` says when that is.
 */
export class SsdLane {
  readonly jobs = new LaneJobs<SsdJobReply>(GPU_RESTORES_MAX)
  /** Who hears that the copies of a write job have ended, by job. */
  readonly copiers = new Map<number, { copied(reply: SsdCopiesReply): void }>()
  /** By the rank's hold. */
  readonly #ofRank = new Map<object, RankStaging>()
  readonly #send: (request: SsdWorkerRequest) => void

  constructor(send: (request: SsdWorkerRequest) => void) {
    this.#send = send
  }

  /** Stagings that have not ended. */
  get open(): number {
    return this.#ofRank.size
  }

  send(request: SsdWorkerRequest): void {
    this.#send(request)
  }

  /** The staging of a rank, opened with the first call. */
  staging(hold: object): RankStaging {
    const known = this.#ofRank.get(hold)
    if (known !== undefined) {
      invariant(!known.closing, 'a rank that leaves starts nothing', { worker: known.worker })
      return known
    }
    const taken = new Set([...this.#ofRank.values()].map(({ worker }) => worker))
    let worker = 0
    while (taken.has(worker)) worker += 1
    invariant(worker < SSD_WORKERS_MAX, 'there are no more ranks than workers', { worker })
    const staging = { worker, permits: new Permits(GPU_WRITES_MAX), arena: new Permits(1), closing: false }
    this.#ofRank.set(hold, staging)
    this.#send({ kind: 'open-worker', worker })
    return staging
  }

  /** True when nothing of the rank is in the lane any more; otherwise it was asked to close and says so. */
  left(hold: object): boolean {
    const staging = this.#ofRank.get(hold)
    if (staging === undefined) return true
    invariant(staging.permits.outstanding === 0, 'a rank leaves when its writes have ended', { worker: staging.worker })
    if (!staging.closing) {
      staging.closing = true
      this.#send({ kind: 'close-worker', worker: staging.worker })
    }
    return false
  }

  /** `worker-closed`: the hold of the rank that waited for it. */
  closed(worker: number): object {
    for (const [hold, staging] of this.#ofRank) {
      if (staging.worker !== worker) continue
      this.#ofRank.delete(hold)
      return hold
    }
    invariant(false, 'a worker closes once, when it was asked to', { worker })
  }
}
