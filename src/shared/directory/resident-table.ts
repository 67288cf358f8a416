import { invariant } from '../base/invariant.js'
import { DRAM_SLOTS_MAX, NONE } from './directory.js'
import { SlotRows } from './slot-rows.js'

const ENTRY = 0
const GRANULE_SLOT = 1
const OLDER = 2
const NEWER = 3
const CLASS = 4
const WORDS = 5

/** How dear a replica is: each class has an order of use of its own. */
export const RESIDENT_CLASS = { reclaimable: 0, probationary: 1, retained: 2 } as const
export type ResidentClass = (typeof RESIDENT_CLASS)[keyof typeof RESIDENT_CLASS]

/**
 * The DRAM replicas in order of last use, in three classes. Its slots are what `Directory.dramSlot` names: links are
 * kept only for groups that are in DRAM, not for the many that are on SSD alone. Every operation takes constant time.
 */
export class ResidentTable {
  private readonly slots: SlotRows
  private readonly oldestSlots: [number, number, number] = [NONE, NONE, NONE]
  private readonly newestSlots: [number, number, number] = [NONE, NONE, NONE]
  private readonly counts: [number, number, number] = [0, 0, 0]

  constructor(slotsMax: number) {
    invariant(slotsMax <= DRAM_SLOTS_MAX, 'a directory row has 24 bits for a DRAM slot', { slotsMax })
    this.slots = new SlotRows(WORDS, slotsMax)
  }

  /** Adds the replica of `entry` as the most recently used; `granuleSlot` is its slot in the class's GranuleSlab. */
  add(entry: number, granuleSlot: number): number {
    const slot = this.slots.allocate()
    if (slot === NONE) return NONE
    this.slots.set(slot, ENTRY, entry)
    this.slots.set(slot, GRANULE_SLOT, granuleSlot)
    this.append(slot, RESIDENT_CLASS.probationary)
    return slot
  }

  remove(slot: number): void {
    this.slots.assertLive(slot)
    this.unlink(slot)
    this.slots.free(slot)
  }

  /** Marks the replica as used now, in its class. */
  touch(slot: number): void {
    this.move(slot, this.classOf(slot))
  }

  /** Makes the replica the most recently used of a class. */
  move(slot: number, to: ResidentClass): void {
    this.slots.assertLive(slot)
    if (slot === this.newestSlots[to]) return
    this.unlink(slot)
    this.append(slot, to)
  }

  entry(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, ENTRY)
  }

  granuleSlot(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, GRANULE_SLOT)
  }

  classOf(slot: number): ResidentClass {
    this.slots.assertLive(slot)
    return this.slots.get(slot, CLASS) as ResidentClass
  }

  /** Least recently used slot of a class, or NONE. */
  oldest(of: ResidentClass = RESIDENT_CLASS.probationary): number {
    return this.oldestSlots[of]
  }

  /** The slot of the same class used next after `slot`, or NONE: walks from oldest() towards the newest. */
  newer(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, NEWER) - 1
  }

  get live(): number {
    return this.slots.live
  }

  liveIn(of: ResidentClass): number {
    return this.counts[of]
  }

  get bytesReserved(): number {
    return this.slots.bytesReserved
  }

  private append(slot: number, to: ResidentClass): void {
    const newest = this.newestSlots[to]
    this.slots.set(slot, OLDER, newest + 1)
    this.slots.set(slot, NEWER, 0)
    this.slots.set(slot, CLASS, to)
    if (newest === NONE) this.oldestSlots[to] = slot
    else this.slots.set(newest, NEWER, slot + 1)
    this.newestSlots[to] = slot
    this.counts[to]++
  }

  private unlink(slot: number): void {
    const of = this.slots.get(slot, CLASS) as ResidentClass
    const older = this.slots.get(slot, OLDER) - 1
    const newer = this.slots.get(slot, NEWER) - 1
    if (older === NONE) this.oldestSlots[of] = newer
    else this.slots.set(older, NEWER, newer + 1)
    if (newer === NONE) this.newestSlots[of] = older
    else this.slots.set(newer, OLDER, older + 1)
    this.counts[of]--
  }
}
