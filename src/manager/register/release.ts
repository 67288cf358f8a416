import type { Context } from '../context.js'
import { endLease } from '../query/ending.js'
import type { Session } from '../sessions/session.js'

/**
 * The session's part in its instance ends: templates, mappings and slots are released, the instance with its last
 * session. Called once nothing of the session is in flight; calling it again does nothing.
 */
export function releaseRank(context: Context, session: Session): void {
  const { hold } = session
  if (hold !== null) {
    session.hold = null
    for (const template of hold.templates) if (template >= 0) context.ports.releaseTemplate(template)
    for (const mapping of hold.mappings) context.ports.releaseMapping(mapping)
    // An effect: the end of the last operation may stand in front of it, still to be written to its slot.
    context.out.push({ kind: 'release-slots', slots: hold.slotTable.slots })
  }
  const instance = context.instances.get(session.instance)
  session.instance = null
  if (instance === undefined) return
  instance.sessions.delete(session)
  if (hold !== null) {
    for (const [place, rank] of instance.ranks) if (rank.session === session) instance.ranks.delete(place)
    instance.phase = 'ended'
  }
  if (instance.sessions.size > 0) return
  for (const lease of context.leaseRecords.ofInstance(instance.number)) endLease(context, lease)
  context.instances.remove(instance)
}
