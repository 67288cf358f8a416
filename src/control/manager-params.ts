import { randomBytes } from 'node:crypto'
import type { ManagerParams } from '../manager/params.js'
import { SECTOR_BYTES } from '../shared/base/units.js'
import { managerOptions } from './config.js'
import type { OpenShards } from './shards.js'
import type { Memory, StartReport } from './start-report.js'

/** What cuFile may use is laid out in whole pages of the filesystem. */
const CUFILE_EXTENT_BYTES = 4096

/** Rows of the directory: an entry of 64 bytes for every 4 KiB of the tiers, within bounds. */
const ENTRIES_MIN = 1 << 16
const ENTRIES_MAX = 1 << 26

/** What the manager worker is started with. */
export function managerParams(
  { config, devices, staging, routes, epoch }: StartReport,
  memory: Memory,
  shards: OpenShards,
  uids: readonly number[],
): ManagerParams {
  const seed = randomBytes(8)
  const tierBytes = config.poolBytes + (shards.stores > 0 ? config.ssdCapacityBytes : 0)
  return {
    io: config.io,
    pool: memory.report.pool,
    socketPath: config.socketPath,
    options: { ...managerOptions(config, devices, routes, epoch, uids), staging },
    storage: {
      poolBytes: memory.windowOffsetBytes,
      entriesMax: Math.min(ENTRIES_MAX, Math.max(ENTRIES_MIN, Math.ceil(tierBytes / 4096))),
      directorySeed: [seed.readUInt32LE(0), seed.readUInt32LE(4)],
      shards: shards.places,
      extentAlignmentBytes: routes?.backend === 'cufile' ? CUFILE_EXTENT_BYTES : SECTOR_BYTES,
      writeQueueBytesMax: config.writeQueueBytes,
      writeWindowBytes: config.writeInFlightBytes,
      writeWindowBytesMin: Math.min(config.writeInFlightBytes, 4 << 20),
      writeWindowRestoreUs: 5_000,
      writePolicy: config.writePolicy,
      cache: {
        protectedBytesMax: Math.floor((memory.windowOffsetBytes * config.cacheProtectedPercent) / 100),
        lfuAdmission: config.lfuAdmission,
      },
      assemblyAgeUsMax: 60_000_000,
    },
    stores: shards.stores,
  }
}
