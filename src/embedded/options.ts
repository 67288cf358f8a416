import type { LaneDeath } from '../actors/runtime/spawn.js'
import { type ManagerConfig, POLICY_DEFAULTS } from '../control/config.js'
import type { DeviceChoice } from '../control/devices.js'
import { ConfigError } from '../shared/base/errors.js'
import { CODEC_BUDGET_BYTES, type CodecName } from '../shared/codec/setting.js'

/** The SSD tier of a runtime. */
export interface SsdOptions {
  /** One file, or folders of shard files; created, never shared with another runtime or Manager. */
  readonly paths: readonly string[]
  /** Bytes of all shards together. */
  readonly capacityBytes: number
  /** Shard files in each folder; 1 unless given. */
  readonly shardsPerPath?: number
  /** Bytes of pages that may wait for their write; a quarter of the pool unless given. */
  readonly writeQueueBytes?: number
  /** Bytes of writes in flight at once; 16 MiB a device unless given. */
  readonly writeInFlightBytes?: number
}

/** What a runtime is opened with. Bytes are plain numbers below 2^53. */
export interface OpenOptions {
  /** Pinned DRAM, whole MiB, populated at once. */
  readonly poolBytes: number
  /** None: pages live in DRAM alone. */
  readonly ssd?: SsdOptions
  /**
   * How pages on SSD come back; unless given, as `ssdBackend` reads. `dram`: read into the pool during the query, as
   * io_uring does by itself. `uring`: leased during the
   * query, and read during the restore into a window that leaves the pool's content alone. `cufile`: leased, and read
   * during the restore through registered memory of the device; needs `ssdBackend` auto or cufile.
   */
  readonly readRoute?: 'dram' | 'uring' | 'cufile'
  /** Which I/O capability the SSD tier starts, as --ssd-backend says; `uring` unless given: cuFile is never looked for. */
  readonly ssdBackend?: 'auto' | 'uring' | 'cufile'
  /** CUDA devices whose pages engines may register, as --devices says; `none` unless given. */
  readonly devices?: DeviceChoice
  /**
   * How pages are stored in DRAM and on SSD; `none` unless given. `ans` is exact and needs a CUDA device with nvCOMP 5.3.
   * `fp8`, `turboquant-4` and `turboquant-3` lose precision: experimental, their effect on answers is not qualified.
   */
  readonly storageCodec?: CodecName
  /** Device memory that the codec of each worker may keep, for each direction; 64 MiB unless given. */
  readonly storageCodecBudgetBytes?: number
  /** `posix` for hosts that forbid io_uring; `uring` unless given. */
  readonly io?: 'uring' | 'posix'
  /** Bytes that all open queries may reserve; three quarters of the pool unless given. */
  readonly queryBudgetBytes?: number
  /** The same for one engine; all of it unless given. */
  readonly queryInstanceBudgetBytes?: number
  /** How long what a query found is kept for its restore, milliseconds; 30,000 unless given. */
  readonly leaseMs?: number
  /** Also serves engines of other processes on this socket, in a folder that is private to this user. */
  readonly socketPath?: string
  /** Users besides this one whose processes may connect to it. */
  readonly allowUids?: readonly number[]
  /**
   * A lane ended unasked: a bug, or a broken device. Called once, after everything of the runtime was rejected and its
   * threads have ended. Without it the process ends by an uncaught error.
   */
  readonly onDeath?: (death: LaneDeath) => void
  /** Ends the opening: what has started is ended again. */
  readonly signal?: AbortSignal
}

const MIB = 1024 * 1024

/** The Manager's configuration of a runtime. @throws ConfigError config_conflict */
export function configOf(options: OpenOptions): ManagerConfig {
  const { ssd, ssdBackend = 'uring', readRoute } = options
  if (readRoute === 'dram' && ssdBackend !== 'uring') {
    throw new ConfigError(
      'config_conflict',
      `Cannot read into DRAM with ssdBackend '${ssdBackend}', which may read by cuFile: leave readRoute unset, or name uring`,
      { readRoute, ssdBackend },
    )
  }
  return {
    io: options.io ?? 'uring',
    poolBytes: options.poolBytes,
    socketPath: options.socketPath ?? null,
    allowUids: options.allowUids ?? [],
    ssdPaths: ssd?.paths ?? [],
    ssdCapacityBytes: ssd?.capacityBytes ?? 0,
    ssdShardsPerPath: ssd?.shardsPerPath ?? 1,
    ssdBackend: ssd === undefined ? null : ssdBackend,
    ssdReadPath: readRoute === undefined || readRoute === 'dram' ? null : readRoute,
    devices: options.devices ?? 'none',
    codec: { name: options.storageCodec ?? 'none' },
    codecBudgetBytes: options.storageCodecBudgetBytes ?? CODEC_BUDGET_BYTES,
    queryBudgetBytes: options.queryBudgetBytes ?? null,
    queryInstanceBudgetBytes: options.queryInstanceBudgetBytes ?? null,
    ...POLICY_DEFAULTS,
    leaseUs: (options.leaseMs ?? 30_000) * 1000,
    writeQueueBytes: ssd?.writeQueueBytes ?? null,
    writeInFlightBytes: ssd?.writeInFlightBytes ?? 16 * MIB,
  }
}
