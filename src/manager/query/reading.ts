import { legalBoundaries } from '../../shared/planning/recovery.js'
import { READ_EVERYTHING, type ReadLimits } from '../../shared/scheduling/read-turns.js'
import type { Context } from '../context.js'
import type { BlockEnd } from './block-reads.js'
import { type FoundBlocks, failBlock } from './found-blocks.js'
import type { Query } from './queries.js'
import { bytesAt, refreshBlocks, type Selection, selectBlocks } from './selection.js'

/** Bytes that a preparation or a hint submits at once: a guess never fills the queue of a device. */
const SPECULATIVE_BATCH_BYTES = 32 * 1024 * 1024

export const SPECULATIVE_READS: ReadLimits = { ...READ_EVERYTHING, batchBytes: SPECULATIVE_BATCH_BYTES }

/** What the operator allows a query to read before its answer. */
export function demandReads(context: Context): ReadLimits {
  const { queryReadBatchBytes, queryReadBatchesMax, queryReadTimeoutUs } = context.options
  return {
    batchBytes: queryReadBatchBytes,
    batchesMax: queryReadBatchesMax,
    deadlineUs: queryReadTimeoutUs === 0 ? Number.POSITIVE_INFINITY : context.nowUs + queryReadTimeoutUs,
  }
}

/**
 * Reads what the query's boundary needs and DRAM does not have. A block that cannot be read takes away the boundaries
 * that need it and no others: the query goes on with the largest one that is left, or ends without any. After a stop
 * what is not on its way counts as unread: what DRAM has decides.
 */
export function readSelection(context: Context, query: Query): void {
  const { reads } = query
  if (!query.reading || !(query.stale || reads.idle)) return
  for (;;) {
    if (query.stale) fallBack(context, query)
    const missing = inReadingOrder(context, query.found, query.selection).filter((entry) => !reads.waitsFor(entry))
    reads.plan(missing)
    reads.advance()
    if (reads.stopped) for (const entry of missing) if (!reads.waitsFor(entry)) unread(context, query, entry)
    if (!query.stale) return
  }
}

/** What became of one block. */
export function blockEnded(query: Query, entry: number, how: BlockEnd): void {
  if (how === 'failed') {
    query.counts.failed(entry)
    failBlock(query.found, entry)
    query.stale = true
  }
  if (how === 'abandoned') shrinkToNeed(query)
}

function unread(context: Context, query: Query, entry: number): void {
  if (context.storage.inDram(entry)) return
  query.counts.unread(entry)
  failBlock(query.found, entry)
  query.stale = true
}

/** Holds what the next smaller boundary within its charge needs, then lets go of what it does not. Its charge never rises. */
function fallBack(context: Context, query: Query): void {
  const { storage } = context
  const { found, selection, reads } = query
  query.stale = false
  refreshBlocks(storage, found, selection, query.allowSsd)
  const legal = legalBoundaries(found, selection.tokens)
  const tokens = legal.filter((each) => bytesAt(found, each) <= query.reservation.bytes).at(-1) ?? 0
  const next = selectBlocks(found, tokens)
  for (const entry of next.entries) storage.hold(entry)
  query.selection = next
  const needed = new Set(next.entries)
  for (const entry of selection.entries) if (!needed.has(entry)) reads.abandon(entry)
  for (const entry of selection.entries) storage.drop(entry)
  shrinkToNeed(query)
}

/** The selection, and what the device still has of earlier ones. */
function shrinkToNeed({ reservation, selection, reads }: Query): void {
  reservation.shrink(Math.min(reservation.bytes, selection.bytes + reads.abandonedBytes))
}

/** Entries of a selection that are not in DRAM, each once, in the order in which a growing request needs them. */
export function inReadingOrder(context: Context, found: FoundBlocks, selection: Selection): number[] {
  const needs: { readonly entry: number; readonly endTokens: number }[] = []
  for (const [index, { firstSource, count }] of selection.spans.entries()) {
    const { entries, firstBlock, blockTokens } = found[index] as FoundBlocks[number]
    for (let at = firstSource; at < firstSource + count; at++) {
      const entry = entries[at] as number
      if (!context.storage.inDram(entry)) needs.push({ entry, endTokens: (firstBlock + at + 1) * blockTokens })
    }
  }
  if (selection.spans.length > 1) needs.sort((a, b) => a.endTokens - b.endTokens)
  return [...new Set(needs.map(({ entry }) => entry))]
}
