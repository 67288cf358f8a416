import type { Context } from '../context.js'
import { endLease, endQuery } from '../query/ending.js'
import { endSpeculation } from '../query/speculation.js'
import { releaseRank } from '../register/release.js'
import { reply } from './replies.js'
import type { RankHold, Session } from './session.js'

/** The peer is gone. Its interests end now; what it submitted drains; then its memory is unmapped. */
export function disconnect(context: Context, session: Session): void {
  context.sessions.disconnected(session)
  leave(context, session)
}

/** Starts nothing any more; ends interests; cancels operations. `settle` follows when the last operation ends. */
export function leave(context: Context, session: Session): void {
  if (session.phase !== 'leaving') {
    session.phase = 'leaving'
    context.syncs.forget(session)
    for (const ticket of [...session.queries.values()]) {
      const query = context.queries.get(ticket)
      if (query !== undefined) endQuery(context, query)
    }
    endSpeculation(context, session)
    for (const lease of [...session.leases]) endLease(context, lease)
    for (const operation of [...session.operations]) operation.cancel()
  }
  settle(context, session)
}

/**
 * Once nothing of a leaving session is in flight: releases its memory, answers the UNREGISTER that waited for that,
 * and removes the session when its connection has ended too.
 */
export function settle(context: Context, session: Session): void {
  if (session.phase !== 'leaving' || session.operations.size > 0 || !context.sessions.has(session)) return
  // Staging may still be registered over the rank's pages: they stay mapped until its worker has closed.
  if (session.hold !== null && session.hold.lanes.ssd?.left(session.hold) === false) return
  if (session.hold !== null && !workspacesLeft(context, session.hold)) return
  releaseRank(context, session)
  if (session.connected) {
    if (session.unregister === null) return
    const request = session.unregister
    session.unregister = null
    session.phase = 'greeted'
    session.slots.length = 0
    reply(context, session, request, { kind: 'ack' })
    return
  }
  context.sessions.remove(session)
}

/** What a rank's leaving waited for in a lane has ended. */
export function holdLeft(context: Context, hold: object): void {
  for (const session of [...context.sessions]) if (session.hold === hold) settle(context, session)
}

/** The last rank on a device leaves when the lanes there have given back what codecs hold. */
function workspacesLeft({ sessions }: Context, hold: RankHold): boolean {
  const { workspaces } = hold.lanes
  if (workspaces === null) return true
  let ranks = 0
  for (const other of sessions) if (other.hold?.lanes === hold.lanes) ranks += 1
  return workspaces.left(hold, ranks)
}
