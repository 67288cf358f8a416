import { invariant } from '../../shared/base/invariant.js'
import { CHECKSUM, COPY } from '../../shared/layout/descriptors.js'
import type { GranuleRun } from '../../shared/layout/granules.js'
import { type List, listAt } from '../../shared/layout/records.js'
import type { Context } from '../context.js'
import type { DeviceLanes } from '../lanes/device-lanes.js'
import type { JobOwner } from '../lanes/lane-jobs.js'
import { sendInRecords } from '../lanes/records.js'
import type { DramJobReply } from '../lanes/replies.js'

/** One block that this publication brings, or helps to bring. Held from admission until it is settled. */
export interface PublishItem {
  readonly entry: number
  readonly group: number
  readonly page: number
  /** True when this publication claimed the key: it abandons the entry when its own part fails. */
  readonly claimed: boolean
  /** Granule runs that this rank offers, in order. */
  readonly offered: readonly GranuleRun[]
}

/** The copies of some blocks of one publication, travelling through the dram-worker as one job. */
export interface SavePart {
  /** Entry of each run triple: runs[3 * i …] belong to entries[i]. */
  readonly entries: readonly number[]
  /** Triples (granule, first item, item count) as storage gave them out. */
  readonly runs: readonly number[]
  /** COPY descriptors, one a run: those that are coded come last. */
  readonly descriptors: Float64Array
}

/** What the lane says of the copies of a part. */
export interface SaveOutcome {
  readonly status: number
  /** Two numbers a descriptor, stored bytes and CRC32: see `save-done`. Empty: nothing was coded. */
  readonly list: List
}

/** Where a save's slot and fence are. */
export interface SaveTarget {
  readonly slots: number
  readonly slot: number
  readonly slotGeneration: number
  readonly fence: number
}

/** One SavePart on its way. `ended` hears what the lane says, once. */
export class SaveJob implements JobOwner<DramJobReply> {
  readonly part: SavePart
  readonly #context: Context
  readonly #lanes: DeviceLanes
  readonly #target: SaveTarget
  readonly #ended: (outcome: SaveOutcome) => void
  #number: number | null = null

  constructor(
    context: Context,
    lanes: DeviceLanes,
    part: SavePart,
    target: SaveTarget,
    ended: (outcome: SaveOutcome) => void,
  ) {
    this.#context = context
    this.#lanes = lanes
    this.part = part
    this.#target = target
    this.#ended = ended
  }

  start(job: number): void {
    this.#number = job
    const { out, options } = this.#context
    sendInRecords(this.part.descriptors, COPY.doubles, options.descriptorsPerRecordMax, (list, more) => {
      out.push(this.#lanes.toDramWorker({ kind: 'save', job, more, list, ...this.#target }))
    })
  }

  /** Parts not yet on the stream are dropped; what is there drains. True when the job never reached the lane. */
  cancel(): boolean {
    if (this.#number === null) return this.#lanes.dramJobs.withdraw(this)
    this.#context.out.push(this.#lanes.toDramWorker({ kind: 'cancel', job: this.#number }))
    return false
  }

  replied(reply: DramJobReply): void {
    invariant(reply.kind === 'save-done', 'a save ends with save-done', { kind: reply.kind })
    this.#ended(reply)
  }
}

/** Granules whose checksum is wanted: granule[i] of entry[i]. */
export interface ChecksumPart {
  readonly entries: readonly number[]
  readonly granules: readonly number[]
}

/** One ChecksumPart on its way. `ended` gets the lane's status and, when it is 0, every result is set in storage. */
export class ChecksumJob implements JobOwner<DramJobReply> {
  readonly part: ChecksumPart
  readonly #context: Context
  readonly #lanes: DeviceLanes
  readonly #ended: (job: ChecksumJob, status: number) => void

  constructor(
    context: Context,
    lanes: DeviceLanes,
    part: ChecksumPart,
    ended: (job: ChecksumJob, status: number) => void,
  ) {
    this.#context = context
    this.#lanes = lanes
    this.part = part
    this.#ended = ended
  }

  start(job: number): void {
    const { storage, out } = this.#context
    const { entries, granules } = this.part
    const doubles = new Float64Array(entries.length * CHECKSUM.doubles)
    for (const [i, entry] of entries.entries()) {
      const g = granules[i] as number
      const { bytes, segmentBytes, segmentStrideBytes } = storage.granule(entry, g)
      const at = i * CHECKSUM.doubles
      doubles[at + CHECKSUM.poolOffsetBytes] = storage.granuleOffset(entry, g)
      doubles[at + CHECKSUM.bytes] = bytes
      doubles[at + CHECKSUM.segmentBytes] = segmentBytes
      doubles[at + CHECKSUM.segmentStrideBytes] = segmentStrideBytes
    }
    const list = { doubles, offset: 0, length: doubles.length }
    out.push(this.#lanes.toDramWorker({ kind: 'checksum', job, list }))
  }

  replied(reply: DramJobReply): void {
    invariant(reply.kind === 'checksum-done', 'a checksum ends with checksum-done', { kind: reply.kind })
    if (reply.status === 0) {
      for (const [i, entry] of this.part.entries.entries()) {
        this.#context.storage.setCrc(entry, this.part.granules[i] as number, listAt(reply.list, i))
      }
    }
    this.#ended(this, reply.status)
  }
}
