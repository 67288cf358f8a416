import { isRefusal, refuse } from '../../shared/base/refusal.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { endLease, endQuery, leaseEnded } from './ending.js'
import { endPreparation } from './prepare.js'

/** RELEASE: takes an interest back. Idempotent, also for what expired; only another instance's lease is refused. */
export function release(context: Context, session: Session, request: number, message: MessageOf<'release'>): void {
  if (message.what === 'ticket') {
    const query = context.queries.get(message.id)
    if (query?.session === session) endQuery(context, query)
    const preparation = context.preparations.find(message.id)
    if (preparation?.query.session === session) endPreparation(context, preparation)
    return reply(context, session, request, { kind: 'ack' })
  }
  const record = context.leaseRecords.get(message.id)
  const instance = context.instances.get(session.instance)
  if (record !== undefined && record.instance !== instance?.number) {
    const text = `Cannot release lease ${message.id}: it belongs to another instance`
    return replyRefusal(context, session, request, refuse('lease_wrong_instance', text, { lease: message.id }))
  }
  endLease(context, message.id)
  reply(context, session, request, { kind: 'ack' })
}

/** RENEW: lets a lease live longer, at most one lease time from now. */
export function renew(context: Context, session: Session, request: number, message: MessageOf<'renew'>): void {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return replyRefusal(context, session, request, instance)
  const extendUs = Math.min(message.extendMs * 1000, context.options.leaseUs)
  const code = context.leases.renew(message.lease, instance.number, context.nowUs + extendUs, context.nowUs)
  if (code === 'ok') {
    return reply(context, session, request, { kind: 'renewed', expiresInMs: Math.floor(extendUs / 1000) })
  }
  const text = `Cannot renew lease ${message.lease}: ${code === 'lease_wrong_instance' ? 'it belongs to another instance' : 'it has ended'}`
  replyRefusal(context, session, request, refuse(code, text, { lease: message.lease }))
}

/** Leases whose time is over end; restores that redeemed them go on. */
export function expireLeases(context: Context): void {
  const ended: number[] = []
  context.leases.expire(context.nowUs, ended)
  for (const lease of ended) leaseEnded(context, lease)
}
