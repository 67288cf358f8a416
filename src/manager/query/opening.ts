import { type Refusal, refuse } from '../../shared/base/refusal.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import { legalBoundaries } from '../../shared/planning/recovery.js'
import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Context } from '../context.js'
import type { Instance, Seal } from '../register/instances.js'
import type { Session } from '../sessions/session.js'
import type { FillPurpose } from '../storage/ports.js'
import { answerQuery } from './answer.js'
import { BlockReads } from './block-reads.js'
import { demandRouteOf } from './demand-route.js'
import { endQuery } from './ending.js'
import { type FoundBlocks, findBlocks } from './found-blocks.js'
import type { Query } from './queries.js'
import { blockEnded, demandReads, readSelection, SPECULATIVE_READS } from './reading.js'
import { RequestCounts } from './request-counts.js'
import { BOUNDARY_TOKENS_MAX, bytesAt, type Selection, selectBlocks } from './selection.js'

/** Keys of a request, by group. */
export type RequestGroups = MessageOf<'query'>['groups']

/** What was chosen of what a request found, before anything is held or charged. */
export interface Choice {
  readonly found: FoundBlocks
  readonly selection: Selection
  readonly counts: RequestCounts
  /** More was found than the limit lets through. */
  readonly cut: boolean
}

/** Groups that exist and are named once, and as many keys as one request may have. */
export function checkGroups(context: Context, seal: Seal, groups: RequestGroups): Refusal | null {
  const seen = new Set<number>()
  let keys = 0
  for (const { group, keys: bytes } of groups) {
    if (seal.geometry.groups[group] === undefined || seen.has(group)) {
      return refuse('group_unknown', `Cannot query group ${group}: it is unknown or named twice`, { group })
    }
    seen.add(group)
    keys += bytes.length / KEY_BYTES
  }
  if (keys === 0) return refuse('query_empty', 'Cannot query without keys')
  if (keys > context.options.keysPerQueryMax) {
    return refuse(
      'capacity_queue',
      `Cannot query ${keys} keys at once: ${context.options.keysPerQueryMax} is the limit`,
      { keys },
    )
  }
  return null
}

/** The largest legal boundary whose blocks fit into `limitBytes`. Metadata only. `allowSsd`: SSD blocks count. */
export function choose(
  context: Context,
  seal: Seal,
  request: { readonly groups: RequestGroups; readonly allowSsd: boolean },
  limitBytes: number,
): Choice {
  const found = findBlocks(context.storage, seal, request)
  const legal = legalBoundaries(found, BOUNDARY_TOKENS_MAX)
  const most = selectBlocks(found, legal.at(-1) ?? 0)
  const counts = new RequestCounts(context.storage, seal.classes, request.groups, found, most)
  countCandidates(context, found)
  if (most.bytes <= limitBytes) return { found, selection: most, counts, cut: false }
  const selection = selectBlocks(found, legal.filter((tokens) => bytesAt(found, tokens) <= limitBytes).at(-1) ?? 0)
  counts.cut(selection)
  return { found, selection, counts, cut: true }
}

function countCandidates(context: Context, found: FoundBlocks): void {
  let asked = 0
  let there = 0
  for (const { asked: keys, present } of found) {
    asked += keys
    for (let at = 0; at < present.length; at++) there += present[at] as number
  }
  context.tally.candidates(there, asked - there)
}

/** Holds every selected entry and starts the reads that it needs. The reservation is the query's from here on. */
export function openQuery(
  context: Context,
  session: Session,
  instance: Instance,
  request: { readonly requestId: number; readonly revision: number; readonly allowSsd: boolean },
  { found, selection, counts }: Choice,
  reservation: Reservation,
  purpose: FillPurpose,
): Query {
  const { storage, options } = context
  for (const entry of selection.entries) storage.hold(entry)
  if (purpose === 'demand') for (const entry of selection.entries) storage.use(entry)
  const limits = purpose === 'demand' ? demandReads(context) : SPECULATIVE_READS
  const reads = new BlockReads(context, limits, purpose, {
    ended: (entry, how) => blockEnded(query, entry, how),
    proceed: () => readSelection(context, query),
  })
  const query: Query = {
    ticket: reads.ticket,
    session,
    instance,
    requestId: request.requestId,
    revision: request.revision,
    allowSsd: request.allowSsd,
    found,
    selection,
    reads,
    // Speculation always ends in DRAM; a request reads now only when its restore is a copy from DRAM.
    reading: purpose === 'speculation' || demandRouteOf(context, instance) === 'dram',
    stale: false,
    reservation,
    counts,
    readDeadlineUs: limits.deadlineUs,
    endsUs: context.nowUs + options.queryUs,
  }
  readSelection(context, query)
  return query
}

/** Answers when there is nothing to wait for. A reading deadline that passed is a miss. */
export function progress(context: Context, query: Query): WireReply {
  const { reads } = query
  if (reads.late || (context.nowUs >= query.readDeadlineUs && !reads.settled)) {
    query.counts.late(context)
    endQuery(context, query)
    return { kind: 'miss' }
  }
  return reads.settled ? answerQuery(context, query) : { kind: 'loading', ticket: query.ticket }
}
