import { isRefusal, type Refusal } from '../../shared/base/refusal.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { BlockReads } from './block-reads.js'
import { drain } from './draining.js'
import { checkGroups, choose } from './opening.js'
import { inReadingOrder, SPECULATIVE_READS } from './reading.js'
import type { Warming } from './warmings.js'

/** WARM: blocks that may be of use soon are read into DRAM, as the first that an eviction takes. */
export function warm(context: Context, session: Session, request: number, message: MessageOf<'warm'>): void {
  const answer = admit(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function admit(context: Context, session: Session, message: MessageOf<'warm'>): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const refusal = checkGroups(context, instance.seal, message.groups)
  if (refusal !== null) return refusal
  const { warmingsPerSessionMax, warmingsMax, warmUs } = context.options
  if (session.warmings.size >= warmingsPerSessionMax || context.warmings.count >= warmingsMax) return { kind: 'busy' }
  const request = { groups: message.groups, allowSsd: true }
  const { found, selection } = choose(context, instance.seal, request, Number.MAX_SAFE_INTEGER)
  const order = inReadingOrder(context, found, selection)
  const resident = selection.entries.length - order.length
  if (resident > 0) context.tally.warmSkipped(resident)
  const limitBytes = instance.budget.limitBytes('warming')
  const reading: number[] = []
  let bytes = 0
  for (const entry of order) {
    const extentBytes = context.storage.extentBytes(entry)
    if (bytes + extentBytes > limitBytes) break
    bytes += extentBytes
    reading.push(entry)
  }
  const skipped = order.length - reading.length
  if (reading.length === 0) return { kind: 'warming', accepted: 0, resident, skipped }
  const reservation = instance.budget.reserve(bytes, 'warming')
  if (reservation === null) return { kind: 'busy' }
  // A row may be given to another block while the hint waits: what it charged is remembered here.
  const sizes = new Map(reading.map((entry) => [entry, context.storage.extentBytes(entry)]))
  const reads: BlockReads = new BlockReads(context, SPECULATIVE_READS, 'speculation', {
    ended: (entry) => reservation.shrink(reservation.bytes - (sizes.get(entry) ?? 0)),
    proceed: () => reads.advance(),
  })
  reads.plan(reading)
  const warming: Warming = { ticket: reads.ticket, session, reads, reservation, endsUs: context.nowUs + warmUs }
  context.warmings.add(warming)
  session.warmings.add(reads.ticket)
  reads.advance()
  if (reads.settled) endWarming(context, warming)
  return { kind: 'warming', accepted: reading.length, resident, skipped }
}

/** Nothing more is read for the hint; what was submitted still lands, charged until then. */
export function endWarming(context: Context, warming: Warming): void {
  context.warmings.delete(warming.ticket)
  warming.session.warmings.delete(warming.ticket)
  drain(context, warming.reads, warming.reservation)
}

/** Hints whose time is over. */
export function expireWarmings(context: Context): void {
  for (const warming of context.warmings.overdue(context.nowUs)) endWarming(context, warming)
}
