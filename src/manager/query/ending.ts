import type { Context } from '../context.js'
import type { Query } from './queries.js'

/** Ends a query: its interests drop, fills that nobody else waits for still land and stay as cache. */
export function endTicket(context: Context, ticket: number): void {
  const query = context.queries.get(ticket)
  if (query === undefined) return
  for (const entry of query.waiting) context.storage.cancelFill(entry, ticket)
  for (const entry of query.selection.entries) context.storage.drop(entry)
  forgetQuery(context, query)
  query.instance.budget.refund(query.selection.bytes)
}

/** Takes a query out of the tables; what it holds and charges is the caller's now. */
export function forgetQuery(context: Context, query: Query): void {
  context.queries.delete(query.ticket)
  query.session.queries.delete(query.requestId)
}

/** Takes a lease back. The lease table drops every entry; restores that redeemed it hold their own. Idempotent. */
export function endLease(context: Context, lease: number): void {
  const record = context.leaseRecords.get(lease)
  if (record === undefined) return
  context.leases.release(lease, record.instance)
  leaseEnded(context, lease)
}

/** The lease table ended a lease (last redemption, expiry): its charge and record end too. */
export function leaseEnded(context: Context, lease: number): void {
  const record = context.leaseRecords.get(lease)
  if (record === undefined) return
  context.leaseRecords.delete(lease)
  record.session.leases.delete(lease)
  for (const instance of context.instances) {
    if (instance.number === record.instance) instance.budget.refund(record.bytes)
  }
}
