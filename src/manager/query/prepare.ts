import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { giveUp } from './ending.js'
import { checkGroups, choose, openQuery, progress, type RequestGroups } from './opening.js'
import type { Preparation } from './preparations.js'
import type { Query } from './queries.js'
import { addQuery, earlierQuery, queriesFull, unknownTicket } from './query.js'
import { type Selection, selectBlocks } from './selection.js'

/**
 * PREPARE: reads what a request will need into DRAM before the request comes, and holds it for a moment. Its bytes are
 * speculation until a claim makes them the request's.
 */
export function prepare(context: Context, session: Session, request: number, message: MessageOf<'prepare'>): void {
  const answer = admit(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function admit(context: Context, session: Session, message: MessageOf<'prepare'>): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const refusal = checkGroups(context, instance.seal, message.groups)
  if (refusal !== null) return refusal
  const digest = digestOf(context, message.groups)
  const earlier = context.preparations.find(session.preparations.get(message.requestId) ?? -1)
  if (earlier !== undefined) {
    const { revision } = earlier.query
    if (revision === message.revision) {
      if (!sameBytes(earlier.digest, digest)) return otherKeys('prepare', message.requestId)
      return poll(context, earlier)
    }
    if (revision > message.revision) {
      return refuse(
        'ticket_unknown',
        `Cannot prepare revision ${message.revision} of request ${message.requestId}: ${revision} replaced it`,
        { requestId: message.requestId, revision: message.revision },
      )
    }
    endPreparation(context, earlier)
  }
  if (session.preparations.size >= context.options.preparationsPerSessionMax) return { kind: 'busy' }
  const request = { ...message, allowSsd: true }
  const choice = choose(context, instance.seal, request, instance.budget.limitBytes('preparing'))
  if (choice.selection.entries.length === 0) return { kind: 'miss' }
  const reservation = instance.budget.reserve(choice.selection.bytes, 'preparing')
  if (reservation === null) return { kind: 'busy' }
  const query = openQuery(context, session, instance, request, choice, reservation, 'speculation')
  const preparation: Preparation = { query, digest, endsUs: 0 }
  context.preparations.add(preparation)
  session.preparations.set(message.requestId, query.ticket)
  return poll(context, preparation)
}

/** PREPARE_POLL: how far it is; whoever polls still wants it. */
export function preparePoll(
  context: Context,
  session: Session,
  request: number,
  message: MessageOf<'prepare_poll'>,
): void {
  const preparation = context.preparations.find(message.ticket)
  if (preparation === undefined || preparation.query.session !== session) {
    return replyRefusal(context, session, request, unknownTicket('poll', message.ticket))
  }
  reply(context, session, request, poll(context, preparation))
}

function poll(context: Context, preparation: Preparation): WireReply {
  const { query } = preparation
  preparation.endsUs = context.nowUs + context.options.prepareUs
  if (query.reads.settled && query.reservation.phase === 'preparing') query.reservation.enter('prepared')
  const { entries } = query.selection
  return {
    kind: 'prepared',
    ticket: query.ticket,
    blocks: entries.length,
    blocksReady: entries.filter((entry) => context.storage.inDram(entry)).length,
    loading: !query.reads.settled,
    expiresInMs: Math.floor(context.options.prepareUs / 1000),
  }
}

/**
 * CLAIM: the request has come. The preparation becomes its query: the bytes stay charged and held and turn from
 * speculation into the request's, reads in flight go on.
 */
export function claim(context: Context, session: Session, request: number, message: MessageOf<'claim'>): void {
  const answer = take(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function take(context: Context, session: Session, message: MessageOf<'claim'>): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const preparation = context.preparations.find(message.ticket)
  if (preparation === undefined || preparation.query.session !== session) return unknownTicket('claim', message.ticket)
  if (!sameBytes(preparation.digest, digestOf(context, message.groups))) return otherKeys('claim', message.requestId)
  const earlier = earlierQuery(context, session, message)
  if (earlier !== null) {
    if (isRefusal(earlier)) return earlier
    return refuse('ticket_unknown', `Cannot claim for request ${message.requestId}: its query is open already`, {
      requestId: message.requestId,
    })
  }
  if (queriesFull(context, session)) return { kind: 'busy' }
  forget(context, preparation)
  const { query } = preparation
  query.reservation.enter('preloading')
  query.reads.claim()
  query.requestId = message.requestId
  query.revision = message.revision
  query.endsUs = context.nowUs + context.options.queryUs
  query.selection = seenNow(context, query)
  for (const entry of query.selection.entries) context.storage.use(entry)
  addQuery(context, query)
  return progress(context, query)
}

/** What the preparation has brought to DRAM is found there by the request. */
function seenNow({ storage }: Context, { found, selection }: Query): Selection {
  for (const { entries, present, foundInDram } of found) {
    for (let at = 0; at < entries.length; at++) {
      if (present[at] === 1 && storage.inDram(entries[at] as number)) foundInDram[at] = 1
    }
  }
  return selectBlocks(found, selection.tokens)
}

/** Takes a preparation back: nothing new is read, its bytes stay charged until what it submitted has drained. */
export function endPreparation(context: Context, preparation: Preparation): void {
  forget(context, preparation)
  giveUp(context, preparation.query)
}

function forget(context: Context, { query }: Preparation): void {
  context.preparations.delete(query.ticket)
  query.session.preparations.delete(query.requestId)
}

/** Preparations that nobody polled or claimed in time end. */
export function expirePreparations(context: Context): void {
  for (const preparation of context.preparations.overdue(context.nowUs)) endPreparation(context, preparation)
}

function otherKeys(action: string, requestId: number): Refusal {
  return refuse('ticket_mismatch', `Cannot ${action} request ${requestId}: it was prepared with other groups or keys`, {
    requestId,
  })
}

/** One digest of groups, first blocks and keys. */
function digestOf(context: Context, groups: RequestGroups): Uint8Array {
  const bytes = new Uint8Array(groups.reduce((sum, { keys }) => sum + 12 + keys.length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const { group, firstBlock, keys } of groups) {
    view.setUint32(at, group, true)
    view.setUint32(at + 4, firstBlock, true)
    view.setUint32(at + 8, keys.length, true)
    bytes.set(keys, at + 12)
    at += 12 + keys.length
  }
  return context.ports.sha256(bytes)
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
