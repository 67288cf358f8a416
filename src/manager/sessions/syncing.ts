import { refuse } from '../../shared/base/refusal.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { reply, replyRefusal } from './replies.js'
import type { Session } from './session.js'

/** SYNC requests that may wait at once, of all sessions. */
const SYNCS_MAX = 256

/** SYNC: waits for the insertion of everything published before it; with `ssd` also for the writes pending then. */
export function sync(context: Context, session: Session, request: number, message: MessageOf<'sync'>): void {
  if (context.syncs.count >= SYNCS_MAX) {
    const refusal = refuse('capacity_queue', `Cannot wait: ${SYNCS_MAX} requests wait already`, { syncs: SYNCS_MAX })
    return replyRefusal(context, session, request, refusal)
  }
  context.syncs.add({ session, request, ssd: message.ssd, before: context.publications.frontier, waiter: 0 })
  progressSyncs(context)
}

/** Moves every waiting SYNC as far as it can go. Called after each step. */
export function progressSyncs(context: Context): void {
  if (context.syncs.count === 0) return
  const oldest = context.publications.oldest
  for (const sync of [...context.syncs]) {
    if (sync.waiter !== 0 || oldest < sync.before) continue
    if (sync.ssd) {
      sync.waiter = context.syncs.nextWaiter()
      if (context.storage.sync(sync.waiter) === 'waiting') continue
    }
    context.syncs.end(sync)
    reply(context, sync.session, sync.request, { kind: 'ack' })
  }
}

/** Storage reports that the writes of a SYNC have ended. */
export function syncEnded(context: Context, waiter: number): void {
  const sync = context.syncs.ofWaiter(waiter)
  if (sync === undefined) return
  context.syncs.end(sync)
  reply(context, sync.session, sync.request, { kind: 'ack' })
}
