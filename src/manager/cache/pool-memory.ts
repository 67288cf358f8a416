import { invariant } from '../../shared/base/invariant.js'
import { PAGE_BYTES } from '../../shared/base/units.js'
import type { GranuleSlab } from '../../shared/directory/granule-slab.js'
import type { PoolAllocator } from '../../shared/pool/pool-allocator.js'

/** What one DRAM replica needs to know about its class. */
export interface ReplicaShape {
  readonly offsets: GranuleSlab
}

/** Bytes of a granule's room. */
export type RoomOf = (granule: number) => number

/** In place of an offset: the granule has no room. Pools have fewer pages. */
const NO_ROOM = 2 ** 32 - 1

/**
 * DRAM replicas as allocations: one pool allocation a granule, so that one held page never retains its siblings. Knows
 * no entry and no order of use; all or nothing, and never evicts. While a replica is being put together a granule's
 * room may be cut, or given back and taken again.
 */
export class PoolMemory {
  readonly pool: PoolAllocator

  constructor(pool: PoolAllocator) {
    this.pool = pool
  }

  /** A slot of `shape.offsets` with room for every granule, or -1 and nothing changed. */
  allocate({ offsets }: ReplicaShape, roomOf: RoomOf): number {
    const slot = offsets.allocate()
    if (slot < 0) return -1
    for (let granule = 0; granule < offsets.granules; granule++) {
      if (this.#take(offsets, slot, granule, roomOf)) continue
      this.#freeBefore(offsets, slot, granule)
      offsets.free(slot)
      return -1
    }
    return slot
  }

  /** Room for those granules of a slot that have none; false and nothing changed when the pool has not enough. */
  complete({ offsets }: ReplicaShape, slot: number, roomOf: RoomOf): boolean {
    const taken: number[] = []
    for (let granule = 0; granule < offsets.granules; granule++) {
      if (offsets.get(slot, granule) !== NO_ROOM) continue
      if (this.#take(offsets, slot, granule, roomOf)) {
        taken.push(granule)
        continue
      }
      for (const each of taken) this.release({ offsets }, slot, each)
      return false
    }
    return true
  }

  /** Gives every granule of a slot back. */
  free({ offsets }: ReplicaShape, slot: number): void {
    this.#freeBefore(offsets, slot, offsets.granules)
    offsets.free(slot)
  }

  /** Gives the room of one granule back; its slot stays. */
  release({ offsets }: ReplicaShape, slot: number, granule: number): void {
    this.pool.free(offsets.get(slot, granule) * PAGE_BYTES)
    offsets.set(slot, granule, NO_ROOM)
  }

  /** Cuts a granule's room to what `bytes` need. */
  shrink({ offsets }: ReplicaShape, slot: number, granule: number, bytes: number): void {
    this.pool.shrink(offsets.get(slot, granule) * PAGE_BYTES, bytes)
  }

  hasRoom({ offsets }: ReplicaShape, slot: number, granule: number): boolean {
    return offsets.get(slot, granule) !== NO_ROOM
  }

  offsetBytes({ offsets }: ReplicaShape, slot: number, granule: number): number {
    const page = offsets.get(slot, granule)
    invariant(page !== NO_ROOM, 'a granule is where its room is', { slot, granule })
    return page * PAGE_BYTES
  }

  #take(offsets: GranuleSlab, slot: number, granule: number, roomOf: RoomOf): boolean {
    const offsetBytes = this.pool.allocate(roomOf(granule))
    if (offsetBytes < 0) return false
    offsets.set(slot, granule, offsetBytes / PAGE_BYTES)
    return true
  }

  #freeBefore(offsets: GranuleSlab, slot: number, end: number): void {
    for (let granule = 0; granule < end; granule++) {
      const page = offsets.get(slot, granule)
      if (page !== NO_ROOM) this.pool.free(page * PAGE_BYTES)
    }
  }
}
