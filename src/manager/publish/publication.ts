import { ERROR_CODES, type ErrorCode, errorCodeName } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { SLOT_STATE } from '../../shared/layout/slot-states.js'
import type { Context } from '../context.js'
import type { Operation, RankHold, Session } from '../sessions/session.js'
import { finishSlot, releaseSlot } from '../sessions/slots.js'
import type { SourcePlace } from '../storage/ports.js'
import { comesWhole, DirectSave, targetsOf } from './direct.js'
import { ChecksumJob, type ChecksumPart, type PublishItem, SaveJob, type SavePart, type SaveTarget } from './parts.js'
import type { OpenPublication } from './publications.js'

/**
 * One PUBLISH of one rank, from admission to its terminal slot state. Works through its items in parts: find room,
 * copy what nobody brought yet, checksum the granules of every entry that is complete, seal it.
 *
 * States of an item: `queued` -> (room found) `copying` -> landed -> (entry complete) `checking` -> sealed; or given up.
 * Invariants: at most one SaveJob open; an entry is sealed only after every byte landed and every checksum is set;
 * the slot is written once, when no job of this publication is open; every item is dropped exactly once.
 */
export class Publication implements Operation, OpenPublication {
  readonly number: number
  readonly session: Session
  readonly slot: number
  readonly slotGeneration: number
  giveUpUs = Number.POSITIVE_INFINITY
  readonly #context: Context
  readonly #hold: RankHold
  readonly #fence: number
  readonly #items: readonly PublishItem[]
  readonly #partialOk: boolean
  readonly #admitUs: number
  #next = 0
  #save: SaveJob | DirectSave | null = null
  /** Direct writes whose SSD part has not ended: they use the pages. */
  readonly #directs = new Set<DirectSave>()
  readonly #checks = new Set<ChecksumJob>()
  #bytes = 0
  #failure: ErrorCode | null = null
  #failedItem = 0xffff_ffff
  #ended = false

  constructor(
    context: Context,
    session: Session,
    hold: RankHold,
    request: {
      readonly slot: number
      readonly generation: number
      readonly fence: number
      readonly partialOk: boolean
    },
    items: readonly PublishItem[],
  ) {
    this.#context = context
    this.number = context.publications.nextNumber()
    this.session = session
    this.slot = request.slot
    this.slotGeneration = request.generation
    this.#hold = hold
    this.#fence = request.fence
    this.#partialOk = request.partialOk
    this.#items = items
    this.#admitUs = context.nowUs
    for (const { entry } of items) context.storage.hold(entry)
    context.publications.add(this)
  }

