import type { WireReply } from '../../shared/layout/wire/messages.js'
import type { Reservation } from '../../shared/scheduling/query-budget.js'
import { READ_EVERYTHING, type ReadLimits } from '../../shared/scheduling/read-turns.js'
import type { Context } from '../context.js'
import type { Instance, Seal } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { FillPurpose } from '../storage/ports.js'
import { answerQuery } from './answer.js'
import { type BlockEnd, BlockReads } from './block-reads.js'
import { endQuery } from './ending.js'
import { type Found, inReadingOrder } from './find.js'
import { BLOCK, type Query } from './queries.js'

/** Bytes that a preparation or a hint submits at once: a guess never fills the queue of a device. */
export const SPECULATIVE_BATCH_BYTES = 32 * 1024 * 1024

const SPECULATIVE_READS: ReadLimits = { ...READ_EVERYTHING, batchBytes: SPECULATIVE_BATCH_BYTES }

/** The limits of a hint or a preparation. */
export function speculativeReads(): ReadLimits {
  return SPECULATIVE_READS
}

function demandReads(context: Context): ReadLimits {
  const { queryReadBatchBytes, queryReadBatchesMax, queryReadTimeoutUs } = context.options
  return {
    batchBytes: queryReadBatchBytes,
    batchesMax: queryReadBatchesMax,
    deadlineUs: queryReadTimeoutUs === 0 ? Number.POSITIVE_INFINITY : context.nowUs + queryReadTimeoutUs,
  }
}

/** Holds every entry of a request and starts the reads that it needs. The reservation is the query's from here on. */
export function openQuery(
  context: Context,
  session: Session,
  instance: Instance & { readonly seal: Seal },
  request: { readonly requestId: number; readonly revision: number },
  found: Found,
  reservation: Reservation,
  purpose: FillPurpose,
): Query {
  const { storage, options } = context
  for (const entry of found.entries) storage.hold(entry)
  if (purpose === 'demand') for (const entry of found.entries) storage.use(entry)
  const blocks = new Uint8Array(found.entries.length).fill(BLOCK.usable)
  // Speculation always ends in DRAM; a request reads now only when its restore is a copy from DRAM.
  const reading =
    purpose === 'demand' && options.readRoute === 'uring' ? [] : inReadingOrder(context, instance.seal, found)
  const wanted = new Set(reading)
  for (const [i, entry] of found.entries.entries()) if (wanted.has(entry)) blocks[i] = BLOCK.reading
  const limits = purpose === 'demand' ? demandReads(context) : speculativeReads()
  const reads = new BlockReads(context, reading, limits, purpose, (entry, how) => settleBlock(query, entry, how))
  const query: Query = {
    ticket: reads.ticket,
    session,
    instance,
    requestId: request.requestId,
    revision: request.revision,
    spans: found.spans,
    firstBlocks: found.firstBlocks,
    firstKeys: found.firstKeys,
    entries: found.entries,
    blocks,
    foundInDram: Uint8Array.from(found.entries, (entry) => (storage.inDram(entry) ? 1 : 0)),
    reads,
    reservation,
    counts: found.counts,
    readDeadlineUs: limits.deadlineUs,
    endsUs: context.nowUs + options.queryUs,
  }
  return query
}

function settleBlock(query: Query, entry: number, how: BlockEnd): void {
  const state = how === 'read' ? BLOCK.usable : how === 'failed' ? BLOCK.failed : BLOCK.unread
  for (let i = 0; i < query.entries.length; i++) if (query.entries[i] === entry) query.blocks[i] = state
}

/** Goes on reading, and answers when there is nothing to wait for. A reading deadline that passed is a miss. */
export function progress(context: Context, query: Query): WireReply {
  const { reads } = query
  reads.advance()
  if (context.nowUs >= query.readDeadlineUs && (!reads.settled || reads.cut)) {
    context.tally.unread(query.entries.length)
    endQuery(context, query)
    return { kind: 'miss' }
  }
  return reads.settled ? answerQuery(context, query) : { kind: 'loading', ticket: query.ticket }
}
