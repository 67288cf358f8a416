import { invariant } from '../base/invariant.js'
import { SlotRows } from './slot-rows.js'

/**
 * One uint32 a granule for the groups of one class: where a DRAM replica lies (pool offset in 4 KiB units, so up to
 * 16 TiB of pool), or CRC32s. A slot lives as long as its owner's replica or entry.
 */
export class GranuleSlab {
  readonly granules: number
  private readonly slots: SlotRows

  constructor(granules: number, slotsMax: number) {
    invariant(granules >= 1, 'a group has at least one granule', { granules })
    this.granules = granules
    this.slots = new SlotRows(granules, slotsMax)
  }

  /** A slot of zeros, or -1 when all are in use. */
  allocate(): number {
    return this.slots.allocate()
  }

  free(slot: number): void {
    this.slots.free(slot)
  }

  get(slot: number, granule: number): number {
    this.check(slot, granule)
    return this.slots.get(slot, granule)
  }

  set(slot: number, granule: number, value: number): void {
    this.check(slot, granule)
    this.slots.set(slot, granule, value)
  }

  get live(): number {
    return this.slots.live
  }

  get bytesReserved(): number {
    return this.slots.bytesReserved
  }

  private check(slot: number, granule: number): void {
    this.slots.assertLive(slot)
    invariant(granule >= 0 && granule < this.granules, 'a granule of this class', { granule })
  }
}
