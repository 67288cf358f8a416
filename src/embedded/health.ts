import type { RunningManager } from '../control/manager-process.js'
import type { ReadRoute } from '../shared/routing/ssd-selection.js'

/** What a runtime runs on, and in which state it is. Plain: it can be posted and printed. */
export interface Health {
  /** `died`: a lane ended unasked; everything was rejected. */
  readonly status: 'serving' | 'draining' | 'closed' | 'died'
  /** Random of this start; below 2^53. */
  readonly epoch: number
  readonly io: 'uring' | 'posix'
  readonly readRoute: ReadRoute
  readonly pool: { readonly bytes: number; readonly hugePageBytes: number }
  readonly shards: readonly { readonly path: string; readonly bytes: number; readonly device: string }[]
}

export function healthOf(manager: RunningManager, status: Health['status']): Health {
  const { epoch, io, routes, pool, shards } = manager.report
  return {
    status,
    epoch,
    io,
    readRoute: routes?.readRoute ?? 'dram',
    pool: { bytes: pool.bytes, hugePageBytes: pool.hugePageBytes },
    shards: shards.map(({ path, bytes, device }) => ({ path, bytes, device })),
  }
}
