import type { Context } from '../context.js'
import { drain } from './draining.js'
import type { Query } from './queries.js'

/**
 * Ends a query without an answer: its interests drop now, its bytes stay charged until what it submitted has drained.
 * Reads that nobody else waits for still land and stay as cache.
 */
export function endQuery(context: Context, query: Query): void {
  context.queries.delete(query.ticket)
  query.session.queries.delete(query.requestId)
  giveUp(context, query)
}

/** Interests, reads and reservation of a query or preparation that is in no table any more. */
export function giveUp(context: Context, query: Query): void {
  drain(context, query.reads, query.reservation)
  for (const entry of query.selection.entries) context.storage.drop(entry)
}

/** Takes an answered query out of the tables; what it holds and charges is the caller's now. */
export function forgetQuery(context: Context, query: Query): void {
  context.queries.delete(query.ticket)
  query.session.queries.delete(query.requestId)
  query.reservation.retain()
  drain(context, query.reads, query.reservation, query.selection.bytes)
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
  record.reservation.release()
}
