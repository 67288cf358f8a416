import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { demandRouteOf } from './demand-route.js'
import { endQuery } from './ending.js'
import { checkGroups, choose, openQuery, progress } from './opening.js'
import type { Query } from './queries.js'

type QueryRequest = MessageOf<'query'>

/** QUERY: where the request can be resumed; metadata only, unless the default route must read SSD pages first. */
export function query(context: Context, session: Session, request: number, message: QueryRequest): void {
  const answer = admit(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function admit(context: Context, session: Session, asked: QueryRequest): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const earlier = earlierQuery(context, session, asked)
  if (earlier !== null) return isRefusal(earlier) ? earlier : progress(context, earlier)
  // A named read route that was stopped is replaced by no other: what is only on the SSD is a miss.
  const allowSsd = asked.allowSsd && demandRouteOf(context, instance) !== 'unavailable'
  const message = { ...asked, allowSsd }
  const refusal = checkGroups(context, instance.seal, message.groups)
  if (refusal !== null) return refusal
  if (queriesFull(context, session)) return { kind: 'busy' }
  const choice = choose(context, instance.seal, message, instance.budget.limitBytes('preloading'))
  if (choice.cut) context.tally.budgetBypass()
  if (choice.selection.entries.length === 0) {
    choice.counts.count(context)
    return { kind: 'miss' }
  }
  const reservation = instance.budget.reserve(choice.selection.bytes, 'preloading')
  if (reservation === null) {
    context.tally.budgetWait()
    return { kind: 'busy' }
  }
  const opened = openQuery(context, session, instance, message, choice, reservation, 'demand')
  addQuery(context, opened)
  return progress(context, opened)
}

/** The open query of the same request and revision; an older revision ends, a newer one refuses. */
export function earlierQuery(
  context: Context,
  session: Session,
  { requestId, revision }: { readonly requestId: number; readonly revision: number },
): Query | null | Refusal {
  const earlier = context.queries.get(session.queries.get(requestId) ?? -1)
  if (earlier === undefined) return null
  if (earlier.revision === revision) return earlier
  if (earlier.revision > revision) {
    return refuse(
      'ticket_unknown',
      `Cannot take revision ${revision} of request ${requestId}: ${earlier.revision} replaced it`,
      { requestId, revision },
    )
  }
  endQuery(context, earlier)
  return null
}

/** No further query or lease of the session, or query of anybody, is admitted now. */
export function queriesFull(context: Context, session: Session): boolean {
  const outstanding = session.queries.size + session.leases.size
  return outstanding >= context.options.queriesPerSessionMax || context.queries.count >= context.options.queriesMax
}

/** Makes an opened query findable. */
export function addQuery(context: Context, query: Query): void {
  context.queries.add(query)
  query.session.queries.set(query.requestId, query.ticket)
}

/** QUERY_POLL: the same answers as QUERY. A ticket answered with anything but LOADING is spent. */
export function queryPoll(context: Context, session: Session, request: number, message: MessageOf<'query_poll'>): void {
  const query = context.queries.get(message.ticket)
  if (query === undefined || query.session !== session) {
    return replyRefusal(context, session, request, unknownTicket('poll', message.ticket))
  }
  reply(context, session, request, progress(context, query))
}

export function unknownTicket(action: string, ticket: number): Refusal {
  return refuse('ticket_unknown', `Cannot ${action} ticket ${ticket}: it was answered, released or has expired`, {
    ticket,
  })
}

/** Queries nobody polled in time lose their interests. */
export function expireQueries(context: Context): void {
  for (const query of [...context.queries.overdue(context.nowUs)]) endQuery(context, query)
}
