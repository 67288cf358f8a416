import type { HostRestoreOptions } from '../../src/actors/host-restore/machine.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../../src/manager/options.js'
import type { StorageOptions } from '../../src/manager/storage/ports.js'
import { alignUp, MIB, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import type { Model, Segment } from './model.js'
import type { Plan } from './plan.js'

export const OUR_UID = 1000
/** Pool memory that host-restore has to itself. */
const WINDOW_BYTES = MIB
const FILE_FIRST = 10

/** What one start of the Manager is given: sizes of the plan in bytes of its models. */
export interface Limits {
  readonly storage: StorageOptions
  readonly manager: ManagerOptions
  readonly restore: HostRestoreOptions
  readonly windowBytes: number
  readonly stores: number
  readonly files: readonly { readonly file: number; readonly bytes: number }[]
}

export function limitsOf(plan: Plan, models: readonly Model[], epoch: number): Limits {
  const { sizes } = plan
  const block = largestBlockBytes(models)
  const stores = sizes.ssd ? sizes.stores : 0
  const poolBytes = sizes.poolBlocks * block.dram
  const files = Array.from({ length: stores * sizes.shardsPerStore }, (_, shard) => ({
    file: FILE_FIRST + shard,
    bytes: sizes.shardBlocks * block.disk,
  }))
  const { parts, partDescriptors, storeReads } = sizes
  return {
    windowBytes: WINDOW_BYTES,
    stores,
    files,
    storage: {
      poolBytes,
      entriesMax: sizes.entriesMax,
      directorySeed: [plan.wakeUs[0] ?? 1, 7],
      shards: files.map(({ file, bytes }, index) => {
        const store = index % stores
        return { file, capacityBytes: bytes, store, writer: store }
      }),
      extentAlignmentBytes: 512,
      writeQueueBytesMax: sizes.queueBlocks * block.disk,
      writeWindowBytes: 2 * block.disk,
      writeWindowBytesMin: 4096,
      writeWindowRestoreUs: 2_000,
      writePolicy: sizes.writePolicy,
      cache: { protectedBytesMax: sizes.protectedBlocks * block.dram, lfuAdmission: sizes.lfuAdmission },
      assemblyAgeUsMax: sizes.assemblyAgeUs,
    },
    manager: {
      ...MANAGER_DEFAULTS,
      epoch,
      uids: [OUR_UID],
      ssd: stores > 0,
      routes: { ...MANAGER_DEFAULTS.routes, readRoute: sizes.readRoute },
      queryBudgetBytes: sizes.budgetBlocks * block.disk,
      queryInstanceBudgetBytes: Math.max(3, Math.ceil(sizes.budgetBlocks / 2)) * block.disk,
      leaseUs: sizes.leaseUs,
      queryUs: sizes.queryUs,
      publishWaitUs: sizes.publishWaitUs,
      queriesPerSessionMax: sizes.queriesPerSession,
      prepareUs: sizes.prepareUs,
      warmUs: sizes.warmUs,
      queryReadBatchBytes: sizes.readBatchBlocks * block.disk,
      queryReadBatchesMax: sizes.readBatchBlocks === 0 ? 0 : sizes.readBatchesMax,
      queryReadTimeoutUs: sizes.readTimeoutUs,
      reuseRegisterBits: 4,
      queriesMax: 64,
      descriptorsPerRecordMax: sizes.descriptorsPerRecord,
      publishPartBytes: sizes.publishPartBytes,
      slotsPerSessionMax: 64,
      sessionsMax: 16,
      instancesMax: 8,
    },
    restore: {
      windowOffsetBytes: poolBytes,
      windowBytes: WINDOW_BYTES,
      stores,
      storeReads,
      reads: 1 << Math.ceil(Math.log2(Math.max(1, storeReads * Math.max(1, stores)))),
      parts,
      partDescriptors,
    },
  }
}

function largestBlockBytes(models: readonly Model[]): { dram: number; disk: number } {
  let dram = 0
  let disk = 0
  for (const { plan, segments: groups } of models) {
    for (const segments of groups) {
      disk = Math.max(disk, plan.ranks * segments.reduce((sum, { words }) => sum + paddedBytes(words), 0))
      dram = Math.max(dram, plan.ranks * pagesOfRuns(segments) * PAGE_BYTES)
    }
  }
  return { dram, disk }
}

function paddedBytes(words: number): number {
  return alignUp(words * 4, SECTOR_BYTES)
}

/** Pool pages of one block on one rank: every change of segment size starts a granule, and a granule takes whole pages. */
function pagesOfRuns(segments: readonly Segment[]): number {
  let pages = 0
  let runBytes = 0
  for (const [index, { words }] of segments.entries()) {
    runBytes += paddedBytes(words)
    if (segments[index + 1]?.words === words) continue
    pages += Math.ceil(runBytes / PAGE_BYTES)
    runBytes = 0
  }
  return pages
}
