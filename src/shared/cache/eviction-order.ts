import { invariant } from '../base/invariant.js'
import { NONE } from '../directory/directory.js'
import { RESIDENT_CLASS, type ResidentClass, type ResidentTable } from '../directory/resident-table.js'

/** Names of the classes in the order in which they are evicted; metrics use them. */
export const EVICTION_CLASSES = ['reclaimable', 'probationary', 'retained'] as const

/** Slots looked at for one demotion: bounds what one use may cost when most of the segment is in use. */
const LOOKS_MAX = 64

/** What the order asks about a slot. */
export interface SlotFacts {
  /** Bytes that the segment counts for it. */
  bytes(slot: number): number
  /** May be evicted: nobody leases it, nothing is copied from or to it. */
  idle(slot: number): boolean
}

/**
 * Who is evicted next among the DRAM replicas: reclaimable ones (read on a guess) before probationary before retained,
 * the least recently used first in each.
 *
 * Only a request's use changes an order. With a protected segment it promotes to retained, and room for it is made by
 * demoting the oldest retained ones, never such as are in use; what finds no room stays probationary. Bytes of the
 * segment never pass its limit.
 */
export class EvictionOrder {
  readonly protectedBytesMax: number
  readonly #table: ResidentTable
  readonly #facts: SlotFacts
  readonly #blocks: [number, number, number] = [0, 0, 0]
  #protectedBytes = 0
  #promotions = 0
  #demotions = 0

  /** `protectedBytesMax` 0: no protected segment. */
  constructor(table: ResidentTable, facts: SlotFacts, protectedBytesMax: number) {
    this.#table = table
    this.#facts = facts
    this.protectedBytesMax = protectedBytesMax
  }

  get protectedBytes(): number {
    return this.#protectedBytes
  }

  get promotions(): number {
    return this.#promotions
  }

  get demotions(): number {
    return this.#demotions
  }

  /** Replicas of a class. */
  blocks(of: ResidentClass): number {
    return this.#blocks[of]
  }

  /** A replica is whole; `guessed`: nobody asked for it. */
  arrived(slot: number, guessed: boolean): void {
    const to = guessed ? RESIDENT_CLASS.reclaimable : RESIDENT_CLASS.probationary
    this.#table.move(slot, to)
    this.#blocks[to]++
  }

  /** A replica that arrived is about to leave DRAM. */
  leaving(slot: number): void {
    const from = this.#table.classOf(slot)
    this.#blocks[from]--
    if (from === RESIDENT_CLASS.retained) this.#protectedBytes -= this.#facts.bytes(slot)
  }

  /** A request uses a replica that arrived. */
  used(slot: number): void {
    if (this.#table.classOf(slot) === RESIDENT_CLASS.retained) return this.#table.touch(slot)
    const bytes = this.#facts.bytes(slot)
    if (!this.#makeRoom(bytes)) return this.#change(slot, RESIDENT_CLASS.probationary)
    this.#change(slot, RESIDENT_CLASS.retained)
    this.#protectedBytes += bytes
    this.#promotions++
  }

  /** The replica that is evicted next, or NONE when every one is in use. */
  victim(): number {
    for (const of of [RESIDENT_CLASS.reclaimable, RESIDENT_CLASS.probationary, RESIDENT_CLASS.retained]) {
      for (let left = this.#table.liveIn(of); left > 0; left--) {
        const slot = this.#table.oldest(of)
        if (this.#facts.idle(slot)) return slot
        // In use: as good as used now. Moving it keeps the next search short.
        this.#table.touch(slot)
      }
    }
    return NONE
  }

  #makeRoom(bytes: number): boolean {
    if (bytes > this.protectedBytesMax) return false
    let slot = this.#table.oldest(RESIDENT_CLASS.retained)
    for (let looks = 0; this.#protectedBytes + bytes > this.protectedBytesMax; looks++) {
      if (slot === NONE || looks === LOOKS_MAX) return false
      const newer = this.#table.newer(slot)
      if (this.#facts.idle(slot)) this.#demote(slot)
      slot = newer
    }
    return true
  }

  #demote(slot: number): void {
    this.#change(slot, RESIDENT_CLASS.probationary)
    this.#protectedBytes -= this.#facts.bytes(slot)
    this.#demotions++
    invariant(this.#protectedBytes >= 0, 'what is demoted was protected', { slot })
  }

  /** To the young end of a class. */
  #change(slot: number, to: ResidentClass): void {
    this.#blocks[this.#table.classOf(slot)]--
    this.#table.move(slot, to)
    this.#blocks[to]++
  }
}
