import type { DeviceName } from '../shared/base/device-name.js'
import type { ReuseWindow } from '../shared/cache/reuse-windows.js'
import { CODEC_BUDGET_BYTES, type CodecSetting, NO_CODEC } from '../shared/codec/setting.js'
import type { SsdRoutes } from '../shared/routing/ssd-selection.js'
import { HOST_DEVICE, type ServedDevice } from './lanes/served-device.js'

/** What the Manager's machine is told once, at start. Bytes are powers-of-two units already resolved to numbers. */
export interface ManagerOptions {
  /** Random per start; clients compare it to notice a restart. Below 2^53. */
  readonly epoch: number
  /** Users whose processes may connect. */
  readonly uids: readonly number[]
  /** Devices that engine pages may lie on; the host is the first. */
  readonly devices: readonly ServedDevice[]
  /** Process of this Manager: its own sessions may register memory that is mapped here already. 0: none may. */
  readonly ownPid: number
  /** True when an SSD tier is open. */
  readonly ssd: boolean
  /** Devices with an ssd-worker lane: none without the cuFile backend. */
  readonly staging: readonly DeviceName[]
  /** How pages are stored. */
  readonly codec: CodecSetting
  /** Device memory that the codec of one worker may hold, for each direction. */
  readonly codecBudgetBytes: number
  /** How the SSD tier is read and written; the machine's route switch begins with it. */
  readonly routes: SsdRoutes
  /** Bytes that all open queries and leases together may reserve. */
  readonly queryBudgetBytes: number
  /** The same for one instance. */
  readonly queryInstanceBudgetBytes: number
  /** Bytes of SSD reads that one query submits at once; 0: all of them. */
  readonly queryReadBatchBytes: number
  /** Batches after which a query reads nothing more and answers with what it has; 0: no bound. */
  readonly queryReadBatchesMax: number
  /** After this time a query reads nothing more and answers a miss, microseconds; 0: no bound. */
  readonly queryReadTimeoutUs: number
  /** How long a preparation lives without a poll or a claim, microseconds. */
  readonly prepareUs: number
  readonly preparationsPerSessionMax: number
  /** How long a hint may go on reading, microseconds. */
  readonly warmUs: number
  readonly warmingsPerSessionMax: number
  readonly warmingsMax: number
  /** Windows over which reuse is estimated, microseconds each, with the name that metrics give it. Empty: none. */
  readonly reuseWindows: readonly ReuseWindow[]
  /** Registers of one sketch of a window: 2 to this power. */
  readonly reuseRegisterBits: number
  /** How long a READY lease lives unless it is renewed, microseconds. */
  readonly leaseUs: number
  /** How long a query may stay unanswered before its interests are taken back, microseconds. */
  readonly queryUs: number
  /** How long a publication may wait for DRAM before it fails with capacity_pool, microseconds. */
  readonly publishWaitUs: number
  readonly sessionsMax: number
  readonly instancesMax: number
  readonly queriesPerSessionMax: number
  readonly queriesMax: number
  readonly keysPerQueryMax: number
  readonly slotsPerSessionMax: number
  /** Descriptors in one record to a lane; a larger job travels as several records. */
  readonly descriptorsPerRecordMax: number
  /** Bytes of one publication that are copied before the next part of it starts. */
  readonly publishPartBytes: number
}

/** Without an SSD tier, or with io_uring and no pinned read route. */
const DRAM_ROUTES: SsdRoutes = {
  kind: 'routes',
  backend: 'uring',
  readRoute: 'dram',
  writeRoute: 'uring',
  readsPinned: false,
  readsFallBack: false,
  writesFallBack: false,
  fellBack: false,
  evidence: null,
  reason: 'default',
  cause: 'chosen',
}

/** The defaults that the process and the embedded runtime share; what depends on the pool is filled in by them. */
export const MANAGER_DEFAULTS = {
  devices: [HOST_DEVICE],
  staging: [],
  ownPid: 0,
  codec: NO_CODEC,
  codecBudgetBytes: CODEC_BUDGET_BYTES,
  routes: DRAM_ROUTES,
  queryReadBatchBytes: 0,
  queryReadBatchesMax: 0,
  queryReadTimeoutUs: 0,
  prepareUs: 1_000_000,
  preparationsPerSessionMax: 4,
  warmUs: 5_000_000,
  warmingsPerSessionMax: 16,
  warmingsMax: 128,
  reuseWindows: [
    { name: '15m', us: 900_000_000 },
    { name: '1h', us: 3_600_000_000 },
    { name: '1d', us: 86_400_000_000 },
  ],
  reuseRegisterBits: 16,
  leaseUs: 30_000_000,
  queryUs: 60_000_000,
  publishWaitUs: 5_000_000,
  sessionsMax: 64,
  instancesMax: 64,
  queriesPerSessionMax: 128,
  queriesMax: 1024,
  keysPerQueryMax: 16_384,
  slotsPerSessionMax: 1024,
  descriptorsPerRecordMax: 512,
  publishPartBytes: 16 * 1024 * 1024,
} as const
