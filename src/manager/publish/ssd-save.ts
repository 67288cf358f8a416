import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { listAt } from '../../shared/layout/records.js'
import type { Context } from '../context.js'
import type { JobOwner } from '../lanes/lane-jobs.js'
import { sendInRecords } from '../lanes/records.js'
import type { RankStaging, SsdCopiesReply, SsdJobReply, SsdLane } from '../lanes/ssd-lane.js'
import type { SaveOutcome, SavePart, SaveTarget } from './parts.js'

/** What a part that goes to the SSD as well tells its publication. */
export interface SsdSaveEnds {
  /** The copies to DRAM have ended: once, and first. */
  saved(outcome: SaveOutcome): void
  /** The SSD has ended too: pages are nobody's any more. */
  ended(save: SsdSave): void
}

/**
 * One part of a publication as a job of the ssd-worker. It has a permit until the lane's terminal reply; what its blocks
 * have on the SSD until then is unpublished, and the publication keeps the pages.
 */
export abstract class SsdSave implements JobOwner<SsdJobReply> {
  readonly part: SavePart
  protected readonly context: Context
  protected readonly lane: SsdLane
  protected readonly ends: SsdSaveEnds
  protected number: number | null = null
  /** The copies to DRAM have ended. */
  protected said = false
  /** Blocks that have an extent, by TARGET.object. */
  protected entries: readonly number[] = []
  readonly #staging: RankStaging
  readonly #target: SaveTarget

  constructor(
    context: Context,
    lane: SsdLane,
    staging: RankStaging,
    part: SavePart,
    target: SaveTarget,
    ends: SsdSaveEnds,
  ) {
    this.context = context
    this.lane = lane
    this.#staging = staging
    this.part = part
    this.#target = target
    this.ends = ends
  }

  abstract start(job: number): void
  abstract copied(reply: SsdCopiesReply): void

  /** The records of the job, of descriptors of `doubles` numbers. */
  protected begin(job: number, kind: 'write' | 'encode', descriptors: Float64Array, doubles: number): void {
    this.number = job
    const { worker } = this.#staging
    this.lane.copiers.set(job, this)
    sendInRecords(descriptors, doubles, this.context.options.descriptorsPerRecordMax, (list, more) => {
      this.lane.send({ kind, worker, job, more, list, ...this.#target })
    })
  }

  /** Nothing more of it starts. True when it never reached the lane: then it has ended here and now. */
  cancel(): boolean {
    if (this.number !== null) {
      this.lane.send({ kind: 'cancel', job: this.number })
      return false
    }
    const withdrawn = this.lane.jobs.withdraw(this)
    invariant(withdrawn, 'a part waits for a job or has one')
    for (const entry of this.entries) this.context.storage.directEnded(entry, false)
    this.giveBack(this.#staging)
    return true
  }

  replied(reply: SsdJobReply): void {
    invariant(reply.kind === 'write-done' && this.said, 'a write ends with write-done, after its copies')
    if (this.number !== null) this.lane.copiers.delete(this.number)
    for (const [object, entry] of this.entries.entries()) {
      const status = object < reply.list.length ? listAt(reply.list, object) : reply.status
      this.context.storage.directEnded(entry, status === ERROR_CODES.ok)
    }
    this.giveBack(this.#staging)
    this.ends.ended(this)
  }

  /** What the part had of its rank's staging is free. */
  protected giveBack(staging: RankStaging): void {
    staging.permits.release()
  }
}
