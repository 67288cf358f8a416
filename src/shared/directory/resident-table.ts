import { invariant } from '../base/invariant.js'
import { DRAM_SLOTS_MAX, NONE } from './directory.js'
import { SlotRows } from './slot-rows.js'

const ENTRY = 0
const GRANULE_SLOT = 1
const OLDER = 2
const NEWER = 3
const WORDS = 4

/**
 * The DRAM replicas in order of last use. Its slots are what `Directory.dramSlot` names: links are kept only for groups
 * that are in DRAM, not for the many that are on SSD alone. Every operation takes constant time.
 */
export class ResidentTable {
  private readonly slots: SlotRows
  private oldestSlot = NONE
  private newestSlot = NONE

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
    this.append(slot)
    return slot
  }

  remove(slot: number): void {
    this.slots.assertLive(slot)
    this.unlink(slot)
    this.slots.free(slot)
  }

  /** Marks the replica as used now. */
  touch(slot: number): void {
    this.slots.assertLive(slot)
    if (slot === this.newestSlot) return
    this.unlink(slot)
    this.append(slot)
  }

  entry(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, ENTRY)
  }

  granuleSlot(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, GRANULE_SLOT)
  }

  /** Least recently used slot, or NONE. */
  oldest(): number {
    return this.oldestSlot
  }

  /** The slot used next after `slot`, or NONE: walks from oldest() towards the newest. */
  newer(slot: number): number {
    this.slots.assertLive(slot)
    return this.slots.get(slot, NEWER) - 1
  }

  get live(): number {
    return this.slots.live
  }

  get bytesReserved(): number {
    return this.slots.bytesReserved
  }

  private append(slot: number): void {
    this.slots.set(slot, OLDER, this.newestSlot + 1)
    this.slots.set(slot, NEWER, 0)
    if (this.newestSlot === NONE) this.oldestSlot = slot
    else this.slots.set(this.newestSlot, NEWER, slot + 1)
    this.newestSlot = slot
  }

  private unlink(slot: number): void {
    const older = this.slots.get(slot, OLDER) - 1
    const newer = this.slots.get(slot, NEWER) - 1
    if (older === NONE) this.oldestSlot = newer
    else this.slots.set(older, NEWER, newer + 1)
    if (newer === NONE) this.newestSlot = older
    else this.slots.set(newer, OLDER, older + 1)
  }
}
