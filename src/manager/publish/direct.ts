import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { NO_CODE, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, listAt } from '../../shared/layout/records.js'
import type { Context } from '../context.js'
import type { JobOwner } from '../lanes/lane-jobs.js'
import { sendInRecords } from '../lanes/records.js'
import type { RankStaging, SsdCopiesReply, SsdJobReply, SsdLane } from '../lanes/ssd-lane.js'
import type { RankHold } from '../sessions/session.js'
import type { SourcePlace } from '../storage/ports.js'
import type { PublishItem, SaveOutcome, SavePart, SaveTarget } from './parts.js'

/** A block that is written from its pages, and its extent. */
export interface PlacedBlock {
  readonly item: PublishItem
  readonly place: SourcePlace
}

/** What a direct write tells its publication. */
export interface DirectSaveEnds {
  /** The copies to DRAM have ended: once, and first. */
  saved(outcome: SaveOutcome): void
  /** The SSD has ended too: pages are nobody's any more. */
  ended(save: DirectSave): void
}

/**
 * True when one PUBLISH brings all of a block: then it may go to the SSD straight from its pages. Blocks that others
 * bring parts of, or have begun, assemble in DRAM and are written from there: what DRAM and SSD hold of a generation
 * comes from the same pages, and nobody writes over what another has brought.
 */
export function comesWhole({ storage }: Context, rank: number, { entry, claimed, offered }: PublishItem): boolean {
  if (!claimed || !storage.untouched(entry)) return false
  const { granules, rankGranules } = storage.geometryOf(entry)
  const [first, end] = rankGranules[rank] ?? [0, 0]
  if (first !== 0 || end !== granules.length || offered.length !== granules.length) return false
  return offered.every(({ granule, firstItem, itemCount }, at) => {
    return granule === at && firstItem === 0 && itemCount === granules[at]?.itemCount
  })
}

/** TARGET descriptors of blocks that have an extent each. `codeOf`: the held coding that a granule is, or NO_CODE. */
export function targetsOf(
  context: Context,
  hold: RankHold,
  blocks: readonly PlacedBlock[],
  codeOf: (entry: number, granule: number) => number = () => NO_CODE,
): Float64Array {
  const { storage } = context
  const out: number[] = []
  for (const [object, { item, place }] of blocks.entries()) {
    const { entry } = item
    let { fileOffsetBytes } = place
    for (const [index, granule] of storage.geometryOf(entry).granules.entries()) {
      const { bytes } = storage.granule(entry, index)
      const target = new Array<number>(TARGET.doubles).fill(0)
      target[TARGET.template] = hold.templates[item.group] as number
      target[TARGET.granule] = index
      target[TARGET.page] = item.page
      target[TARGET.poolOffsetBytes] = storage.granuleOffset(entry, index)
      target[TARGET.file] = place.file
      target[TARGET.fileOffsetBytes] = fileOffsetBytes
      target[TARGET.bytes] = bytes
      target[TARGET.object] = object
      target[TARGET.itemCount] = granule.itemCount
      target[TARGET.code] = codeOf(entry, index)
      out.push(...target)
      fileOffsetBytes += bytes
    }
  }
  return Float64Array.from(out)
}

/**
 * One part of a publication on its way to DRAM and to the SSD at once. It has a permit and an unpublished extent for
 * every block until the lane's terminal reply; the publication keeps the pages until then.
 */
export class DirectSave implements JobOwner<SsdJobReply> {
  readonly part: SavePart
  readonly #context: Context
  readonly #lane: SsdLane
  readonly #staging: RankStaging
  readonly #target: SaveTarget
  /** By TARGET.object. */
  readonly #entries: readonly number[]
  readonly #targets: Float64Array
  readonly #ends: DirectSaveEnds
  #number: number | null = null
  #copied = false

  constructor(
    context: Context,
    lane: SsdLane,
    staging: RankStaging,
    hold: RankHold,
    part: SavePart,
    blocks: readonly PlacedBlock[],
    target: SaveTarget,
    ends: DirectSaveEnds,
  ) {
    this.#context = context
    this.#lane = lane
    this.#staging = staging
    this.part = part
    this.#entries = blocks.map(({ item }) => item.entry)
    this.#targets = targetsOf(context, hold, blocks)
    this.#target = target
    this.#ends = ends
  }

  start(job: number): void {
    this.#number = job
    const { worker } = this.#staging
    this.#lane.copiers.set(job, this)
    sendInRecords(this.#targets, TARGET.doubles, this.#context.options.descriptorsPerRecordMax, (list, more) => {
      this.#lane.send({ kind: 'write', worker, job, more, list, ...this.#target })
    })
  }

  /** Nothing more of it starts. True when it never reached the lane: then it has ended here and now. */
  cancel(): boolean {
    if (this.#number !== null) {
      this.#lane.send({ kind: 'cancel', job: this.#number })
      return false
    }
    const withdrawn = this.#lane.jobs.withdraw(this)
    invariant(withdrawn, 'a write waits for a job or has one')
    for (const entry of this.#entries) this.#context.storage.directEnded(entry, false)
    this.#staging.permits.release()
    return true
  }

  copied({ status }: SsdCopiesReply): void {
    invariant(!this.#copied, 'the copies of a write end once')
    this.#copied = true
    this.#ends.saved({ status, list: EMPTY_LIST })
  }

  replied(reply: SsdJobReply): void {
    invariant(reply.kind === 'write-done' && this.#copied, 'a write ends with write-done, after its copies')
    if (this.#number !== null) this.#lane.copiers.delete(this.#number)
    for (const [object, entry] of this.#entries.entries()) {
      const status = object < reply.list.length ? listAt(reply.list, object) : reply.status
      this.#context.storage.directEnded(entry, status === ERROR_CODES.ok)
    }
    this.#staging.permits.release()
    this.#ends.ended(this)
  }
}
