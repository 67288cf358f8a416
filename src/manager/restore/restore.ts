import type { ErrorCode } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { leaseEnded } from '../query/ending.js'
import { boundInstance } from '../register/bound.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { RankHold, Session } from '../sessions/session.js'
import { checkSlot, occupySlot } from '../sessions/slots.js'
import { RestoreOperation } from './operation.js'
import { planRestore, resolvePairs } from './plan.js'

/**
 * Where a restore of this rank reads what is only on the SSD; null: by the route that the operator named, which was
 * stopped and which no other replaces. Its lease may be older than the stop.
 */
function ssdRouteOf({ routes }: Context, { lanes }: RankHold): 'ssd' | 'cufile' | null {
  if (routes.readRoute === 'unavailable') return null
  return routes.readRoute === 'cufile' && lanes.ssd !== null ? 'cufile' : 'ssd'
}

const REASONS: Readonly<Partial<Record<ErrorCode, string>>> = {
  lease_wrong_instance: 'it belongs to another instance',
  lease_already_redeemed: 'this rank has redeemed it',
  lease_expired: 'its time is over',
}

/**
 * RESTORE: one rank redeems a lease into its pages. Checked as a whole before anything changes; then all or nothing.
 * Acknowledged once admitted; the result is in the slot alone.
 */
export function restore(context: Context, session: Session, request: number, message: MessageOf<'restore'>): void {
  const refusal = admit(context, session, message)
  if (refusal === null) reply(context, session, request, { kind: 'ack' })
  else replyRefusal(context, session, request, refusal)
}

function admit(context: Context, session: Session, message: MessageOf<'restore'>): Refusal | null {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const { hold } = session
  if (hold === null) {
    return refuse('instance_unknown', 'Cannot restore in this session: only a worker has pages')
  }
  const slotRefusal = checkSlot(context, session, message.slot, message.generation)
  if (slotRefusal !== null) return slotRefusal
  const code = context.leases.check(message.lease, instance.number, hold.rank, context.nowUs)
  const record = context.leaseRecords.get(message.lease)
  if (code !== 'ok' || record === undefined) {
    return refuse(
      code === 'ok' ? 'lease_unknown' : code,
      `Cannot redeem lease ${message.lease} for rank ${hold.rank}: ${REASONS[code] ?? 'it never was'}; query again`,
      { lease: message.lease, rank: hold.rank },
    )
  }
  const pairs = resolvePairs(instance.seal, hold.rank, record, message)
  if (isRefusal(pairs)) return pairs
  const ssdRoute = ssdRouteOf(context, hold)
  const plan = planRestore(context.storage, instance.seal, hold.rank, hold.templates, pairs, ssdRoute ?? 'cufile')
  invariant(plan !== null, 'a leased entry keeps its bytes', { lease: message.lease })
  if (ssdRoute === null && plan.route !== 'dram') {
    return refuse(
      'cufile_unavailable',
      `Cannot restore lease ${message.lease}: its blocks are on the SSD, and cuFile, which --ssd-read-path names, has failed; restart the Manager`,
      { lease: message.lease },
    )
  }
  const redeemed = context.leases.redeem(message.lease, instance.number, hold.rank, context.nowUs)
  invariant('entries' in redeemed, 'a lease that passed its check is redeemed', { lease: message.lease })
  const { reservation } = record
  reservation.enter('restoring')
  reservation.retain()
  if (!context.leases.has(message.lease)) leaseEnded(context, message.lease)
  const operation = new RestoreOperation(context, session, hold, message, plan, redeemed.entries, reservation)
  occupySlot(context, operation)
  operation.request()
  return null
}
