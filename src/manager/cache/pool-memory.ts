import { PAGE_BYTES } from '../../shared/base/units.js'
import type { GranuleSlab } from '../../shared/directory/granule-slab.js'
import type { GroupGeometry } from '../../shared/layout/regions.js'
import type { PoolAllocator } from '../../shared/pool/pool-allocator.js'

/** What one DRAM replica needs to know about its class. */
export interface ReplicaShape {
  readonly geometry: GroupGeometry
  readonly offsets: GranuleSlab
}

/**
 * DRAM replicas as allocations: one pool allocation a granule, so that one held page never retains its siblings. Knows
 * no entry and no order of use; all or nothing, and never evicts.
 */
export class PoolMemory {
  readonly pool: PoolAllocator

  constructor(pool: PoolAllocator) {
    this.pool = pool
  }

  /** A slot of `shape.offsets` with every granule allocated, or -1 and nothing changed. */
  allocate(shape: ReplicaShape): number {
    const { offsets, geometry } = shape
    const slot = offsets.allocate()
    if (slot < 0) return -1
    for (let granule = 0; granule < geometry.granules.length; granule++) {
      const offsetBytes = this.pool.allocate((geometry.granules[granule] as { bytes: number }).bytes)
      if (offsetBytes < 0) {
        this.#free(offsets, slot, granule)
        return -1
      }
      offsets.set(slot, granule, offsetBytes / PAGE_BYTES)
    }
    return slot
  }

  /** Gives every granule of a slot back. */
  free(shape: ReplicaShape, slot: number): void {
    this.#free(shape.offsets, slot, shape.geometry.granules.length)
  }

  offsetBytes(shape: ReplicaShape, slot: number, granule: number): number {
    return shape.offsets.get(slot, granule) * PAGE_BYTES
  }

  #free(offsets: GranuleSlab, slot: number, granules: number): void {
    for (let granule = 0; granule < granules; granule++) this.pool.free(offsets.get(slot, granule) * PAGE_BYTES)
    offsets.free(slot)
  }
}
