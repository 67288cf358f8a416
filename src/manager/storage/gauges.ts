import type { Tally } from '../../shared/base/tally.js'
import { RESIDENT_CLASS } from '../../shared/directory/resident-table.js'
import type { DramCache } from '../cache/dram-cache.js'
import type { Assemblies } from './assemblies.js'
import { STORAGE_COUNT as COUNT, RESIDENT_CLASS_COUNT } from './counters.js'
import type { Entries } from './entries.js'
import type { Fills } from './fills.js'
import type { StorageGauges } from './ports.js'
import type { Writes } from './writes.js'

/** The nouns of storage, each with its own share of the gauges. */
interface Nouns {
  readonly entries: Entries
  readonly assemblies: Assemblies
  readonly fills: Fills
  readonly writes: Writes
  readonly cache: DramCache
}

/** What must be zero at rest. */
export function gaugesOf({ entries, assemblies, fills, writes }: Nouns): StorageGauges {
  return {
    interests: entries.interests,
    assemblies: assemblies.count,
    copiesInFlight: assemblies.copiesInFlight,
    fillsInFlight: fills.count,
    readsOutstanding: fills.outstanding,
    readsQueued: fills.queued,
    writesQueued: writes.queued,
    writesQueuedBytes: writes.queuedBytes,
    writesInFlight: writes.reserved,
    writesInFlightBytes: writes.reservedBytes,
    syncWaiters: writes.syncWaiters,
    ssdPinnedBytes: entries.extents.pinnedBytes,
    poolUsedBytes: entries.memory.pool.usedBytes,
  }
}

/** The counter page: gauges as they are now, and what some nouns count by themselves. */
export class ShownGauges {
  #pinnedSkips = 0
  #promotions = 0
  #demotions = 0

  refresh(nouns: Nouns, tally: Tally): void {
    const { pinnedSkips } = nouns.entries.extents
    const { promotions, demotions } = nouns.cache.order
    tally.add(COUNT.pinnedWriteSkips, pinnedSkips - this.#pinnedSkips)
    tally.add(COUNT.promotions, promotions - this.#promotions)
    tally.add(COUNT.demotions, demotions - this.#demotions)
    this.#pinnedSkips = pinnedSkips
    this.#promotions = promotions
    this.#demotions = demotions
    showGauges(nouns, tally)
  }
}

function showGauges({ entries, assemblies, fills, writes, cache }: Nouns, tally: Tally): void {
  const { directory, extents } = entries
  const { pool } = entries.memory
  tally.set(COUNT.poolUsedBytes, pool.usedBytes)
  tally.set(COUNT.poolCapacityBytes, pool.usedBytes + pool.freeBytes)
  tally.set(COUNT.poolLargestFreeBytes, pool.largestFreeBytes)
  tally.set(COUNT.inflightBytes, assemblies.bytes)
  tally.set(COUNT.residentBytes, entries.residentBytes)
  tally.set(COUNT.directoryEntries, directory.live)
  tally.set(COUNT.ssdUsedBytes, extents.usedBytes)
  tally.set(COUNT.ssdPinnedBytes, extents.pinnedBytes)
  tally.set(COUNT.writeQueuePending, writes.queued)
  tally.set(COUNT.writeQueueBytes, writes.queuedBytes)
  tally.set(COUNT.writesReserved, writes.reserved)
  tally.set(COUNT.poolUsedBytesPeak, pool.peakBytes)
  tally.set(COUNT.protectedBytes, cache.order.protectedBytes)
  for (const of of Object.values(RESIDENT_CLASS)) tally.set(RESIDENT_CLASS_COUNT[of], cache.order.blocks(of))
  tally.set(COUNT.warmPendingBytes, cache.guesses.pendingBytes)
  tally.set(COUNT.fillsInflight, fills.count)
  tally.set(COUNT.readQueuePending, fills.queued)
}