  advance(): boolean {
    if (this.#save !== null || this.#ended) return true
    if (this.#failure !== null) {
      this.#settle()
      return true
    }
    const { storage, options, publications, nowUs } = this.#context
    const entries: number[] = []
    const runs: number[] = []
    const descriptors: number[] = []
    let bytes = 0
    let room = true
    /** Whether the part goes to the SSD as well, which its first block decides. */
    let direct: boolean | null = null
    const blocks: { item: PublishItem; place: SourcePlace }[] = []
    while (this.#next < this.#items.length && bytes < options.publishPartBytes) {
      const item = this.#items[this.#next] as PublishItem
      if (!storage.assembling(item.entry)) {
        this.#pass()
        continue
      }
      const allocation = storage.allocate(item.entry)
      if (allocation === 'rejected') {
        // Not worth what it would displace: nothing of it is kept, and that is no failure.
        storage.abandon(item.entry)
        this.#pass()
        continue
      }
      room = allocation === 'ok'
      if (!room) break
      const place: SourcePlace | null = direct === false ? null : this.#placeOf(item)
      if (direct === true && place === null) break
      if (place !== null) blocks.push({ item, place })
      direct ??= place !== null
      const from = runs.length
      storage.contribute(item.entry, item.offered, runs)
      for (let at = from; at < runs.length; at += 3) {
        entries.push(item.entry)
        bytes += this.#describe(item, runs, at, descriptors)
      }
      this.#next++
      if (runs.length === from) this.#drop(item.entry)
    }
    if (!room && entries.length === 0) return this.#waitForRoom(nowUs)
    publications.stopWaiting(this)
    this.giveUpUs = Number.POSITIVE_INFINITY
    if (entries.length === 0) {
      this.#settle()
      return true
    }
    this.#bytes += bytes
    const part = { entries, runs, descriptors: Float64Array.from(descriptors) }
    const { slotTable } = this.#hold
    const target = {
      slots: slotTable.slots,
      slot: this.slot,
      slotGeneration: this.slotGeneration,
      fence: this.#fence,
    }
    if (blocks.length > 0 && this.#saveDirect(part, blocks, target)) return true
    const save = new SaveJob(this.#context, this.#hold.lanes, part, target, (_, status) => this.#saved(status))
    this.#save = save
    this.#hold.lanes.dramJobs.request(save)
    return true
  }

  /** An extent for a block that comes whole, where writes go by cuFile; null: it is written from DRAM, if at all. */
  #placeOf(item: PublishItem): SourcePlace | null {
    const { routes, storage } = this.#context
    if (routes.writeRoute !== 'cufile' || this.#hold.lanes.ssd === null) return null
    return comesWhole(this.#context, this.#hold.rank, item) ? storage.beginDirect(item.entry) : null
  }

  /** Sends a part by way of GPU staging. Without a permit its extents go back, and it goes by DRAM alone: false. */
  #saveDirect(
    part: SavePart,
    blocks: readonly { readonly item: PublishItem; readonly place: SourcePlace }[],
    target: SaveTarget,
  ): boolean {
    const { storage, tally } = this.#context
    const { ssd } = this.#hold.lanes
    invariant(ssd !== null, 'extents are reserved where the cuFile route exists')
    const staging = ssd.staging(this.#hold)
    if (!staging.permits.acquire()) {
      for (const { item } of blocks) storage.abortDirect(item.entry)
      tally.gpuWriteFellBack()
      return false
    }
    const entries = blocks.map(({ item }) => item.entry)
    const targets = targetsOf(this.#context, this.#hold, blocks)
    const save = new DirectSave(this.#context, ssd, staging, part, entries, targets, target, {
      copied: (_, status) => this.#saved(status),
      ended: (ended) => {
        this.#directs.delete(ended)
        this.#settle()
      },
    })
    this.#save = save
    this.#directs.add(save)
    ssd.jobs.request(save)
    return true
  }

  cancel(): void {
    if (this.#ended) return
    this.#failure ??= 'cancelled'
    for (const direct of [...this.#directs]) {
      // What never reached its lane has ended with the call.
      if (direct.cancel()) this.#directs.delete(direct)
    }
    const save = this.#save
    if (save === null) return this.#settle()
    const ended = save instanceof DirectSave ? !this.#directs.has(save) : save.cancel()
    if (ended) this.#saved(ERROR_CODES.cancelled)
  }

  /** Appends the COPY descriptor of one run; returns the engine bytes it moves. */
  #describe(item: PublishItem, runs: readonly number[], at: number, descriptors: number[]): number {
    const { storage } = this.#context
    const geometry = storage.geometryOf(item.entry)
    const granule = runs[at] as number
    const itemCount = runs[at + 2] as number
    const first = geometry.rankGranules[this.#hold.rank]?.[0] ?? 0
    descriptors.push(
      this.#hold.templates[item.group] as number,
      granule - first,
      item.page,
      storage.granuleOffset(item.entry, granule),
      runs[at + 1] as number,
      itemCount,
      0,
    )
    return itemCount * (geometry.granules[granule]?.segmentBytes ?? 0)
  }

  /** The pool is full of what is needed: go on when something is freed, give up when that takes too long. */
  #waitForRoom(nowUs: number): boolean {
    const { options, publications, tally } = this.#context
    if (this.giveUpUs === Number.POSITIVE_INFINITY) {
      this.giveUpUs = nowUs + options.publishWaitUs
      tally.publishWait()
    }
    if (nowUs < this.giveUpUs) {
      publications.wait(this)
      return false
    }
    tally.publishSkipped(this.#items.length - this.#next)
    if (!this.#partialOk) this.#fail('capacity_pool', this.#next)
    this.#giveUpRest()
    this.#settle()
    return true
  }

  #saved(status: number): void {
    const { storage } = this.#context
    const part = this.#save?.part
    this.#save = null
    if (part === undefined) return
    const done: ChecksumPart[] = []
    for (const [i, entry] of part.entries.entries()) {
      if (status === 0) storage.landed(entry, part.runs, i * 3, i * 3 + 3)
      else storage.copyFailed(entry, part.runs, i * 3, i * 3 + 3)
    }
    if (status !== 0) this.#fail(this.#failure ?? errorCodeName(status), this.#next)
    for (const entry of new Set(part.entries)) {
      if (status === 0 && storage.complete(entry))
        done.push(allGranules(storage.geometryOf(entry).granules.length, entry))
      else {
        if (status !== 0 && this.#claimed(entry)) storage.abandon(entry)
        this.#drop(entry)
      }
    }
    this.#check(done)
    this.advance()
  }

  /** Checksums complete entries, as many in one job as one record holds. */
  #check(parts: readonly ChecksumPart[]): void {
    const max = this.#context.options.descriptorsPerRecordMax
    let entries: number[] = []
    let granules: number[] = []
    const flush = () => {
      if (entries.length === 0) return
      const job = new ChecksumJob(this.#context, this.#hold.lanes, { entries, granules }, (ended, status) =>
        this.#checked(ended, status),
      )
      this.#checks.add(job)
      this.#hold.lanes.dramJobs.request(job)
      entries = []
      granules = []
    }
    for (const part of parts) {
      if (entries.length > 0 && entries.length + part.entries.length > max) flush()
      entries.push(...part.entries)
      granules.push(...part.granules)
    }
    flush()
  }

  #checked(job: ChecksumJob, status: number): void {
    const { storage } = this.#context
    this.#checks.delete(job)
    for (const entry of new Set(job.part.entries)) {
      if (storage.assembling(entry)) {
        if (status === 0) storage.seal(entry)
        else storage.abandon(entry)
      }
      this.#drop(entry)
    }
    if (status !== 0) this.#fail('io_copy_failed', 0)
    if (this.#save === null) this.advance()
  }

  /** Ends the publication once nothing of it is open: the slot says how, whatever was sealed stays. */
  #settle(): void {
    if (this.#failure !== null) this.#giveUpRest()
    if (this.#ended || this.#save !== null || this.#checks.size > 0 || this.#directs.size > 0) return
    if (this.#next < this.#items.length) return
    this.#ended = true
    const { publications, tally, nowUs } = this.#context
    publications.end(this)
    const state =
      this.#failure === null
        ? SLOT_STATE.done
        : this.#failure === 'cancelled'
          ? SLOT_STATE.cancelled
          : SLOT_STATE.failed
    const code = ERROR_CODES[this.#failure ?? 'ok']
    finishSlot(this.#context, this, state, code, this.#bytes, this.#admitUs, this.#failedItem)
    tally.publishEnded(code, this.#bytes, nowUs - this.#admitUs)
    releaseSlot(this.#context, this)
  }

  #fail(code: ErrorCode, item: number): void {
    this.#failure ??= code
    this.#failedItem = Math.min(this.#failedItem, item)
  }

  /** Items that were not begun are let go; entries that only this publication claimed end unseen. */
  #giveUpRest(): void {
    for (; this.#next < this.#items.length; this.#next++) {
      const { entry, claimed } = this.#items[this.#next] as PublishItem
      if (claimed && this.#context.storage.assembling(entry)) this.#context.storage.abandon(entry)
      this.#drop(entry)
    }
    this.#context.publications.stopWaiting(this)
  }

  /** Somebody else completed or gave up the entry meanwhile. */
  #pass(): void {
    this.#drop((this.#items[this.#next] as PublishItem).entry)
    this.#next++
  }

  #claimed(entry: number): boolean {
    return this.#items.some((item) => item.entry === entry && item.claimed)
  }

  #drop(entry: number): void {
    this.#context.storage.drop(entry)
  }
}

function allGranules(count: number, entry: number): ChecksumPart {
  return { entries: new Array(count).fill(entry), granules: Array.from({ length: count }, (_, granule) => granule) }
}
