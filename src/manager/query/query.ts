import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import type { Instance, Seal } from '../register/instances.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { answerQuery, commonBoundary } from './answer.js'
import { endTicket } from './ending.js'
import type { GroupSpan } from './lease-records.js'
import type { Query } from './queries.js'

type QueryRequest = MessageOf<'query'>

/** What was found for one query before anything is held or charged. */
interface Found {
  readonly spans: readonly GroupSpan[]
  readonly firstBlocks: readonly number[]
  readonly entries: Int32Array
  readonly bytes: number
}

/** QUERY: the longest common published prefix; metadata only, unless the default route must read SSD pages first. */
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
  const found = find(context, instance, instance.seal, message)
  if (found.entries.length === 0) return { kind: 'miss' }
  if (!instance.budget.charge(found.bytes)) {
    context.tally.budgetWait()
    return { kind: 'busy' }
  }
  return open(context, session, instance, message, found)
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

/** The common prefix of all groups, cut to what the instance may ever hold at once. */
function find(context: Context, instance: Instance, seal: Seal, message: QueryRequest): Found {
  const { storage } = context
  const perGroup = message.groups.map(({ group, firstBlock, keys }) => {
    const asked = keys.length / KEY_BYTES
    const entries = new Int32Array(asked)
    const classId = seal.classes[group] as number
    let count = storage.prefix(classId, keys, asked, entries)
    if (!message.allowSsd) {
      for (let i = 0; i < count; i++) if (!storage.inDram(entries[i] as number)) count = i
    }
    storage.countRequest(entries.subarray(0, count), count, asked - count)
    const geometry = seal.geometry.groups[group]
    return {
      group,
      kind: geometry?.kind ?? 'full-attention',
      firstBlock,
      count,
      entries,
      blockTokens: geometry?.blockTokens ?? 1,
      extentBytes: geometry?.extentBytes ?? 0,
    }
  })
  let { tokens, counts } = commonBoundary(perGroup)
  const bytesOf = (list: readonly number[]) =>
    list.reduce((sum, count, i) => sum + count * (perGroup[i]?.extentBytes ?? 0), 0)
  const limit = Math.min(instance.budget.limitBytes, context.options.queryBudgetBytes)
  if (bytesOf(counts) > limit) context.tally.budgetBypass()
  while (bytesOf(counts) > limit) ({ tokens, counts } = commonBoundary(perGroup, tokens - 1))
  const spans: GroupSpan[] = []
  const all: number[] = []
  for (const [i, { group, entries }] of perGroup.entries()) {
    const count = counts[i] as number
    spans.push({ group, first: all.length, count })
    for (let k = 0; k < count; k++) all.push(entries[k] as number)
  }
  return {
    spans,
    firstBlocks: perGroup.map(({ firstBlock }) => firstBlock),
    entries: Int32Array.from(all),
    bytes: bytesOf(counts),
  }
}

/** Holds every entry and starts the reads that the default route needs. The budget is charged. */
function open(context: Context, session: Session, instance: Instance, message: QueryRequest, found: Found): WireReply {
  const query: Query = {
    ticket: context.queries.nextTicket(),
    session,
    instance,
    requestId: message.requestId,
    revision: message.revision,
    spans: found.spans,
    firstBlocks: found.firstBlocks,
    entries: found.entries,
    usable: new Uint8Array(found.entries.length).fill(1),
    foundInDram: Uint8Array.from(found.entries, (entry) => (context.storage.inDram(entry) ? 1 : 0)),
    waiting: new Set(),
    bytes: found.bytes,
    endsUs: context.nowUs + context.options.queryUs,
  }
  for (const entry of found.entries) context.storage.hold(entry)
  context.queries.add(query)
  session.queries.set(query.requestId, query.ticket)
  if (context.options.readRoute === 'dram') startFills(context, query)
  return progress(context, query)
}

/** Reads what is not in DRAM. A block without room ends the usable prefix of its group: later ones are not read. */
function startFills(context: Context, query: Query): void {
  for (const span of query.spans) {
    let open = true
    for (let i = span.first; i < span.first + span.count; i++) {
      const entry = query.entries[i] as number
      if (query.waiting.has(entry)) continue
      const outcome = open ? context.storage.fill(entry, query.ticket) : 'gone'
      if (outcome === 'resident') continue
      if (outcome === 'started' || outcome === 'joined') {
        query.waiting.add(entry)
      } else {
        open = false
        query.usable[i] = 0
      }
    }
  }
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

/** A fill that a query waited for has ended. */
export function queryFilled(context: Context, ticket: number, entry: number, ok: boolean): void {
  const query = context.queries.get(ticket)
  if (query === undefined || !query.waiting.delete(entry) || ok) return
  for (let i = 0; i < query.entries.length; i++) if (query.entries[i] === entry) query.usable[i] = 0
}

/** Queries nobody polled in time lose their interests. */
export function expireQueries(context: Context): void {
  for (const query of [...context.queries.overdue(context.nowUs)]) endTicket(context, query.ticket)
}
