import test from 'ava'
import fc from 'fast-check'
import { type Interests, LEASES_FULL, LeaseTable } from '../../../src/shared/leases/lease-table.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

const LEASES_MAX = 5
const ENTRIES = 6
const INSTANCES = 3

interface NaiveLease {
  readonly id: number
  readonly instance: number
  readonly entries: number[]
  readonly ranks: number
  readonly redeemed: Set<number>
  expiresUs: number
}

/** Leases as a list that is searched, interests as a count a lease and a count a running restore. */
interface Model {
  readonly leases: NaiveLease[]
  readonly ended: Map<number, 'redeemed' | 'released' | 'expired' | 'dropped'>
  /** Interests that redeemers own. */
  readonly restores: number[][]
  nowUs: number
  granted: number
  peak: number
}

/** The table and the interests it holds and drops. */
interface Real {
  readonly table: LeaseTable
  readonly counts: number[]
}

function code(model: Model, id: number, instance: number): string {
  const lease = model.leases.find((each) => each.id === id)
  if (lease === undefined) {
    // The table remembers as many ended leases as may live, by number; a newer one takes an older one's place.
    const remembered = [...model.ended.keys()].filter((each) => each % LEASES_MAX === id % LEASES_MAX).at(-1)
    const end = remembered === id ? model.ended.get(id) : undefined
    if (end === 'redeemed') return 'lease_already_redeemed'
    return end === 'expired' ? 'lease_expired' : 'lease_unknown'
  }
  if (lease.instance !== instance) return 'lease_wrong_instance'
  return model.nowUs >= lease.expiresUs ? 'lease_expired' : 'ok'
}

function end(model: Model, lease: NaiveLease, how: 'redeemed' | 'released' | 'expired' | 'dropped'): void {
  model.leases.splice(model.leases.indexOf(lease), 1)
  model.ended.set(lease.id, how)
}

function redeem(model: Model, id: number, instance: number, rank: number): string {
  const first = code(model, id, instance)
  if (first !== 'ok') return first
  const lease = model.leases.find((each) => each.id === id) as NaiveLease
  return lease.redeemed.has(rank) ? 'lease_already_redeemed' : 'ok'
}

function take(model: Model, id: number, rank: number): number[] {
  const lease = model.leases.find((each) => each.id === id) as NaiveLease
  model.restores.push(lease.entries)
  lease.redeemed.add(rank)
  if (lease.redeemed.size === lease.ranks) end(model, lease, 'redeemed')
  return lease.entries
}

const anyInstance = fc.nat(INSTANCES - 1)
/** Live leases, ended ones, and numbers that never were: counted back from the newest. */
const anyLease = fc.integer({ min: -1, max: 8 })
const named = (model: Model, back: number) => model.granted - back

