import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { opening } from '../binding/errors.js'
import type { ShardReport } from '../binding/files.js'
import type { Native } from '../binding/surface.js'
import type { ShardPlace } from '../manager/storage/ports.js'
import type { ResolvedConfig } from './config.js'

/** The opened SSD tier: shards in order, and how many devices they lie on. */
export interface OpenShards {
  readonly places: readonly ShardPlace[]
  readonly reports: readonly (ShardReport & { readonly path: string })[]
  /** One host-reader and one writeback lane a device. */
  readonly stores: number
  close(): void
}

/** The paths of all shard files: one path with one shard is that file, otherwise each path is a folder of shards. */
export function shardPaths(paths: readonly string[], perPath: number): string[] {
  const single = paths[0]
  if (paths.length === 1 && perPath === 1 && single !== undefined && !isFolder(single)) return [single]
  return paths.flatMap((path, place) =>
    Array.from({ length: perPath }, (_, local) =>
      join(path, `shard-${String(place * perPath + local).padStart(6, '0')}.dat`),
    ),
  )
}

function isFolder(path: string): boolean {
  return opening('folder', () => statSync(path, { throwIfNoEntry: false }))?.isDirectory() === true
}

/**
 * Locks and creates every shard. What was opened before a failure is closed again.
 * @throws ConfigError already_running or path_refused, IoError io_open_failed
 */
export function openShards(native: Native, config: ResolvedConfig): OpenShards {
  const files: number[] = []
  const locks: number[] = []
  const close = () => {
    for (const file of files.splice(0)) native.closeShard(file)
    for (const lock of locks.splice(0)) native.unlockPath(lock)
  }
  const devices: string[] = []
  const places: ShardPlace[] = []
  const reports: (ShardReport & { readonly path: string })[] = []
  try {
    for (const path of shardPaths(config.ssdPaths, config.ssdShardsPerPath)) {
      opening('folder', () => mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 }))
      locks.push(opening('lock', () => native.lockPath(`${path}.lock`)))
      const report = opening('shard', () => native.openShard(path, config.shardBytes, true))
      files.push(report.file)
      if (!devices.includes(report.device)) devices.push(report.device)
      const store = devices.indexOf(report.device)
      places.push({ file: report.file, capacityBytes: config.shardBytes, store, writer: store })
      reports.push({ ...report, path })
    }
  } catch (error) {
    close()
    throw error
  }
  return { places, reports, stores: devices.length, close }
}
