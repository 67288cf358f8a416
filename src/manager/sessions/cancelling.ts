import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { leave } from './leaving.js'
import { reply } from './replies.js'
import type { Session } from './session.js'

/** CANCEL: takes the interest back; the slot still reaches a terminal state by itself. Idempotent. */
export function cancel(context: Context, session: Session, request: number, message: MessageOf<'cancel'>): void {
  const use = session.slots[message.slot]
  if (use !== undefined && use.generation === message.generation) use.operation?.cancel()
  reply(context, session, request, { kind: 'ack' })
}

/** UNREGISTER: the rank leaves; answered once everything of it has drained and its memory is unmapped. */
export function unregister(context: Context, session: Session, request: number): void {
  if (session.phase === 'new' || session.phase === 'greeted') return reply(context, session, request, { kind: 'ack' })
  session.unregister = request
  leave(context, session)
}
