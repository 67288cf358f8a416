import type { Context } from '../context.js'
import type { Session } from '../sessions/session.js'
import { endPreparation, expirePreparations } from './prepare.js'
import { endWarming, expireWarmings } from './warm.js'

/** Everything speculative of a session that leaves. */
export function endSpeculation(context: Context, session: Session): void {
  for (const ticket of [...session.preparations.values()]) {
    const preparation = context.preparations.find(ticket)
    if (preparation !== undefined) endPreparation(context, preparation)
  }
  for (const ticket of [...session.warmings]) {
    const warming = context.warmings.get(ticket)
    if (warming !== undefined) endWarming(context, warming)
  }
}

export function expireSpeculation(context: Context): void {
  expirePreparations(context)
  expireWarmings(context)
}

/** When the next preparation or hint ends by itself; Infinity: none is open. */
export function nextSpeculationEndUs(context: Context): number {
  return Math.min(context.preparations.nextEndUs(), context.warmings.nextEndUs())
}

/** The read of a block under a ticket has ended: its hint may be done, its preparation complete. */
export function speculationRead(context: Context, ticket: number): void {
  const preparation = context.preparations.find(ticket)?.query
  if (preparation?.reads.settled && preparation.reservation.phase === 'preparing') {
    preparation.reservation.enter('prepared')
  }
  const warming = context.warmings.get(ticket)
  if (warming?.reads.settled) endWarming(context, warming)
}
