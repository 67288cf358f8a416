import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import { legalBoundaries } from '../../shared/planning/recovery.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import type { Instance, Seal } from '../register/instances.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { answerQuery } from './answer.js'
import { endTicket } from './ending.js'
import { type FoundBlocks, findBlocks, requestedBlocks } from './found-blocks.js'
import type { Query } from './queries.js'
import { readSelection } from './reading.js'
import { BOUNDARY_TOKENS_MAX, bytesAt, type Selection, selectBlocks } from './selection.js'

type QueryRequest = MessageOf<'query'>

/** QUERY: where the request can be resumed; metadata only, unless the default route must read SSD pages first. */
export function query(context: Context, session: Session, request: number, message: QueryRequest): void {
  const answer = admit(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function admit(context: Context, session: Session, message: QueryRequest): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const earlier = context.queries.get(session.queries.get(message.requestId) ?? -1)
  if (earlier !== undefined) {
    if (earlier.revision === message.revision) return progress(context, earlier)
    if (earlier.revision > message.revision) {
      return refuse(
        'ticket_unknown',
        `Cannot take revision ${message.revision} of request ${message.requestId}: ${earlier.revision} replaced it`,
        { requestId: message.requestId, revision: message.revision },
      )
    }
    endTicket(context, earlier.ticket)
  }
  const refusal = checkShape(context, instance.seal, message)
  if (refusal !== null) return refusal
  const outstanding = session.queries.size + session.leases.size
  if (outstanding >= context.options.queriesPerSessionMax || context.queries.count >= context.options.queriesMax) {
    return { kind: 'busy' }
  }
  const found = findBlocks(context.storage, instance.seal, message)
  const selection = choose(context, instance, found)
  if (selection.entries.length === 0) return { kind: 'miss' }
  if (!instance.budget.charge(selection.bytes)) {
    context.tally.budgetWait()
    return { kind: 'busy' }
  }
  return open(context, session, instance, message, found, selection)
}

function checkShape(context: Context, seal: Seal, message: QueryRequest): Refusal | null {
  const seen = new Set<number>()
  let keys = 0
  for (const { group, keys: bytes } of message.groups) {
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

/**
 * The largest legal boundary that the instance may ever hold at once. Hits are the blocks of the largest legal one
 * before that cut; what the request would have needed beyond them at the end of its keys are misses.
 */
function choose(context: Context, instance: Instance, found: FoundBlocks): Selection {
  const legal = legalBoundaries(found, BOUNDARY_TOKENS_MAX)
  const most = selectBlocks(found, legal.at(-1) ?? 0)
  const hits = most.entries.length
  context.storage.countRequest(most.entries, hits, requestedBlocks(found) - hits)
  const limit = Math.min(instance.budget.limitBytes, context.options.queryBudgetBytes)
  if (most.bytes <= limit) return most
  context.tally.budgetBypass()
  return selectBlocks(found, legal.filter((tokens) => bytesAt(found, tokens) <= limit).at(-1) ?? 0)
}

/** Holds every selected entry and starts the reads that the default route needs. The budget is charged. */
function open(
  context: Context,
  session: Session,
  instance: Instance,
  message: QueryRequest,
  found: FoundBlocks,
  selection: Selection,
): WireReply {
  const query: Query = {
    ticket: context.queries.nextTicket(),
    session,
    instance,
    requestId: message.requestId,
    revision: message.revision,
    allowSsd: message.allowSsd,
    found,
    selection,
    waiting: new Set(),
    endsUs: context.nowUs + context.options.queryUs,
  }
  for (const entry of selection.entries) context.storage.hold(entry)
  context.queries.add(query)
  session.queries.set(query.requestId, query.ticket)
  if (context.options.readRoute === 'dram') readSelection(context, query)
  return progress(context, query)
}

function progress(context: Context, query: Query): WireReply {
  return query.waiting.size > 0 ? { kind: 'loading', ticket: query.ticket } : answerQuery(context, query)
}

/** QUERY_POLL: the same answers as QUERY. A ticket answered with anything but LOADING is spent. */
export function queryPoll(context: Context, session: Session, request: number, message: MessageOf<'query_poll'>): void {
  const query = context.queries.get(message.ticket)
  if (query === undefined || query.session !== session) {
    return replyRefusal(
      context,
      session,
      request,
      refuse('ticket_unknown', `Cannot poll ticket ${message.ticket}: it was answered, released or has expired`, {
        ticket: message.ticket,
      }),
    )
  }
  reply(context, session, request, progress(context, query))
}

/** Queries nobody polled in time lose their interests. */
export function expireQueries(context: Context): void {
  for (const query of [...context.queries.overdue(context.nowUs)]) endTicket(context, query.ticket)
}
