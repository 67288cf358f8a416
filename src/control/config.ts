import type { ServedDevice } from '../manager/lanes/served-device.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../manager/options.js'
import type { WritePolicyName } from '../manager/storage/ports.js'
import { ConfigError } from '../shared/base/errors.js'
import { alignDown, MIB, SECTOR_BYTES } from '../shared/base/units.js'
import type { ReuseWindow } from '../shared/cache/reuse-windows.js'
import {
  CODEC_BUDGET_BYTES_MAX,
  CODEC_BUDGET_BYTES_MIN,
  CODEC_NAMES,
  type CodecSetting,
} from '../shared/codec/setting.js'
import { type SsdRoutes, type SsdSettings, selectSsd } from '../shared/routing/ssd-selection.js'
import type { DeviceChoice } from './devices.js'

/** What a Manager is started with, in units of the machine: bytes and microseconds. */
export interface ManagerConfig {
  readonly io: 'uring' | 'posix'
  readonly poolBytes: number
  /** null: nothing listens. */
  readonly socketPath: string | null
  /** Users besides this one whose processes may connect. */
  readonly allowUids: readonly number[]
  /** Empty: no SSD tier. */
  readonly ssdPaths: readonly string[]
  readonly ssdCapacityBytes: number
  readonly ssdShardsPerPath: number
  /** Which I/O capability the SSD tier starts; null is auto. */
  readonly ssdBackend: SsdSettings['backend']
  /** Pins the route of demand reads; null: the backend decides. */
  readonly ssdReadPath: SsdSettings['readPath']
  /** CUDA devices whose pages may be registered. */
  readonly devices: DeviceChoice
  /** How pages are stored in both tiers. */
  readonly codec: CodecSetting
  /** Device memory that the codec of each lane may keep, for each direction. */
  readonly codecBudgetBytes: number
  readonly queryBudgetBytes: number | null
  readonly queryInstanceBudgetBytes: number | null
  /** Bytes of SSD reads that one query submits at once; 0: all of them. */
  readonly queryReadBatchBytes: number
  /** Microseconds; 0: no bound. */
  readonly queryReadTimeoutUs: number
  /** Batches of one query; 0: no bound. */
  readonly queryReadBatchesMax: number
  readonly leaseUs: number
  readonly writePolicy: WritePolicyName
  /** Part of the pool that the protected segment may use; 0: none. */
  readonly cacheProtectedPercent: number
  readonly lfuAdmission: boolean
  readonly reuseWindows: readonly ReuseWindow[]
  readonly reuseRegisterBits: number
  readonly writeQueueBytes: number | null
  readonly writeInFlightBytes: number
  /** Microseconds that a lane looks again before it sleeps; null: as spinUsOf decides. */
  readonly laneSpinUs: number | null
}

/** Policies that an embedder does not choose: everything is read at once, everything may be written, plain LRU. */
export const POLICY_DEFAULTS = {
  queryReadBatchBytes: MANAGER_DEFAULTS.queryReadBatchBytes,
  queryReadTimeoutUs: MANAGER_DEFAULTS.queryReadTimeoutUs,
  queryReadBatchesMax: MANAGER_DEFAULTS.queryReadBatchesMax,
  writePolicy: 'all',
  cacheProtectedPercent: 0,
  lfuAdmission: false,
  reuseWindows: MANAGER_DEFAULTS.reuseWindows,
  reuseRegisterBits: MANAGER_DEFAULTS.reuseRegisterBits,
  laneSpinUs: null,
} as const satisfies Partial<ManagerConfig>

/** What was derived from a configuration and checked. */
export interface ResolvedConfig extends ManagerConfig {
  readonly shardBytes: number
  readonly queryBudgetBytes: number
  readonly queryInstanceBudgetBytes: number
  readonly writeQueueBytes: number
}

/** The default window of the explicit route, and its share of a small pool. */
const WINDOW_BYTES = 64 * MIB
const WINDOW_POOL_SHARE = 8
const WINDOW_BYTES_MIN = 4 * MIB

/**
 * Fills in what depends on other values and refuses what cannot work, with the values and the remedy.
 * @throws ConfigError config_conflict or config_bad_value
 */
