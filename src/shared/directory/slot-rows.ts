import { invariant } from '../base/invariant.js'
import { WordRows } from './word-rows.js'

/**
 * Rows with a life: allocate and free in constant time, last freed first. A row in use and a free one are told apart
 * by a word of their own, so that a double free is found at once.
 *
 *   | 0: 1 in use, else next free + 1 shifted by one | 1 ... wordsPerSlot: the owner's words |
 */
export class SlotRows {
  private readonly rows: WordRows
  private readonly slotsMax: number
  private readonly wordsPerSlot: number
  private touched = 0
  private freeHead = 0
  private slotsLive = 0

  constructor(wordsPerSlot: number, slotsMax: number) {
    invariant(slotsMax >= 1 && slotsMax < 2 ** 31, 'a slab has 1 to 2^31 - 1 slots', { slotsMax })
    this.wordsPerSlot = wordsPerSlot
    this.slotsMax = slotsMax
    this.rows = new WordRows(wordsPerSlot + 1, slotsMax)
  }

  get live(): number {
    return this.slotsLive
  }

  get bytesReserved(): number {
    return this.rows.bytesReserved
  }

  /** A slot whose words are all 0, or -1 when all are in use. */
  allocate(): number {
    let slot = this.freeHead - 1
    if (slot >= 0) this.freeHead = this.rows.get(slot, 0) >>> 1
    else {
      if (this.touched === this.slotsMax) return -1
      slot = this.touched++
      this.rows.reach(slot)
    }
    this.rows.set(slot, 0, 1)
    for (let word = 1; word <= this.wordsPerSlot; word++) this.rows.set(slot, word, 0)
    this.slotsLive++
    return slot
  }

  free(slot: number): void {
    this.assertLive(slot)
    this.rows.set(slot, 0, this.freeHead * 2)
    this.freeHead = slot + 1
    this.slotsLive--
  }

  get(slot: number, word: number): number {
    return this.rows.get(slot, word + 1)
  }

  set(slot: number, word: number, value: number): void {
    this.rows.set(slot, word + 1, value)
  }

  assertLive(slot: number): void {
    const live = slot >= 0 && slot < this.touched && (this.rows.get(slot, 0) & 1) === 1
    invariant(live, 'a slot is used between its allocate and its free', { slot })
  }
}