function leaseProperty(Table: typeof LeaseTable) {
  const grant = fc
    .record({
      instance: anyInstance,
      entries: fc.uniqueArray(fc.nat(ENTRIES - 1), { maxLength: 4 }),
      ranks: fc.integer({ min: 1, max: 3 }),
      livesUs: fc.integer({ min: 0, max: 20 }),
    })
    .map(({ instance, entries, ranks, livesUs }) =>
      step<Model, Real>(
        `grant(${instance}, [${entries}], ${ranks} ranks, ${livesUs} us)`,
        (model, { table, counts }) => {
          const expiresUs = model.nowUs + livesUs
          for (const entry of entries) counts[entry] = (counts[entry] as number) + 1
          const id = table.grant({ instance, entries: Int32Array.from(entries), ranks, expiresUs })
          if (model.leases.length === LEASES_MAX) {
            expectEqual('a grant at the cap', id, LEASES_FULL)
            for (const entry of entries) counts[entry] = (counts[entry] as number) - 1
            return
          }
          expectEqual('the new lease', id, ++model.granted)
          model.leases.push({ id, instance, entries, ranks, redeemed: new Set(), expiresUs })
          model.peak = Math.max(model.peak, model.leases.length)
        },
      ),
    )
  // A rank outside the instance's world is a bug of the caller, so ranks are drawn inside it.
  const one = fc.tuple(anyLease, anyInstance, fc.nat(99)).map(([back, instance, choice]) =>
    step<Model, Real>(`redeem(newest - ${back}, ${instance}, ${choice})`, (model, { table }) => {
      const id = named(model, back)
      const rank = choice % (model.leases.find((lease) => lease.id === id)?.ranks ?? 1)
      const expected = redeem(model, id, instance, rank)
      expectEqual('check', table.check(id, instance, rank, model.nowUs), expected)
      const got = table.redeem(id, instance, rank, model.nowUs)
      if (expected === 'ok') expectEqual('redeem', 'entries' in got && [...got.entries], take(model, id, rank))
      else expectEqual('redeem', got, { error: expected })
    }),
  )
  const several = fc.tuple(fc.array(anyLease, { maxLength: 3 }), anyInstance).map(([backs, instance]) =>
    step<Model, Real>(`redeemAll([${backs}], ${instance})`, (model, { table }) => {
      const ids = backs.map((back) => named(model, back))
      const codes = ids.map((id, index) =>
        ids.indexOf(id) < index ? 'lease_already_redeemed' : redeem(model, id, instance, 0),
      )
      const bad = codes.findIndex((each) => each !== 'ok')
      const got = table.redeemAll(ids, instance, 0, model.nowUs)
      if (bad >= 0) expectEqual('redeemAll', got, { error: codes[bad], lease: ids[bad] })
      else
        expectEqual(
          'redeemAll',
          'entries' in got && got.entries.map((entries) => [...entries]),
          ids.map((id) => take(model, id, 0)),
        )
    }),
  )
  const renew = fc.tuple(anyLease, anyInstance, fc.integer({ min: -5, max: 30 })).map(([back, instance, byUs]) =>
    step<Model, Real>(`renew(newest - ${back}, ${instance}, now + ${byUs})`, (model, { table }) => {
      const id = named(model, back)
      const expected = code(model, id, instance)
      expectEqual('renew', table.renew(id, instance, model.nowUs + byUs, model.nowUs), expected)
      const lease = model.leases.find((each) => each.id === id)
      if (expected === 'ok' && lease !== undefined) lease.expiresUs = Math.max(lease.expiresUs, model.nowUs + byUs)
    }),
  )
  const release = fc.tuple(anyLease, anyInstance).map(([back, instance]) =>
    step<Model, Real>(`release(newest - ${back}, ${instance})`, (model, { table }) => {
      const id = named(model, back)
      const lease = model.leases.find((each) => each.id === id)
      const ended = id > 0 && id <= model.granted ? 'ok' : 'lease_unknown'
      const live = lease?.instance === instance ? 'ok' : 'lease_wrong_instance'
      expectEqual('release', table.release(id, instance), lease === undefined ? ended : live)
      if (lease !== undefined && live === 'ok') end(model, lease, 'released')
    }),
  )
  const expire = fc.nat(8).map((byUs) =>
    step<Model, Real>(`expire(now + ${byUs})`, (model, { table }) => {
      model.nowUs += byUs
      const due = model.leases.filter((lease) => model.nowUs >= lease.expiresUs)
      due.sort((a, b) => a.expiresUs - b.expiresUs || a.id - b.id)
      const ended: number[] = []
      table.expire(model.nowUs, ended)
      expectEqual(
        'expired',
        ended,
        due.map((lease) => lease.id),
      )
      for (const lease of due) end(model, lease, 'expired')
    }),
  )
  const dropInstance = anyInstance.map((instance) =>
    step<Model, Real>(`dropInstance(${instance})`, (model, { table }) => {
      const gone = model.leases.filter((lease) => lease.instance === instance)
      const ended: number[] = []
      table.dropInstance(instance, ended)
      expectEqual(
        'dropped',
        ended,
        gone.map((lease) => lease.id),
      )
      for (const lease of gone) end(model, lease, 'dropped')
    }),
  )
  const finish = fc.nat(99).map((choice) =>
    step<Model, Real>(
      `a restore ends(${choice})`,
      (model, { counts }) => {
        const [entries] = model.restores.splice(choice % model.restores.length, 1)
        for (const entry of entries ?? []) counts[entry] = (counts[entry] as number) - 1
      },
      (model) => model.restores.length > 0,
    ),
  )
  return modelProperty<Model, Real>(
    [grant, grant, one, one, several, renew, release, expire, dropInstance, finish],
    () => {
      const counts = new Array<number>(ENTRIES).fill(0)
      const interests = {
        hold: (entry: number) => {
          // What is held anew must be held already: a lease hands over, it does not raise the dead.
          if (counts[entry] === 0) throw new Error(`entry ${entry} is held after its last interest dropped`)
          counts[entry] = (counts[entry] as number) + 1
        },
        drop: (entry: number) => {
          if (counts[entry] === 0) throw new Error(`entry ${entry} is dropped and nobody holds it`)
          counts[entry] = (counts[entry] as number) - 1
        },
      }
      const model: Model = { leases: [], ended: new Map(), restores: [], nowUs: 0, granted: 0, peak: 0 }
      return { model, real: { table: new Table(LEASES_MAX, interests), counts } }
    },
    (model, { table, counts }) => {
      const held = [...model.leases.map((lease) => lease.entries), ...model.restores].flat()
      expectEqual(
        'interests',
        counts,
        counts.map((_, entry) => held.filter((each) => each === entry).length),
      )
      const times = model.leases.map((lease) => lease.expiresUs)
      expectEqual('live', [table.live, table.peak], [model.leases.length, model.peak])
      expectEqual('nextExpiryUs', table.nextExpiryUs, Math.min(Number.POSITIVE_INFINITY, ...times))
    },
    80,
  )
}

