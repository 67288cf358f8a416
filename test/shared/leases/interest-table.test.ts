import test from 'ava'
import fc from 'fast-check'
import { InterestTable } from '../../../src/shared/leases/interest-table.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

interface Model {
  readonly counts: Map<number, number>
  readonly zeros: number[]
}
interface Real {
  readonly table: InterestTable
  readonly zeros: number[]
}

function interestProperty(Table: typeof InterestTable) {
  const entry = fc.oneof(fc.nat(3), fc.constantFrom(63, 64, 200, 999))
  const hold = entry.map((which) =>
    step<Model, Real>(`hold(${which})`, (model, { table }) => {
      model.counts.set(which, (model.counts.get(which) ?? 0) + 1)
      table.hold(which)
    }),
  )
  const drop = entry.map((which) =>
    step<Model, Real>(
      `drop(${which})`,
      (model, { table }) => {
        const count = (model.counts.get(which) as number) - 1
        model.counts.set(which, count)
        if (count === 0) model.zeros.push(which)
        table.drop(which)
      },
      (model) => (model.counts.get(which) ?? 0) > 0,
    ),
  )
  return modelProperty<Model, Real>(
    [hold, drop],
    () => {
      const zeros: number[] = []
      return {
        model: { counts: new Map(), zeros: [] },
        real: { table: new Table(1000, (which) => zeros.push(which)), zeros },
      }
    },
    (model, { table, zeros }) => {
      for (const which of [0, 1, 2, 3, 63, 64, 200, 999]) {
        expectEqual(`count(${which})`, table.count(which), model.counts.get(which) ?? 0)
      }
      expectEqual(
        'held',
        table.held,
        [...model.counts.values()].reduce((sum, count) => sum + count, 0),
      )
      expectEqual('zeros', zeros, model.zeros)
    },
  )
}

test('InterestTable: counts equal live interests, and zero is called at the last drop alone', (t) => {
  t.true(holds(interestProperty(InterestTable), 200))
})

test('broken twin: a table that calls zero one drop early is caught', (t) => {
  class Early extends InterestTable {
    override drop(entry: number): void {
      if (this.count(entry) === 2) super.drop(entry)
      super.drop(entry)
    }
  }
  t.true(catches(interestProperty(Early)))
})

test('InterestTable: dropping what nobody holds and naming no entry are invariants', (t) => {
  const table = new InterestTable(4, () => undefined)
  table.hold(3)
  for (const entry of [4, -1, 0.5]) t.throws(() => table.hold(entry), { code: 'invariant' })
  table.drop(3)
  t.throws(() => table.drop(3), { code: 'invariant' })
  t.throws(() => table.drop(100), { code: 'invariant' })
})
