import { legalBoundaries } from '../../shared/planning/recovery.js'
import type { Context } from '../context.js'
import { failBlock } from './found-blocks.js'
import type { Query } from './queries.js'
import { refreshBlocks, selectBlocks } from './selection.js'

/**
 * Reads what the query's boundary needs and DRAM does not have. A block that cannot be read takes away the boundaries
 * that need it and no others: the query goes on with the largest one that is left, or ends without any.
 */
export function readSelection(context: Context, query: Query): void {
  while (!startFills(context, query)) fallBack(context, query)
}

/** A read that the query waited for has ended. */
export function queryFilled(context: Context, ticket: number, entry: number, ok: boolean): void {
  const query = context.queries.get(ticket)
  if (query === undefined || !query.waiting.delete(entry) || ok) return
  failBlock(query.found, entry)
  fallBack(context, query)
  readSelection(context, query)
}

/** False: a block of the selection cannot be read; those after it were not asked for. */
function startFills(context: Context, query: Query): boolean {
  for (const entry of query.selection.entries) {
    if (query.waiting.has(entry)) continue
    const outcome = context.storage.fill(entry, query.ticket)
    if (outcome === 'started' || outcome === 'joined') query.waiting.add(entry)
    else if (outcome !== 'resident') {
      failBlock(query.found, entry)
      return false
    }
  }
  return true
}

/** Holds what the next smaller boundary needs, then lets go of what it does not. Its charge never rises. */
function fallBack(context: Context, query: Query): void {
  const { storage } = context
  const { found, selection, waiting } = query
  refreshBlocks(storage, found, selection, query.allowSsd)
  const tokens = legalBoundaries(found, selection.tokens).at(-1) ?? 0
  const next = selectBlocks(found, tokens)
  for (const entry of next.entries) storage.hold(entry)
  query.selection = next
  const needed = new Set(next.entries)
  for (const entry of waiting) {
    if (needed.has(entry)) continue
    waiting.delete(entry)
    storage.cancelFill(entry, query.ticket)
  }
  for (const entry of selection.entries) storage.drop(entry)
  query.instance.budget.refund(selection.bytes - next.bytes)
}
