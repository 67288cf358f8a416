import { invariant } from '../../shared/base/invariant.js'
import { isRefusal } from '../../shared/base/refusal.js'
import type { GroupSpec } from '../../shared/layout/regions.js'
import type { WireReply } from '../../shared/layout/wire/messages.js'
import { LEASES_FULL } from '../../shared/leases/lease-table.js'
import { best, boundaries } from '../../shared/planning/recovery.js'
import type { Context } from '../context.js'
import { forgetQuery } from './ending.js'
import type { GroupSpan } from './lease-records.js'
import { BLOCK, type Query } from './queries.js'

/** Blocks of each span that are usable from its start on. */
function usableCounts(query: Query): number[] {
  return query.spans.map((span) => {
    let count = 0
    while (count < span.count && query.blocks[span.first + count] === BLOCK.usable) count++
    return count
  })
}

/** What was found and not read is neither a hit nor a miss; what could not be read is a miss. */
function countRequest(context: Context, query: Query): void {
  for (const [i, span] of query.spans.entries()) {
    for (let k = 0; k < span.count; k++) {
      const block = query.blocks[span.first + k]
      if (block === BLOCK.failed) query.counts.failed()
      else if (block === BLOCK.unread) query.counts.unread((query.firstKeys[i] as number) + k, false)
    }
  }
  query.counts.count(context)
}

/** What was found of one group: `count` blocks from block `firstBlock` of the request on. */
export interface GroupCount {
  readonly kind: GroupSpec['kind']
  readonly firstBlock: number
  readonly count: number
  readonly blockTokens: number
}

/**
 * The largest boundary, at most `limitTokens`, at which every group allows the request to be resumed, and the blocks
 * of each group up to it. Blocks before firstBlock are the engine's own.
 */
export function commonBoundary(
  groups: readonly GroupCount[],
  limitTokens = Number.MAX_SAFE_INTEGER,
): { readonly tokens: number; readonly counts: readonly number[] } {
  const set = boundaries(
    groups.map(({ kind, blockTokens, firstBlock, count }) => ({
      kind,
      blockTokens,
      leadingBlocks: firstBlock + count,
    })),
  )
  invariant(!isRefusal(set), 'registration admits only kinds that can be recovered')
  const tokens = best(set, limitTokens)
  const counts = groups.map(({ firstBlock, count, blockTokens }) =>
    Math.max(0, Math.min(count, Math.floor(tokens / blockTokens) - firstBlock)),
  )
  return { tokens, counts }
}

/** Answers a query that waits for nothing any more: its entries become a lease, or it was a miss after all. */
export function answerQuery(context: Context, query: Query): WireReply {
  const { seal } = query.instance
  const usable = usableCounts(query)
  countRequest(context, query)
  const { tokens, counts } = commonBoundary(
    query.spans.map((span, i) => ({
      kind: seal.geometry.groups[span.group]?.kind ?? 'full-attention',
      firstBlock: query.firstBlocks[i] as number,
      count: usable[i] as number,
      blockTokens: seal.geometry.groups[span.group]?.blockTokens ?? 1,
    })),
  )
  const kept: number[] = []
  let blocksDram = 0
  const spans: GroupSpan[] = []
  let bytes = 0
  for (const [i, span] of query.spans.entries()) {
    const count = counts[i] as number
    spans.push({ group: span.group, first: kept.length, count })
    for (let k = 0; k < span.count; k++) {
      const entry = query.entries[span.first + k] as number
      if (k < count) {
        kept.push(entry)
        blocksDram += query.foundInDram[span.first + k] as number
        bytes += context.storage.geometryOf(entry).extentBytes
      } else context.storage.drop(entry)
    }
  }
  forgetQuery(context, query)
  if (kept.length === 0) {
    query.reservation.release()
    return { kind: 'miss' }
  }
  // One entry may stand for several keys of a group that repeats them: never more than was reserved.
  query.reservation.shrink(Math.min(bytes, query.reservation.bytes))
  query.reservation.enter('ready')
  for (const entry of kept) context.storage.returned(entry)
  return grantLease(context, query, spans, Int32Array.from(kept), tokens, blocksDram)
}

/** The entries are held once for the lease; the lease table drops them when it ends. */
function grantLease(
  context: Context,
  query: Query,
  spans: readonly GroupSpan[],
  entries: Int32Array,
  tokens: number,
  blocksDram: number,
): WireReply {
  const { instance, session, reservation } = query
  const expiresUs = context.nowUs + context.options.leaseUs
  const lease = context.leases.grant({ instance: instance.number, entries, ranks: instance.worldSize, expiresUs })
  if (lease === LEASES_FULL) {
    for (const entry of entries) context.storage.drop(entry)
    reservation.release()
    return { kind: 'busy' }
  }
  context.leaseRecords.add({ lease, instance: instance.number, session, spans, entries, reservation })
  session.leases.add(lease)
  return {
    kind: 'ready',
    boundaries: Uint32Array.of(tokens),
    lease,
    blocksDram,
    blocksSsd: entries.length - blocksDram,
    expiresInMs: Math.floor(context.options.leaseUs / 1000),
  }
}
