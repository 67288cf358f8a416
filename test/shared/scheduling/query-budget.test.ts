import test from 'ava'
import fc from 'fast-check'
import {
  type InstanceBudget,
  QueryBudget,
  RESERVATION_PHASES,
  Reservation,
  type ReservationPhase,
  speculates,
} from '../../../src/shared/scheduling/query-budget.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

const LIMIT = 80
const LIMITS = [48, 60] as const

/** One reservation as a list remembers it. */
interface Naive {
  readonly instance: number
  bytes: number
  phase: ReservationPhase
  owners: number
  readonly real: Reservation
}
interface Model {
  readonly live: Naive[]
  peak: number
  instancePeak: number
}
interface Real {
  readonly all: QueryBudget
  readonly instances: readonly InstanceBudget[]
}

const total = (list: readonly Naive[], which: (each: Naive) => boolean = () => true) =>
  list.filter(which).reduce((sum, { bytes }) => sum + bytes, 0)

function property(Budget: typeof QueryBudget) {
  const phase = fc.constantFrom(...RESERVATION_PHASES)
  const reserve = fc.tuple(fc.nat(1), fc.nat(24), phase).map(([instance, bytes, wanted]) =>
    step<Model, Real>(`reserve(${instance}, ${bytes}, ${wanted})`, (model, real) => {
      const guess = speculates(wanted)
      const mine = (each: Naive) => each.instance === instance
      const guesses = (each: Naive) => speculates(each.phase)
      const limit = LIMITS[instance] as number
      const fits =
        total(model.live, mine) + bytes <= limit &&
        total(model.live) + bytes <= LIMIT &&
        (!guess || total(model.live, (each) => mine(each) && guesses(each)) + bytes <= Math.floor(limit / 4)) &&
        (!guess || total(model.live, guesses) + bytes <= LIMIT / 4)
      const reservation = (real.instances[instance] as InstanceBudget).reserve(bytes, wanted)
      expectEqual('admitted', reservation !== null, fits)
      if (reservation === null) return
      model.live.push({ instance, bytes, phase: wanted, owners: 1, real: reservation })
      model.peak = Math.max(model.peak, total(model.live))
      model.instancePeak = Math.max(model.instancePeak, total(model.live, mine))
    }),
  )
  const change = fc.tuple(fc.nat(99), phase, fc.nat(3), fc.nat(9)).map(([pick, to, what, part]) =>
    step<Model, Real>(
      `change(${pick}, ${to}, ${what}, ${part})`,
      (model) => {
        const each = model.live[pick % model.live.length] as Naive
        if (what === 0 && (speculates(each.phase) || !speculates(to))) {
          each.real.enter(to)
          each.phase = to
        } else if (what === 1) {
          each.bytes = Math.floor((each.bytes * part) / 10)
          each.real.shrink(each.bytes)
        } else if (what === 2) {
          each.owners++
          each.real.retain()
        } else {
          each.real.release()
          if (--each.owners === 0) model.live.splice(model.live.indexOf(each), 1)
        }
      },
      (model) => model.live.length > 0,
    ),
  )
  return modelProperty<Model, Real>(
    [reserve, change],
    () => {
      const all = new Budget(LIMIT)
      return {
        model: { live: [], peak: 0, instancePeak: 0 },
        real: { all, instances: LIMITS.map((limit) => all.instance(limit)) },
      }
    },
    ({ live, peak, instancePeak }, { all, instances }) => {
      expectEqual('all', all.total.chargedBytes, total(live))
      expectEqual(
        'speculation',
        all.speculative.chargedBytes,
        total(live, (each) => speculates(each.phase)),
      )
      for (const [index, instance] of instances.entries()) {
        const mine = (each: Naive) => each.instance === index
        expectEqual('instance', instance.total.chargedBytes, total(live, mine))
        expectEqual(
          'speculation of an instance',
          instance.speculative.chargedBytes,
          total(live, (each) => mine(each) && speculates(each.phase)),
        )
      }
      for (const each of RESERVATION_PHASES) {
        expectEqual(
          each,
          all.phaseBytes(each),
          total(live, (naive) => naive.phase === each),
        )
      }
      expectEqual('peaks', [all.total.peakBytes, all.instancePeakBytes], [peak, instancePeak])
      expectEqual('live', all.reservations.size, live.length)
    },
  )
}

test('QueryBudget: four counters, phases and peaks equal a list of reservations through any commands', (t) => {
  t.true(holds(property(QueryBudget), 300))
})

test('broken twin: a budget that speculation may fill whole is caught', (t) => {
  class AllForGuesses extends QueryBudget {
    override instance(limitBytes: number): InstanceBudget {
      const budget = super.instance(limitBytes)
      const reserve = budget.reserve.bind(budget)
      budget.reserve = (bytes, phase) => {
        if (!speculates(phase)) return reserve(bytes, phase)
        const reservation = reserve(bytes, 'ready')
        if (reservation !== null) reservation.enter('ready')
        return reservation
      }
      return budget
    }
  }
  t.true(catches(property(AllForGuesses)))
})

test('broken twin: a claim that frees what it converts is caught', (t) => {
  class Frees extends QueryBudget {
    override instance(limitBytes: number): InstanceBudget {
      const budget = super.instance(limitBytes)
      const reserve = budget.reserve.bind(budget)
      budget.reserve = (bytes, phase) => {
        const reservation = reserve(bytes, phase)
        if (reservation === null) return null
        const enter = reservation.enter.bind(reservation)
        reservation.enter = (to) => {
          const converts = speculates(reservation.phase) && !speculates(to)
          enter(to)
          if (converts) reservation.shrink(0)
        }
        return reservation
      }
      return budget
    }
  }
  t.true(catches(property(Frees)))
})

test('Reservation: a request never becomes speculation, and what has ended is not used again', (t) => {
  const broken = { code: 'invariant' }
  const reservation = new QueryBudget(100).instance(100).reserve(10, 'ready') as Reservation
  t.true(reservation instanceof Reservation)
  t.throws(() => reservation.enter('warming'), broken)
  t.throws(() => reservation.shrink(11), broken)
  reservation.release()
  t.throws(() => reservation.release(), broken)
  t.throws(() => reservation.retain(), broken)
})

test('InstanceBudget: the most that may ever be reserved is the smaller of both limits, a quarter for guesses', (t) => {
  const all = new QueryBudget(100)
  t.is(all.instance(60).limitBytes('ready'), 60)
  t.is(all.instance(60).limitBytes('preparing'), 15)
  t.is(all.instance(400).limitBytes('ready'), 100)
  t.is(all.instance(400).limitBytes('warming'), 25)
})
