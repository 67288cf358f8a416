import type { HostRestoreOptions } from '../../src/actors/host-restore/machine.js'
import { HOST_DEVICE, type ServedDevice } from '../../src/manager/lanes/served-device.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../../src/manager/options.js'
import type { StorageOptions } from '../../src/manager/storage/ports.js'
import { alignUp, MIB, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { type SsdRoutes, selectSsd } from '../../src/shared/routing/ssd-selection.js'
import type { Model, Segment } from './model.js'
import type { Plan } from './plan.js'
import { must } from './violation.js'

export const OUR_UID = 1000
/** Pool memory that host-restore has to itself. */
const WINDOW_BYTES = MIB
const FILE_FIRST = 10
const EXT4 = 0xef53

/** The CUDA device of a simulation. */
export const GPU_UUID = Uint8Array.from({ length: 16 }, (_, byte) => byte * 17)
export const GPU: ServedDevice = { name: 'cuda:0', uuid: 'GPU-00112233-4455-6677-8899-aabbccddeeff' }

/** What one start of the Manager is given: sizes of the plan in bytes of its models. */
export interface Limits {
  readonly storage: StorageOptions
  readonly manager: ManagerOptions
  /** By device: each lane has a window of its own. */
  readonly restore: readonly HostRestoreOptions[]
  readonly windowBytes: number
  /** Of writeback: by the depth of the plan it joins whole blocks, a few granules, or none. */
  readonly joinBytes: number
  /** Bytes of one staging slot. */
  readonly slotBytes: number
  readonly stores: number
  readonly files: readonly { readonly file: number; readonly bytes: number }[]
}

export function limitsOf(plan: Plan, models: readonly Model[], epoch: number): Limits {
  const { sizes } = plan
  const routes = routesOf(plan)
  const cufile = routes.backend === 'cufile'
  const devices = plan.gpu.backend === 'none' ? [HOST_DEVICE] : [HOST_DEVICE, GPU]
  const coded = plan.codec.name !== 'none'
  const block = largestBlockBytes(models, coded)
  if (cufile) block.disk = alignUp(block.disk, PAGE_BYTES)
  const stores = sizes.ssd ? sizes.stores : 0
  const room = plan.gpu.backend === 'none' ? { poolRoom: 1, shardRoom: 1 } : plan.gpu
  const poolBlocks = coded ? poolBlocksOf(plan) : sizes.poolBlocks
  const poolBytes = room.poolRoom * poolBlocks * block.dram
  const files = Array.from({ length: stores * sizes.shardsPerStore }, (_, shard) => ({
    file: FILE_FIRST + shard,
    bytes: room.shardRoom * sizes.shardBlocks * block.disk,
  }))
  const { parts, partDescriptors, storeReads } = sizes
  return {
    windowBytes: devices.length * WINDOW_BYTES,
    joinBytes: coded ? sizes.writeDepth * SECTOR_BYTES : 0,
    slotBytes: plan.gpu.slotFactor * (2 * alignUp(largestGranuleBytes(models), PAGE_BYTES) + PAGE_BYTES),
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
      extentAlignmentBytes: cufile ? PAGE_BYTES : SECTOR_BYTES,
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
      devices,
      staging: cufile ? [GPU.name] : [],
      routes,
      codec: { name: plan.codec.name },
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
    restore: devices.map((_, device) => ({
      windowOffsetBytes: poolBytes + device * WINDOW_BYTES,
      windowBytes: WINDOW_BYTES,
      stores,
      storeReads,
      reads: 1 << Math.ceil(Math.log2(Math.max(1, storeReads * Math.max(1, stores)))),
      parts,
      partDescriptors,
      codedDescriptors: coded ? plan.codec.partDescriptors : 0,
    })),
  }
}

/** Blocks that an engine publishes and restores in phase two, at most: where no pool holds those of all, none gets them. */
const PROBE_BLOCKS = 2

/** What is coded takes less: a pool of as many blocks as without would never be full, nor lack room for what is refused. */
function poolBlocksOf({ sizes, codec, engines }: Plan): number {
  const least = Math.max(3, PROBE_BLOCKS * engines.length)
  return codec.unfitOneIn > 0 ? least : Math.max(least, 1 + Math.ceil(sizes.poolBlocks / 2))
}

/** What the shipped selection makes of the plan's settings, on a machine where cuFile is native and everything registers. */
function routesOf({ sizes, gpu }: Plan): SsdRoutes {
  if (!sizes.ssd || gpu.backend === 'none') return { ...MANAGER_DEFAULTS.routes, readRoute: sizes.readRoute }
  const auto = gpu.backend === 'auto'
  const report = { available: true, reason: 'ok', code: 0, version: 1160, compatible: !auto } as const
  const selection = selectSsd({
    settings: {
      backend: gpu.backend,
      readPath: gpu.backend === 'uring' && gpu.readPath === 'cufile' ? null : gpu.readPath,
      paths: 1,
    },
    cudaDevices: 1,
    kernelsFailure: null,
    shards: [{ path: '/sim/shard', bytes: PAGE_BYTES, filesystem: EXT4 }],
    cufile: { mode: auto ? 'native' : 'configured', report, registration: null, reservation: null },
  })
  must(selection.kind === 'routes', 'N2', () => `${JSON.stringify(gpu)} is answered by ${selection.kind}`)
  return selection as SsdRoutes
}

/** `coded`: every segment is a granule of its own. */
function largestBlockBytes(models: readonly Model[], coded: boolean): { dram: number; disk: number } {
  let dram = 0
  let disk = 0
  for (const { plan, segments: groups } of models) {
    for (const segments of groups) {
      disk = Math.max(disk, plan.ranks * segments.reduce((sum, { words }) => sum + paddedBytes(words), 0))
      dram = Math.max(dram, plan.ranks * (coded ? pagesOfEach(segments) : pagesOfRuns(segments)) * PAGE_BYTES)
    }
  }
  return { dram, disk }
}

/** At least what any granule has: a run of segments of one size, of one rank. */
function largestGranuleBytes(models: readonly Model[]): number {
  let most = 0
  for (const { segments: groups } of models) {
    for (const segments of groups) {
      let runBytes = 0
      for (const [index, { words }] of segments.entries()) {
        runBytes = segments[index - 1]?.words === words ? runBytes + paddedBytes(words) : paddedBytes(words)
        most = Math.max(most, runBytes)
      }
    }
  }
  return most
}

function paddedBytes(words: number): number {
  return alignUp(words * 4, SECTOR_BYTES)
}

/** Pool pages of one block on one rank, no segment of which is coded. */
function pagesOfEach(segments: readonly Segment[]): number {
  return segments.reduce((pages, { words }) => pages + Math.ceil(paddedBytes(words) / PAGE_BYTES), 0)
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