test('LeaseTable: any commands leave leases, answers and interests equal to a list that is searched', (t) => {
  t.true(holds(leaseProperty(LeaseTable), 500))
})

test('broken twin: a table that drops twice at the end of a lease is caught', (t) => {
  class DropsTwice extends LeaseTable {
    constructor(leasesMax: number, { hold, drop }: Interests) {
      const twice = (entry: number) => {
        drop(entry)
        drop(entry)
      }
      super(leasesMax, { hold, drop: twice })
    }
  }
  t.true(catches(leaseProperty(DropsTwice)))
})

test('broken twin: a table that expires one microsecond late is caught', (t) => {
  class Late extends LeaseTable {
    override expire(nowUs: number, ended: number[]): void {
      super.expire(nowUs - 1, ended)
    }
  }
  t.true(catches(leaseProperty(Late)))
})

test('broken twin: a table that redeems some leases before it refuses another is caught', (t) => {
  class Piecemeal extends LeaseTable {
    override redeemAll(leases: readonly number[], instance: number, rank: number, nowUs: number) {
      const entries: Int32Array[] = []
      for (const lease of leases) {
        const got = this.redeem(lease, instance, rank, nowUs)
        if ('error' in got) return { error: got.error, lease }
        entries.push(got.entries)
      }
      return { entries }
    }
  }
  t.true(catches(leaseProperty(Piecemeal)))
})

test('LeaseTable: the redeemer holds each entry before the last redemption drops it', (t) => {
  const calls: string[] = []
  const table = new LeaseTable(4, {
    hold: (entry) => calls.push(`hold ${entry}`),
    drop: (entry) => calls.push(`drop ${entry}`),
  })
  const lease = table.grant({ instance: 1, entries: Int32Array.of(7, 9), ranks: 2, expiresUs: 100 })
  table.redeem(lease, 1, 1, 0)
  t.deepEqual(calls, ['hold 7', 'hold 9'])
  table.redeem(lease, 1, 0, 0)
  t.deepEqual(calls.slice(2), ['hold 7', 'hold 9', 'drop 7', 'drop 9'])
  t.is(table.live, 0)
})

test('LeaseTable: a lease is dead from the microsecond in which it expires, swept or not', (t) => {
  const table = new LeaseTable(4, { hold: () => undefined, drop: () => undefined })
  const lease = table.grant({ instance: 1, entries: Int32Array.of(7), ranks: 1, expiresUs: 100 })
  t.is(table.check(lease, 1, 0, 99), 'ok')
  t.is(table.check(lease, 1, 0, 100), 'lease_expired')
  t.is(table.renew(lease, 1, 500, 100), 'lease_expired')
  table.expire(100, [])
  t.is(table.check(lease, 1, 0, 100), 'lease_expired')
  t.is(table.release(lease, 1), 'ok')
})

test('LeaseTable: numbers end at 2^53 - 1 with a refusal, they never wrap', (t) => {
  const interests = { hold: () => undefined, drop: () => undefined }
  const table = new LeaseTable(4, interests, Number.MAX_SAFE_INTEGER - 2)
  const grant = () => table.grant({ instance: 1, entries: Int32Array.of(1), ranks: 1, expiresUs: 1 })
  t.deepEqual([grant(), grant(), grant()], [Number.MAX_SAFE_INTEGER - 2, Number.MAX_SAFE_INTEGER - 1, LEASES_FULL])
})

test('LeaseTable: a rank outside the instance is an invariant', (t) => {
  const table = new LeaseTable(4, { hold: () => undefined, drop: () => undefined })
  const lease = table.grant({ instance: 1, entries: Int32Array.of(1), ranks: 2, expiresUs: 1 })
  t.throws(() => table.redeem(lease, 1, 2, 0), { code: 'invariant' })
  t.throws(() => table.redeem(lease, 1, -1, 0), { code: 'invariant' })
})

test('LeaseTable: ten thousand leases expire in order however they were granted and renewed', (t) => {
  const table = new LeaseTable(10_000, { hold: () => undefined, drop: () => undefined })
  const times = new Map<number, number>()
  for (let index = 0; index < 10_000; index++) {
    const expiresUs = (index * 7919) % 10_007
    times.set(table.grant({ instance: 1, entries: Int32Array.of(index), ranks: 1, expiresUs }), expiresUs)
  }
  for (const lease of times.keys()) {
    if (lease % 3 !== 0) continue
    const expiresUs = (times.get(lease) as number) + ((lease * 31) % 5000)
    table.renew(lease, 1, expiresUs, -1)
    times.set(lease, expiresUs)
  }
  const ended: number[] = []
  for (let nowUs = 0; table.live > 0; nowUs += 10) table.expire(nowUs, ended)
  const inOrder = [...times].sort(([a, at], [b, bt]) => at - bt || a - b).map(([lease]) => lease)
  t.deepEqual(ended, inOrder)
})
