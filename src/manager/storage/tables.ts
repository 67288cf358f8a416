import { PAGE_BYTES } from '../../shared/base/units.js'
import { Directory, DRAM_SLOTS_MAX } from '../../shared/directory/directory.js'
import { ResidentTable } from '../../shared/directory/resident-table.js'
import { ExtentShard } from '../../shared/extents/extent-shard.js'
import { ExtentStore } from '../../shared/extents/extent-store.js'
import { PoolAllocator } from '../../shared/pool/pool-allocator.js'
import { PoolMemory } from '../cache/pool-memory.js'
import { ClassTable } from './classes.js'
import { Entries, type EntryTables } from './entries.js'
import type { StorageOptions } from './ports.js'

/** The parts that a Storage is made of; tests put broken ones in their place. */
export interface StorageParts {
  readonly entries: Entries
  readonly classes: ClassTable
}

/** Real parts for the sizes of `options`. */
export function partsOf(options: StorageOptions): StorageParts {
  const tables = tablesOf(options)
  return { entries: new Entries(tables), classes: tables.classes }
}

/** The most DRAM replicas that there can be. */
export function replicasOf({ entriesMax, poolBytes }: StorageOptions): number {
  return Math.max(1, Math.min(entriesMax, Math.floor(poolBytes / PAGE_BYTES), DRAM_SLOTS_MAX))
}

/** Empty tables for the sizes of `options`. */
export function tablesOf(options: StorageOptions): EntryTables {
  const { entriesMax, directorySeed, poolBytes, shards, extentAlignmentBytes } = options
  return {
    directory: new Directory({ entriesMax, seed: directorySeed }),
    residents: new ResidentTable(replicasOf(options)),
    extents: new ExtentStore(
      shards.map((shard) => new ExtentShard(shard.capacityBytes, extentAlignmentBytes, entriesMax)),
    ),
    memory: new PoolMemory(new PoolAllocator(poolBytes)),
    classes: new ClassTable(entriesMax, poolBytes),
  }
}
