import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { COPY, NO_CODE } from '../../shared/layout/descriptors.js'
import type { List } from '../../shared/layout/records.js'
import type { Context } from '../context.js'
import type { RankStaging, SsdCopiesReply, SsdLane } from '../lanes/ssd-lane.js'
import type { RankHold } from '../sessions/session.js'
import { RUN_NUMBERS } from '../storage/assemblies.js'
import { type PlacedBlock, targetsOf } from './direct.js'
import type { PublishItem, SavePart, SaveTarget } from './parts.js'
import { SsdSave, type SsdSaveEnds } from './ssd-save.js'

/**
 * One part of a publication under a codec, whose blocks come whole: coded to DRAM, then written to the SSD from where the
 * codings were made. Only then their lengths are known, and with them their extents.
 *
 *   waiting ──a job is free──▶ encoding ──`encoded`──▶ said ──write(): what is complete, or nothing──▶ writing ─┐
 *      └── cancel ──▶ over         └──────────────────── cancel: nothing is asked to be written ──▶ ending ─────┴─▶ over
 *
 * | state    | has                                        | leaves by                                            |
 * |----------|--------------------------------------------|------------------------------------------------------|
 * | encoding | permit, arena, pages, room in DRAM         | `encoded`                                            |
 * | writing  | permit, arena, pages, unpublished extents  | `write-done`, which says of each block how it went   |
 * | ending   | permit, arena, pages                       | `write-done`                                         |
 *
 * Invariant: what the lane holds is written or let go by exactly one `write-codes`, unless the job was cancelled before.
 */
export class EncodedSave extends SsdSave {
  readonly #hold: RankHold
  readonly #items: readonly PublishItem[]
  /** The lane holds codings, and waits to hear what is written. */
  #held = false
  #cancelled = false

  constructor(
    context: Context,
    lane: SsdLane,
    staging: RankStaging,
    hold: RankHold,
    part: SavePart,
    items: readonly PublishItem[],
    target: SaveTarget,
    ends: SsdSaveEnds,
  ) {
    super(context, lane, staging, part, target, ends)
    this.#hold = hold
    this.#items = items
  }

  start(job: number): void {
    this.begin(job, 'encode', this.part.descriptors, COPY.doubles)
  }

  override cancel(): boolean {
    this.#cancelled = true
    return super.cancel()
  }

  protected override giveBack(staging: RankStaging): void {
    super.giveBack(staging)
    staging.arena.release()
  }

  copied(reply: SsdCopiesReply): void {
    invariant(reply.kind === 'encoded' && !this.said, 'the copies of an encoding end once')
    this.said = true
    this.#held = reply.held === 1
    if (!this.#held && reply.status === ERROR_CODES.ok) this.context.tally.encodedWriteFellBack()
    this.ends.saved({ status: reply.status, list: reply.list })
  }

  /** Entries of this part that are complete; those that get an extent are written from here, the others from DRAM. */
  write(complete: readonly number[]): void {
    if (!this.#held || this.#cancelled || this.number === null) return
    this.#held = false
    const blocks = this.context.routes.writeRoute === 'cufile' ? this.#placed(complete) : []
    this.entries = blocks.map(({ item }) => item.entry)
    const doubles = targetsOf(this.context, this.#hold, blocks, this.#codes())
    const list: List = { doubles, offset: 0, length: doubles.length }
    this.lane.send({ kind: 'write-codes', job: this.number, list })
  }

  #placed(complete: readonly number[]): PlacedBlock[] {
    return this.#items.flatMap((item) => {
      const place = complete.includes(item.entry) ? this.context.storage.beginDirect(item.entry) : null
      return place === null ? [] : [{ item, place }]
    })
  }

  /** Which coding of the part each granule of an entry is; NO_CODE for what is stored as it is. */
  #codes(): (entry: number, granule: number) => number {
    const { entries, runs, descriptors } = this.part
    const places = new Map<number, Map<number, number>>()
    let code = 0
    for (const [copy, entry] of entries.entries()) {
      if (descriptors[copy * COPY.doubles + COPY.storedBytes] === 0) continue
      const ofEntry = places.get(entry) ?? new Map<number, number>()
      ofEntry.set(runs[copy * RUN_NUMBERS] as number, code++)
      places.set(entry, ofEntry)
    }
    const { storage } = this.context
    return (entry, granule) =>
      storage.encoded(entry, granule) ? (places.get(entry)?.get(granule) ?? NO_CODE) : NO_CODE
  }
}
