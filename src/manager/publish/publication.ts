import { ERROR_CODES, type ErrorCode, errorCodeName } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { COPY } from '../../shared/layout/descriptors.js'
import type { GranuleRun } from '../../shared/layout/granules.js'
import { EMPTY_LIST, type List, listAt } from '../../shared/layout/records.js'
import { SLOT_STATE } from '../../shared/layout/slot-states.js'
import type { Context } from '../context.js'
import type { Operation, RankHold, Session } from '../sessions/session.js'
import { finishSlot, releaseSlot } from '../sessions/slots.js'
import { RUN_NUMBERS } from '../storage/assemblies.js'
import { Checks } from './checks.js'
import { DirectSave } from './direct.js'
import { EncodedSave } from './encoded.js'
import { type Errand, Errands } from './errands.js'
import { PartBuilder } from './part-builder.js'
import { PartRoute } from './part-route.js'
import { type PublishItem, SaveJob, type SaveOutcome, type SavePart, type SaveTarget } from './parts.js'
import type { OpenPublication } from './publications.js'
import type { SsdSave } from './ssd-save.js'

/**
 * One PUBLISH of one rank, from admission to its terminal slot state. Works through its items in parts: find room,
 * copy what nobody brought yet, checksum the granules of every entry that is complete, seal it.
 *
 *   queued ──room found──▶ copying ──landed, entry complete──▶ checking ──▶ sealed
 *      ▲                     │  └──────landed, others bring the rest──▶ let go
 *      └──the codec refused──┘                                   (what fails, or finds no room in time, is given up)
 *
 * Under a codec a part is one record, so that its reply is one too, and a block may take several parts. What the codec
 * coded is known with its length and checksum. What it refused is missing again: the item is queued once more, before
 * all others, finds room for the bytes as they are, as any item does, and is copied and checked.
 *
 * Invariants: at most one part on its way to DRAM; an entry is sealed only after every byte landed and every checksum is set;
 * the slot is written once, when no job of this publication is open; every item is dropped exactly once: it is in
 * #errands, in the open part or being checked, and is dropped when it leaves the last of them.
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
  readonly #errands: Errands
  /** The items of the open part, by entry. */
  readonly #inPart = new Map<number, Errand>()
  readonly #partialOk: boolean
  readonly #admitUs: number
  #save: SaveJob | SsdSave | null = null
  /** Parts that go to the SSD as well, and have not ended there: they use the pages. */
  readonly #directs = new Set<SsdSave>()
  readonly #checks: Checks
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
    this.#errands = new Errands(items)
    this.#checks = new Checks(context, hold.lanes, {
      left: (entry) => this.#drop(entry),
      ended: (ok) => this.#checked(ok),
    })
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
    const part = new PartBuilder()
    const route = new PartRoute(this.#context, this.#hold)
    let bytes = 0
    let room = true
    while (bytes < options.publishPartBytes && part.count < route.copiesMax) {
      const errand = this.#errands.current
      if (errand === null) break
      const { item } = errand
      if (!storage.assembling(item.entry)) {
        this.#leave(errand)
        continue
      }
      const allocation = storage.allocate(item.entry)
      if (allocation === 'rejected') {
        // Not worth what it would displace: nothing of it is kept, and that is no failure.
        storage.abandon(item.entry)
        this.#leave(errand)
        continue
      }
      room = allocation === 'ok'
      if (!room) break
      if (!route.takes(item, part.count)) break
      bytes += this.#bring(errand, route.copiesMax - part.count, part)
    }
    if (!room && part.count === 0) return this.#waitForRoom(nowUs)
    publications.stopWaiting(this)
    this.giveUpUs = Number.POSITIVE_INFINITY
    if (part.count === 0) {
      this.#settle()
      return true
    }
    this.#bytes += bytes
    this.#send(part.build(), route)
    return true
  }

  /**
   * Offers storage what is left of an item, at most `copiesMax` runs of it, and adds what nobody brought to a part.
   * Returns the engine bytes that it moves.
   */
  #bring(errand: Errand, copiesMax: number, part: PartBuilder): number {
    const { item, left } = errand
    const { entry } = item
    const runs: number[] = []
    this.#context.storage.contribute(entry, left.splice(0, Math.min(copiesMax, left.length)), runs)
    let bytes = 0
    for (let at = 0; at < runs.length; at += RUN_NUMBERS) bytes += this.#describe(item, runs, at, part)
    if (runs.length > 0) this.#inPart.set(entry, errand)
    if (left.length > 0) return bytes
    if (this.#inPart.has(entry)) this.#errands.remove(errand)
    else this.#leave(errand)
    return bytes
  }

  #send(part: SavePart, route: PartRoute): void {
    const { slotTable } = this.#hold
    const target = {
      slots: slotTable.slots,
      slot: this.slot,
      slotGeneration: this.slotGeneration,
      fence: this.#fence,
    }
    if (route.way !== 'dram' && this.#sendToSsd(part, route, target)) return
    const save = new SaveJob(this.#context, this.#hold.lanes, part, target, (outcome) => this.#saved(outcome))
    this.#save = save
    this.#hold.lanes.dramJobs.request(save)
  }

  /**
   * Sends a part by way of the cuFile lane. Without a permit its extents go back, and it goes by DRAM alone: false. So does
   * one that would have to wait for the arena: what another part has coded is held until the disk has it, and no
   * publication waits for the disk.
   */
  #sendToSsd(part: SavePart, route: PartRoute, target: SaveTarget): boolean {
    const context = this.#context
    const { ssd } = this.#hold.lanes
    invariant(ssd !== null, 'a part goes to the SSD where the cuFile route exists')
    const staging = ssd.staging(this.#hold)
    if (!staging.permits.acquire()) {
      for (const { item } of route.blocks) context.storage.abortDirect(item.entry)
      context.tally.gpuWriteFellBack()
      return false
    }
    if (route.way === 'encoded' && !staging.arena.acquire()) {
      staging.permits.release()
      context.tally.encodedWriteFellBack()
      return false
    }
    const ended = (save: SsdSave) => {
      this.#directs.delete(save)
      this.#settle()
    }
    const saved = (outcome: SaveOutcome) => this.#saved(outcome)
    const save: SsdSave =
      route.way === 'encoded'
        ? new EncodedSave(context, ssd, staging, this.#hold, part, route.encoded, target, { saved, ended })
        : new DirectSave(context, ssd, staging, this.#hold, part, route.blocks, target, { saved, ended })
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
    const ended = save instanceof SaveJob ? save.cancel() : !this.#directs.has(save)
    if (ended) this.#saved({ status: ERROR_CODES.cancelled, list: EMPTY_LIST })
  }

  /** Adds one run with its COPY descriptor to a part; returns the engine bytes it moves. */
  #describe(item: PublishItem, runs: readonly number[], at: number, part: PartBuilder): number {
    const { storage } = this.#context
    const geometry = storage.geometryOf(item.entry)
    const granule = runs[at] as number
    const firstItem = runs[at + 1] as number
    const itemCount = runs[at + 2] as number
    part.add(
      item.entry,
      [granule, firstItem, itemCount],
      [
        this.#hold.templates[item.group] as number,
        granule - (geometry.rankGranules[this.#hold.rank]?.[0] ?? 0),
        item.page,
        storage.granuleOffset(item.entry, granule),
        firstItem,
        itemCount,
        storage.codedRoom(item.entry, granule),
      ],
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
    tally.publishSkipped(this.#errands.count)
    if (!this.#partialOk) this.#fail('capacity_pool', this.#errands.index)
    this.#giveUpRest()
    this.#settle()
    return true
  }

  #saved({ status, list }: SaveOutcome): void {
    const save = this.#save
    this.#save = null
    if (save === null) return
    const { part } = save
    const ok = status === ERROR_CODES.ok
    const refused = new Map<number, GranuleRun[]>()
    for (let copy = 0; copy < part.entries.length; copy++) this.#landed(part, copy, ok, list, refused)
    if (!ok) this.#fail(this.#failure ?? errorCodeName(status), this.#errands.index)
    const complete: number[] = []
    const again = new Map<Errand, GranuleRun[]>()
    for (const [entry, errand] of this.#inPart) {
      const runs = refused.get(entry)
      if (runs !== undefined) again.set(errand, runs)
      else if (this.#landedAll(errand, ok)) complete.push(entry)
    }
    this.#errands.again(again)
    this.#inPart.clear()
    // Before the seal, which would queue what has no extent yet.
    if (save instanceof EncodedSave) save.write(complete)
    this.#checks.begin(complete)
    this.advance()
  }

  /** One copy of a part has ended. What the codec did not take is appended to `refused`, by entry. */
  #landed(part: SavePart, copy: number, ok: boolean, list: List, refused: Map<number, GranuleRun[]>): void {
    const { storage } = this.#context
    const entry = part.entries[copy] as number
    const at = copy * RUN_NUMBERS
    const granule = part.runs[at] as number
    const coded = ok && (part.descriptors[copy * COPY.doubles + COPY.storedBytes] as number) > 0
    invariant(!coded || list.length === 2 * part.entries.length, 'a lane says of every copy what it left', { copy })
    const storedBytes = coded ? listAt(list, 2 * copy) : 0
    if (coded && storedBytes > 0) storage.coded(entry, granule, storedBytes, listAt(list, 2 * copy + 1))
    if (ok && (!coded || storedBytes > 0)) return storage.landed(entry, part.runs, at, at + RUN_NUMBERS)
    storage.copyFailed(entry, part.runs, at, at + RUN_NUMBERS)
    if (!coded) return
    storage.keepRaw(entry, granule)
    this.#bytes -= storage.geometryOf(entry).granules[granule]?.segmentBytes ?? 0
    // A coded granule is one item.
    const runs = refused.get(entry)
    const run = { granule, firstItem: 0, itemCount: 1 }
    if (runs === undefined) refused.set(entry, [run])
    else runs.push(run)
  }

  /** The copies of an item in one part have ended, none refused. True: its entry is complete, and is checked next. */
  #landedAll(errand: Errand, ok: boolean): boolean {
    const { storage } = this.#context
    const { entry, claimed } = errand.item
    if (ok && storage.complete(entry)) {
      this.#errands.remove(errand)
      return true
    }
    if (!ok && claimed) storage.abandon(entry)
    if (!this.#errands.has(errand)) this.#drop(entry)
    return false
  }

  #checked(ok: boolean): void {
    if (!ok) this.#fail('io_copy_failed', 0)
    if (this.#save === null) this.advance()
  }

  /** Ends the publication once nothing of it is open: the slot says how, whatever was sealed stays. */
  #settle(): void {
    if (this.#failure !== null) this.#giveUpRest()
    if (this.#ended || this.#save !== null || this.#checks.open > 0 || this.#directs.size > 0) return
    if (this.#errands.count > 0) return
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

  /** Items that have something left are let go; entries that only this publication claimed end unseen. */
  #giveUpRest(): void {
    for (const { entry, claimed } of this.#errands.takeAll()) {
      if (claimed && this.#context.storage.assembling(entry)) this.#context.storage.abandon(entry)
      // Copies of it that are on their way drop it when they end.
      if (!this.#inPart.has(entry)) this.#drop(entry)
    }
    this.#context.publications.stopWaiting(this)
  }

  /** Nothing of the item is brought by this publication any more. */
  #leave(errand: Errand): void {
    this.#errands.remove(errand)
    if (!this.#inPart.has(errand.item.entry)) this.#drop(errand.item.entry)
  }

  #drop(entry: number): void {
    this.#context.storage.drop(entry)
  }
}
