import type { Tally } from '../../shared/base/tally.js'
import { NONE } from '../../shared/directory/directory.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM } from '../storage/counters.js'
import type { Entries } from '../storage/entries.js'
import type { DropReport } from '../storage/ports.js'

/**
 * Who may stay in DRAM: least recently used goes first, nothing with interests goes. Eviction drops a replica; the
 * entry stays when the SSD has it too.
 */
export class DramCache {
  readonly #entries: Entries
  readonly #tally: Tally
  /** Since when each resident slot is resident, microseconds. */
  #sinceUs = new Float64Array(64)

  constructor(entries: Entries, tally: Tally) {
    this.#entries = entries
    this.#tally = tally
  }

  /** Pool memory for one entry; evicts as long as that can help, and nothing when it cannot. */
  allocate(entry: number, nowUs: number): boolean {
    const { memory } = this.#entries
    const needBytes = this.#entries.shape(entry).dramBytes
    if (needBytes <= memory.pool.freeBytes + this.#entries.evictableBytes) {
      while (needBytes > memory.pool.freeBytes) this.#evictOldest(nowUs)
      // Free bytes may still be cut into pieces shorter than a granule: then eviction goes on.
      do {
        if (this.#entries.allocate(entry)) return true
      } while (this.#evictOldest(nowUs))
    }
    this.#tally.add(STORAGE_COUNT.poolAllocFailures, 1)
    return false
  }

  /** An entry became resident at `nowUs`. */
  arrived(entry: number, nowUs: number): void {
    const slot = this.#entries.directory.dramSlot(entry)
    if (slot >= this.#sinceUs.length) {
      const longer = new Float64Array(Math.max(slot + 1, this.#sinceUs.length * 2))
      longer.set(this.#sinceUs)
      this.#sinceUs = longer
    }
    this.#sinceUs[slot] = nowUs
  }

  /** The evictable entry that was used least recently; NONE when there is none. */
  oldestEvictable(): number {
    const { residents } = this.#entries
    for (let left = residents.live; left > 0; left--) {
      const slot = residents.oldest()
      const entry = residents.entry(slot)
      if (this.#entries.evictable(entry)) return entry
      // In use: as good as used now. Moving it keeps the next search short.
      residents.touch(slot)
    }
    return NONE
  }

  /** Drops every DRAM replica that nobody needs. */
  drop(nowUs: number): DropReport {
    const { residents, memory } = this.#entries
    const usedBefore = memory.pool.usedBytes
    let evictedBlocks = 0
    let evictedBytes = 0
    let stillReferencedBlocks = 0
    for (let slot = residents.oldest(); slot !== NONE; ) {
      const next = residents.newer(slot)
      const entry = residents.entry(slot)
      if (this.#entries.evictable(entry)) {
        evictedBlocks++
        evictedBytes += this.#entries.shape(entry).geometry.extentBytes
        this.#evict(entry, STORAGE_HISTOGRAM.residenceCleanupUs, nowUs)
      } else if (this.#entries.resident(entry)) {
        stillReferencedBlocks++
      }
      slot = next
    }
    this.#tally.add(STORAGE_COUNT.evictionsStillReferenced, stillReferencedBlocks)
    return { evictedBlocks, evictedBytes, reclaimedBytes: usedBefore - memory.pool.usedBytes, stillReferencedBlocks }
  }

  #evictOldest(nowUs: number): boolean {
    const entry = this.oldestEvictable()
    if (entry === NONE) return false
    this.#evict(entry, STORAGE_HISTOGRAM.residencePressureUs, nowUs)
    return true
  }

  #evict(entry: number, reason: number, nowUs: number): void {
    const { dramBytes } = this.#entries.shape(entry)
    const slot = this.#entries.directory.dramSlot(entry)
    this.#tally.observe(reason, nowUs - (this.#sinceUs[slot] as number))
    this.#tally.add(STORAGE_COUNT.evictions, 1)
    this.#tally.add(STORAGE_COUNT.evictionReclaimedBytes, dramBytes)
    if (!this.#entries.onSsd(entry)) this.#tally.add(STORAGE_COUNT.blocksLost, 1)
    this.#entries.evict(entry)
  }
}
