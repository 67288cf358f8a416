import type { Context } from '../../../src/manager/context.js'
import type { ByteBudget } from '../../../src/shared/scheduling/byte-budget.js'
import {
  type InstanceBudget,
  type QueryBudget,
  RESERVATION_PHASES,
  type Reservation,
  type ReservationPhase,
  speculates,
} from '../../../src/shared/scheduling/query-budget.js'
import { must } from '../violation.js'

/**
 * The full scan of what verbs own, against what they keep step by step: budgets are the sum of what is charged to them,
 * leases and queries are listed where they must be and nowhere else (O1, O8, D2, D3). `interests`: all that storage has.
 */
export function checkVerbs(context: Context, jobsMax: number, interests: number): void {
  const { queries, leaseRecords, leases, sessions, queryBudget, devices } = context
  const { preparations, warmings } = context
  let leased = 0
  let asked = 0
  let prepared = 0
  let hinted = 0
  let holdsMin = 0
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
      checkReservation(queryBudget, query.reservation, query.selection.bytes, () => `ticket ${ticket}`)
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
      checkReservation(queryBudget, record.reservation, 1, () => `lease ${lease}`)
    }
    for (const ticket of session.preparations.values()) {
      const preparation = preparations.find(ticket)
      must(preparation?.query.session === session, 'O1', () => `preparation ${ticket} of session ${session.number}`)
      if (preparation === undefined) continue
      prepared++
      const { selection, reservation } = preparation.query
      holdsMin += selection.entries.length
      checkReservation(queryBudget, reservation, selection.bytes, () => `preparation ${ticket}`)
    }
    for (const ticket of session.warmings) {
      must(warmings.get(ticket)?.session === session, 'O1', () => `hint ${ticket} of session ${session.number}`)
      hinted++
    }
    const speculation = session.preparations.size + session.warmings.size
    must(session.phase !== 'leaving' || speculation === 0, 'O2', () => 'a leaver speculates')
    must(session.phase !== 'leaving' || session.queries.size + session.leases.size === 0, 'O2', () => 'a leaver holds')
  }
  must(queries.count === asked, 'O1', () => `${queries.count} queries are open, sessions list ${asked}`)
  must(leaseRecords.count === leased, 'O1', () => `${leaseRecords.count} leases are recorded, sessions list ${leased}`)
  must(leases.live === leased, 'O1', () => `${leases.live} leases live, ${leased} are recorded`)
  must(preparations.count === prepared, 'O1', () => `${preparations.count} preparations, sessions list ${prepared}`)
  must(warmings.count === hinted, 'O1', () => `${warmings.count} hints are open, sessions list ${hinted}`)
  checkBudgets(context)
  for (const { dramJobs, restoreJobs, ssd } of devices) {
    const most = Math.max(dramJobs.open, restoreJobs.open, ssd?.jobs.open ?? 0)
    must(most <= jobsMax, 'D2', () => 'more jobs are open than a lane takes')
  }
  must(interests >= holdsMin, 'O7', () => `${interests} interests cover ${holdsMin} that leases and queries hold`)
}

function checkReservation(budget: QueryBudget, reservation: Reservation, bytesMin: number, what: () => string): void {
  must(budget.reservations.has(reservation), 'D3', () => `${what()} has a reservation that ended`)
  must(reservation.bytes >= bytesMin, 'D3', () => `${what()} reserves ${reservation.bytes} for ${bytesMin}`)
}

/** Every counter of the budgets against a recount of the reservations that live. */
function checkBudgets({ queryBudget, instances }: Context): void {
  const sums = new Map<InstanceBudget, { total: number; speculative: number }>()
  for (const { budget } of instances) sums.set(budget, { total: 0, speculative: 0 })
  let total = 0
  let speculative = 0
  const phases = new Map<ReservationPhase, number>()
  for (const { instance, bytes, phase } of queryBudget.reservations) {
    const sum = sums.get(instance) ?? { total: 0, speculative: 0 }
    sums.set(instance, sum)
    sum.total += bytes
    total += bytes
    phases.set(phase, (phases.get(phase) ?? 0) + bytes)
    if (!speculates(phase)) continue
    sum.speculative += bytes
    speculative += bytes
  }
  for (const [instance, sum] of sums) {
    checkCounter('an instance', instance.total, sum.total)
    checkCounter('speculation of an instance', instance.speculative, sum.speculative)
  }
  checkCounter('all instances', queryBudget.total, total)
  checkCounter('all speculation', queryBudget.speculative, speculative)
  for (const phase of RESERVATION_PHASES) {
    const sum = phases.get(phase) ?? 0
    must(queryBudget.phaseBytes(phase) === sum, 'D3', () => `phase ${phase}: ${queryBudget.phaseBytes(phase)}, ${sum}`)
  }
}

function checkCounter(what: string, { chargedBytes, limitBytes, peakBytes }: ByteBudget, sum: number): void {
  must(chargedBytes === sum, 'D3', () => `${what}: ${chargedBytes} are charged, reservations hold ${sum}`)
  must(sum <= limitBytes, 'D2', () => `${what}: ${sum} bytes are reserved of ${limitBytes}`)
  must(peakBytes >= sum, 'D3', () => `${what}: the peak ${peakBytes} is below ${sum}`)
}
