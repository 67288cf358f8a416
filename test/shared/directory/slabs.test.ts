import test from 'ava'
import fc from 'fast-check'
import { NONE } from '../../../src/shared/directory/directory.js'
import { GranuleSlab } from '../../../src/shared/directory/granule-slab.js'
import { ResidentTable } from '../../../src/shared/directory/resident-table.js'
import { catches, holds, modelProperty, step } from '../../support/model-commands.js'

const SLOTS = 6
const GRANULES = 3

interface SlabModel {
  readonly slots: Map<number, number[]>
}

const same = (what: string, real: unknown, model: unknown): void => {
  if (JSON.stringify(real) !== JSON.stringify(model))
    throw new Error(`${what}: real ${JSON.stringify(real)}, model ${JSON.stringify(model)}`)
}
const nth = fc.nat(20)
const at = <T>(list: readonly T[], n: number): T => list[n % list.length] as T

function slabModel(make: () => GranuleSlab): fc.IProperty<[Iterable<fc.Command<SlabModel, GranuleSlab>>]> {
  const some = (model: SlabModel): boolean => model.slots.size > 0
  return modelProperty(
    [
      fc.constant(
        step<SlabModel, GranuleSlab>('allocate', (model, real) => {
          const slot = real.allocate()
          same('room', slot !== -1, model.slots.size < SLOTS)
          if (slot === -1) return
          same('slot is new', model.slots.has(slot), false)
          model.slots.set(slot, new Array<number>(GRANULES).fill(0))
        }),
      ),
      nth.map((n) =>
        step<SlabModel, GranuleSlab>(
          `free ${n}`,
          (model, real) => {
            const slot = at([...model.slots.keys()], n)
            real.free(slot)
            model.slots.delete(slot)
          },
          some,
        ),
      ),
      fc.tuple(nth, fc.nat(GRANULES - 1), fc.integer({ min: 0, max: 2 ** 32 - 1 })).map(([n, granule, value]) =>
        step<SlabModel, GranuleSlab>(
          `set ${n} ${granule} ${value}`,
          (model, real) => {
            const slot = at([...model.slots.keys()], n)
            real.set(slot, granule, value)
            ;(model.slots.get(slot) as number[])[granule] = value
          },
          some,
        ),
      ),
    ],
    () => ({ model: { slots: new Map<number, number[]>() }, real: make() }),
    (model, real) => {
      same('live', real.live, model.slots.size)
      for (const [slot, values] of model.slots)
        same(
          `slot ${slot}`,
          values.map((_, granule) => real.get(slot, granule)),
          values,
        )
    },
  )
}

test('GranuleSlab: equal to a map through any commands', (t) => {
  t.true(
    holds(
      slabModel(() => new GranuleSlab(GRANULES, SLOTS)),
      300,
    ),
  )
})

test('GranuleSlab: a twin that hands a slot on with its old values is caught', (t) => {
  class Stale extends GranuleSlab {
    private readonly old = new Map<number, number[]>()
    override free(slot: number): void {
      this.old.set(
        slot,
        Array.from({ length: GRANULES }, (_, granule) => this.get(slot, granule)),
      )
      super.free(slot)
    }
    override allocate(): number {
      const slot = super.allocate()
      this.old.get(slot)?.forEach((value, granule) => {
        this.set(slot, granule, value)
      })
      return slot
    }
  }
  t.true(catches(slabModel(() => new Stale(GRANULES, SLOTS))))
})

test('GranuleSlab: a double free, a use after free and a granule outside the class stop at once', (t) => {
  const slab = new GranuleSlab(GRANULES, SLOTS)
  const slot = slab.allocate()
  const invariant = { message: /^Broken invariant/ }
  t.throws(() => slab.get(slot, GRANULES), invariant)
  slab.free(slot)
  t.throws(() => slab.free(slot), invariant)
  t.throws(() => slab.set(slot, 0, 1), invariant)
  t.throws(() => slab.free(SLOTS), invariant)
})

test('GranuleSlab: slots beyond one segment keep their values, and a segment stays within 1 MiB', (t) => {
  for (const [granules, slots] of [
    [2, 200_000],
    [5000, 150],
    [65_536, 12],
  ] as const) {
    const slab = new GranuleSlab(granules, slots)
    let growthMost = 0
    for (let slot = 0; slot < slots; slot++) {
      const before = slab.bytesReserved
      slab.set(slab.allocate(), granules - 1, slot * 3)
      growthMost = Math.max(growthMost, slab.bytesReserved - before)
    }
    t.is(slab.allocate(), -1)
    t.true(growthMost <= 2 ** 20, `${growthMost}`)
    t.is(slab.bytesReserved, slots * (granules + 1) * 4)
    for (let slot = 0; slot < slots; slot++) if (slab.get(slot, granules - 1) !== slot * 3) t.fail(`slot ${slot}`)
  }
})

/** Slots from the least to the most recently used. */
interface Recency {
  readonly order: { slot: number; entry: number; granuleSlot: number }[]
}

function residentModel(make: () => ResidentTable): fc.IProperty<[Iterable<fc.Command<Recency, ResidentTable>>]> {
  const some = (model: Recency): boolean => model.order.length > 0
  return modelProperty(
    [
      fc.tuple(fc.nat(2 ** 27), fc.nat(2 ** 24)).map(([entry, granuleSlot]) =>
        step<Recency, ResidentTable>(`add ${entry}`, (model, real) => {
          const slot = real.add(entry, granuleSlot)
          same('room', slot !== NONE, model.order.length < SLOTS)
          if (slot !== NONE) model.order.push({ slot, entry, granuleSlot })
        }),
      ),
      nth.map((n) =>
        step<Recency, ResidentTable>(
          `touch ${n}`,
          (model, real) => {
            const used = at(model.order, n)
            real.touch(used.slot)
            model.order.splice(model.order.indexOf(used), 1)
            model.order.push(used)
          },
          some,
        ),
      ),
      nth.map((n) =>
        step<Recency, ResidentTable>(
          `remove ${n}`,
          (model, real) => {
            const [removed] = model.order.splice(n % model.order.length, 1)
            real.remove(removed?.slot ?? NONE)
          },
          some,
        ),
      ),
    ],
    () => ({ model: { order: [] }, real: make() }),
    (model, real) => {
      same('live', real.live, model.order.length)
      const seen = []
      for (let slot = real.oldest(); slot !== NONE; slot = real.newer(slot)) {
        seen.push({ slot, entry: real.entry(slot), granuleSlot: real.granuleSlot(slot) })
        if (seen.length > SLOTS) throw new Error('the list is a circle')
      }
      same('order', seen, model.order)
    },
  )
}

test('ResidentTable: equal to an ordered list through any commands', (t) => {
  t.true(
    holds(
      residentModel(() => new ResidentTable(SLOTS)),
      300,
    ),
  )
})

test('ResidentTable: twins that do not move what is touched, or only the oldest, are caught', (t) => {
  class Fifo extends ResidentTable {
    override touch(): void {}
  }
  class OldestOnly extends ResidentTable {
    override touch(slot: number): void {
      if (slot === this.oldest()) super.touch(slot)
    }
  }
  t.true(catches(residentModel(() => new Fifo(SLOTS))))
  t.true(catches(residentModel(() => new OldestOnly(SLOTS))))
})
