import type { Context } from '../../../src/manager/context.js'
import { must } from '../violation.js'

/**
 * The full scan of what verbs own, against what they keep step by step: budgets are the sum of what is charged to them,
 * leases and queries are listed where they must be and nowhere else (O1, O8, D2, D3).
 */
export function checkVerbs(context: Context, jobsMax: number): void {
  const { queries, leaseRecords, leases, instances, sessions, queryBudget, dramJobs, restoreJobs, storage } = context
  const charged = new Map<number, number>()
  let leased = 0
  let asked = 0
  let holdsMin = 0
  for (const instance of instances) charged.set(instance.number, 0)
  for (const session of sessions) {
    for (const ticket of session.queries.values()) {
      const query = queries.get(ticket)
      must(
        query !== undefined && query.session === session,
        'O1',
        () => `ticket ${ticket} of session ${session.number}`,
      )
      if (query === undefined) continue
      asked++
      holdsMin += query.selection.entries.length
      charged.set(query.instance.number, (charged.get(query.instance.number) ?? 0) + query.selection.bytes)
      must(
        query.waiting.size <= query.selection.entries.length,
        'O1',
        () => `ticket ${ticket} waits for what it did not ask`,
      )
    }
    for (const lease of session.leases) {
      const record = leaseRecords.get(lease)
      must(
        record !== undefined && record.session === session,
        'O1',
        () => `lease ${lease} of session ${session.number}`,
      )
      must(leases.has(lease), 'O1', () => `lease ${lease} has a record and no right`)
      if (record === undefined) continue
      leased++
      holdsMin += record.entries.length
      charged.set(record.instance, (charged.get(record.instance) ?? 0) + record.bytes)
    }
    must(session.phase !== 'leaving' || session.queries.size + session.leases.size === 0, 'O2', () => 'a leaver holds')
  }
  must(queries.count === asked, 'O1', () => `${queries.count} queries are open, sessions list ${asked}`)
  must(leaseRecords.count === leased, 'O1', () => `${leaseRecords.count} leases are recorded, sessions list ${leased}`)
  must(leases.live === leased, 'O1', () => `${leases.live} leases live, ${leased} are recorded`)
  let total = 0
  for (const instance of instances) {
    const sum = charged.get(instance.number) ?? 0
    const { chargedBytes, limitBytes } = instance.budget
    must(chargedBytes === sum, 'D3', () => `instance ${instance.number} is charged ${chargedBytes}, it holds ${sum}`)
    must(sum <= limitBytes, 'D2', () => `instance ${instance.number} holds ${sum} of ${limitBytes}`)
    total += sum
  }
  must(
    queryBudget.chargedBytes === total,
    'D3',
    () => `${queryBudget.chargedBytes} are charged, instances hold ${total}`,
  )
  must(total <= queryBudget.limitBytes, 'D2', () => `${total} bytes are reserved of ${queryBudget.limitBytes}`)
  must(dramJobs.open <= jobsMax && restoreJobs.open <= jobsMax, 'D2', () => 'more jobs are open than a lane takes')
  const { interests } = storage.gauges()
  must(interests >= holdsMin, 'O7', () => `${interests} interests cover ${holdsMin} that leases and queries hold`)
}
