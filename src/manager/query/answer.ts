import type { WireReply } from '../../shared/layout/wire/messages.js'
import { LEASES_FULL } from '../../shared/leases/lease-table.js'
import type { Context } from '../context.js'
import { forgetQuery } from './ending.js'
import type { Query } from './queries.js'
import { boundariesOf, refreshBlocks } from './selection.js'

/** Answers a query that waits for nothing any more: what it selected becomes a lease, or it was a miss after all. */
export function answerQuery(context: Context, query: Query): WireReply {
  forgetQuery(context, query)
  if (query.selection.entries.length === 0) return { kind: 'miss' }
  refreshBlocks(context.storage, query.found, query.selection, query.allowSsd)
  return grantLease(context, query)
}

/** The entries are held once for the lease; the lease table drops them when it ends. */
function grantLease(context: Context, query: Query): WireReply {
  const { instance, session, selection } = query
  const { spans, entries, bytes, blocksDram } = selection
  const expiresUs = context.nowUs + context.options.leaseUs
  const lease = context.leases.grant({ instance: instance.number, entries, ranks: instance.worldSize, expiresUs })
  if (lease === LEASES_FULL) {
    for (const entry of entries) context.storage.drop(entry)
    instance.budget.refund(bytes)
    return { kind: 'busy' }
  }
  context.leaseRecords.add({ lease, instance: instance.number, session, spans, entries, bytes })
  session.leases.add(lease)
  const { served, others } = boundariesOf(query.found, selection)
  return {
    kind: 'ready',
    boundaries: served,
    otherBoundaries: others,
    lease,
    blocksDram,
    blocksSsd: entries.length - blocksDram,
    expiresInMs: Math.floor(context.options.leaseUs / 1000),
  }
}
