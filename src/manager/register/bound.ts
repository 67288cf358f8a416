import { type Refusal, refuse } from '../../shared/base/refusal.js'
import type { Context } from '../context.js'
import type { Session } from '../sessions/session.js'
import type { Instance, Seal } from './instances.js'

/** The sealed, living instance that a session speaks for, or why it may ask for nothing now. */
export function boundInstance(context: Context, session: Session): (Instance & { readonly seal: Seal }) | Refusal {
  if (context.draining) return refuse('draining', 'Cannot start anything: the Manager is draining')
  const instance = context.instances.get(session.instance)
  if (instance === undefined || session.phase !== 'bound') {
    return refuse('instance_unknown', 'Cannot do this before REGISTER or ATTACH: the session has no instance')
  }
  if (instance.phase === 'ended') {
    return refuse('instance_unknown', `Cannot use instance ${instance.id}: a rank of it has left`, {
      instance: instance.id,
    })
  }
  if (instance.seal === null) {
    return refuse(
      'instance_not_sealed',
      `Cannot use instance ${instance.id} yet: ${instance.ranks.size} of ${instance.worldSize} ranks have registered`,
      { present: instance.ranks.size, worldSize: instance.worldSize },
    )
  }
  return instance as Instance & { readonly seal: Seal }
}
