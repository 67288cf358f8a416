import { invariant } from '../../shared/base/invariant.js'
import { isRefusal } from '../../shared/base/refusal.js'
import type { GroupSpec } from '../../shared/layout/regions.js'
import type { WireReply } from '../../shared/layout/wire/messages.js'
import { LEASES_FULL } from '../../shared/leases/lease-table.js'
import { best, boundaries } from '../../shared/planning/recovery.js'
import type { Context } from '../context.js'
import { forgetQuery } from './ending.js'
import type { GroupSpan } from './lease-records.js'
import type { Query } from './queries.js'

/** Blocks of each span that are usable from its start on. */
function usableCounts(query: Query): number[] {
  return query.spans.map((span) => {
    let count = 0
    while (count < span.count && query.usable[span.first + count] === 1) count++
    return count
  })
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
  const seal = query.instance.seal
  const usable = usableCounts(query)
  const { tokens, counts } = commonBoundary(
    query.spans.map((span, i) => ({
      kind: seal?.geometry.groups[span.group]?.kind ?? 'full-attention',
      firstBlock: query.firstBlocks[i] as number,
      count: usable[i] as number,
      blockTokens: seal?.geometry.groups[span.group]?.blockTokens ?? 1,
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
  query.instance.budget.refund(query.bytes - bytes)
  if (kept.length === 0) return { kind: 'miss' }
  return grantLease(context, query, spans, Int32Array.from(kept), bytes, tokens, blocksDram)
}

/** The entries are held once for the lease; the lease table drops them when it ends. */
function grantLease(
  context: Context,
  query: Query,
  spans: readonly GroupSpan[],
  entries: Int32Array,
  bytes: number,
  tokens: number,
  blocksDram: number,
): WireReply {
  const { instance, session } = query
  const expiresUs = context.nowUs + context.options.leaseUs
  const lease = context.leases.grant({ instance: instance.number, entries, ranks: instance.worldSize, expiresUs })
  if (lease === LEASES_FULL) {
    for (const entry of entries) context.storage.drop(entry)
    instance.budget.refund(bytes)
    return { kind: 'busy' }
  }
  context.leaseRecords.add({ lease, instance: instance.number, session, spans, entries, bytes })
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