export function resolveConfig(config: ManagerConfig): ResolvedConfig {
  const { ssdPaths, ssdCapacityBytes, ssdShardsPerPath } = config
  const poolBytes = alignDown(config.poolBytes, MIB)
  const shards = Math.max(1, ssdPaths.length) * ssdShardsPerPath
  const shardBytes = alignDown(Math.floor(ssdCapacityBytes / shards), SECTOR_BYTES)
  if (ssdPaths.length > 0 && shardBytes < MIB) {
    throw new ConfigError(
      'config_bad_value',
      `Cannot cut ${ssdCapacityBytes} bytes into ${shards} shards: each needs at least ${MIB}; raise --ssd-cache-capacity`,
      { capacityBytes: ssdCapacityBytes, shards },
    )
  }
  const selection = selectSsd({ ...NOTHING_KNOWN, settings: ssdSettings(config) })
  if (selection.kind === 'refused' && selection.code === 'config_conflict') {
    throw new ConfigError(selection.code, selection.message, selection.values)
  }
  checkCodec(config)
  if (config.queryReadBatchesMax > 0 && config.queryReadBatchBytes === 0) {
    throw new ConfigError(
      'config_conflict',
      'Cannot use --query-read-max-batches without batches: give --query-read-batch',
      { batchesMax: config.queryReadBatchesMax },
    )
  }
  if (config.writePolicy !== 'all' && ssdPaths.length === 0) {
    throw new ConfigError('config_conflict', 'Cannot use --ssd-write-policy without an SSD tier: give --ssd-cache-path')
  }
  const queryBudgetBytes = config.queryBudgetBytes ?? Math.floor(poolBytes * 0.75)
  const instanceBytes = config.queryInstanceBudgetBytes ?? queryBudgetBytes
  if (config.ssdReadPath === null && queryBudgetBytes > poolBytes) {
    throw new ConfigError(
      'config_conflict',
      `Cannot reserve ${queryBudgetBytes} bytes for queries in a pool of ${poolBytes}: lower --query-budget`,
      { queryBudgetBytes, poolBytes },
    )
  }
  if (instanceBytes > queryBudgetBytes) {
    throw new ConfigError(
      'config_conflict',
      `Cannot give one instance ${instanceBytes} bytes of a query budget of ${queryBudgetBytes}: lower --query-instance-budget`,
      { instanceBytes, queryBudgetBytes },
    )
  }
  const writeQueueBytes = config.writeQueueBytes ?? Math.floor(poolBytes / 4)
  if (writeQueueBytes > poolBytes) {
    throw new ConfigError(
      'config_conflict',
      `Cannot keep ${writeQueueBytes} bytes of a pool of ${poolBytes} for writes: lower --ssd-write-queue`,
      { writeQueueBytes, poolBytes },
    )
  }
  return {
    ...config,
    poolBytes,
    shardBytes,
    queryBudgetBytes,
    queryInstanceBudgetBytes: instanceBytes,
    writeQueueBytes,
  }
}

/** What flags refuse already, for who calls from a program. */
function checkCodec({ codec, codecBudgetBytes }: ManagerConfig): void {
  if (!CODEC_NAMES.includes(codec.name)) {
    throw new ConfigError(
      'config_bad_value',
      `Cannot use storage codec '${codec.name}': one of ${CODEC_NAMES.join(', ')} is expected`,
      { codec: codec.name },
    )
  }
  const [min, max] = [CODEC_BUDGET_BYTES_MIN, CODEC_BUDGET_BYTES_MAX]
  if (Number.isSafeInteger(codecBudgetBytes) && codecBudgetBytes >= min && codecBudgetBytes <= max) return
  throw new ConfigError(
    'config_bad_value',
    `Cannot give the storage codec ${codecBudgetBytes} bytes: ${min} to ${max} are expected`,
    { codecBudgetBytes },
  )
}

/** What the operator said of the SSD tier. */
export function ssdSettings(config: ManagerConfig): SsdSettings {
  return {
    backend: config.ssdBackend,
    readPath: config.ssdReadPath,
    paths: config.ssdPaths.length,
  }
}

/** Contradictions of flags show before anything is known of the host. */
const NOTHING_KNOWN = { cudaDevices: 0, kernelsFailure: null, shards: [], cufile: null } as const

/**
 * Bytes of the pool that the host-restore lane of each device reads into, whole MiB: an eighth of the pool for all.
 * @throws ConfigError config_conflict when the windows would leave less than half of the pool.
 */
export function windowBytesOf(poolBytes: number, devices: number): number {
  const share = Math.floor(poolBytes / WINDOW_POOL_SHARE / devices)
  const windowBytes = alignDown(Math.max(WINDOW_BYTES_MIN, Math.min(WINDOW_BYTES, share)), MIB)
  if (devices === 1 || devices * windowBytes <= poolBytes / 2) return windowBytes
  throw new ConfigError(
    'config_conflict',
    `Cannot restore to ${devices} devices with a pool of ${poolBytes} bytes: each needs a window of ${windowBytes}; raise --pool-size or name fewer --devices`,
    { devices, poolBytes, windowBytes },
  )
}

/** The machine's options of a configuration. */
export function managerOptions(
  config: ResolvedConfig,
  devices: readonly ServedDevice[],
  routes: SsdRoutes | null,
  epoch: number,
  uids: readonly number[],
): ManagerOptions {
  return {
    ...MANAGER_DEFAULTS,
    ownPid: process.pid,
    epoch,
    uids,
    ssd: config.ssdPaths.length > 0,
    devices,
    codec: config.codec,
    codecBudgetBytes: config.codecBudgetBytes,
    routes: routes ?? MANAGER_DEFAULTS.routes,
    queryBudgetBytes: config.queryBudgetBytes,
    queryInstanceBudgetBytes: config.queryInstanceBudgetBytes,
    leaseUs: config.leaseUs,
    queryReadBatchBytes: config.queryReadBatchBytes,
    queryReadBatchesMax: config.queryReadBatchesMax,
    queryReadTimeoutUs: config.queryReadTimeoutUs,
    reuseWindows: config.reuseWindows,
    reuseRegisterBits: config.reuseRegisterBits,
  }
}
