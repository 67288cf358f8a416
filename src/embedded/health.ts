import type { RunningManager } from '../control/manager-process.js'
import type { RoutesNow } from '../control/ssd-status.js'

/** What a runtime runs on, and in which state it is. Plain: it can be posted and printed. */
export interface Health {
  /** `died`: a lane ended unasked; everything was rejected. */
  readonly status: 'serving' | 'draining' | 'closed' | 'died'
  /** Random of this start; below 2^53. */
  readonly epoch: number
  readonly io: 'uring' | 'posix'
  /** Where new reads go that need the SSD; `dram` without one. `unavailable`: a named route failed, such blocks are misses. */
  readonly readRoute: RoutesNow['readRoute']
  /** Where new work of the SSD tier goes and why; null without one. */
  readonly ssd: (RoutesNow & { readonly reason: string }) | null
  readonly pool: { readonly bytes: number; readonly hugePageBytes: number }
  readonly shards: readonly { readonly path: string; readonly bytes: number; readonly device: string }[]
}

export function healthOf(manager: RunningManager, status: Health['status']): Health {
  const { epoch, io, pool, shards } = manager.report
  const { ssd } = manager
  return {
    status,
    epoch,
    io,
    readRoute: ssd?.now.readRoute ?? 'dram',
    ssd: ssd === null ? null : { ...ssd.now, reason: (ssd.failure ?? ssd.selected).reason },
    pool: { bytes: pool.bytes, hugePageBytes: pool.hugePageBytes },
    shards: shards.map(({ path, bytes, device }) => ({ path, bytes, device })),
  }
}
