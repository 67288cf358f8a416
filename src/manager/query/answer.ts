import type { WireReply } from '../../shared/layout/wire/messages.js'
import { LEASES_FULL } from '../../shared/leases/lease-table.js'
import type { Context } from '../context.js'
import { forgetQuery } from './ending.js'
import type { Query } from './queries.js'
import { boundariesOf, refreshBlocks } from './selection.js'

/** Answers a query that waits for nothing any more: what it selected becomes a lease, or it was a miss after all. */
export function answerQuery(context: Context, query: Query): WireReply {
  const { storage } = context
  const { selection, reservation } = query
  forgetQuery(context, query)
  query.counts.count(context)
  if (selection.entries.length === 0) {
    reservation.release()
    return { kind: 'miss' }
  }
  reservation.enter('ready')
  for (const entry of selection.entries) storage.returned(entry)
  refreshBlocks(storage, query.found, selection, query.allowSsd)
  return grantLease(context, query)
}

/** The entries are held once for the lease; the lease table drops them when it ends. */
function grantLease(context: Context, query: Query): WireReply {
  const { instance, session, selection, reservation } = query
  const { spans, entries, blocksDram } = selection
  const expiresUs = context.nowUs + context.options.leaseUs
  const lease = context.leases.grant({ instance: instance.number, entries, ranks: instance.worldSize, expiresUs })
  if (lease === LEASES_FULL) {
    for (const entry of entries) context.storage.drop(entry)
    reservation.release()
    return { kind: 'busy' }
  }
  context.leaseRecords.add({ lease, instance: instance.number, session, spans, entries, reservation })
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
