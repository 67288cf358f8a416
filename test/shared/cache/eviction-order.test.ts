import test from 'ava'
import fc from 'fast-check'
import { EvictionOrder, type SlotFacts } from '../../../src/shared/cache/eviction-order.js'
import { NONE } from '../../../src/shared/directory/directory.js'
import { RESIDENT_CLASS, type ResidentClass, ResidentTable } from '../../../src/shared/directory/resident-table.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

const { reclaimable, probationary, retained } = RESIDENT_CLASS
const CAP = 10

/** Three lists of slots, least recently used first, and who is in use. */
interface Lists {
  readonly lists: [number[], number[], number[]]
  readonly bytes: Map<number, number>
  readonly busy: Set<number>
  promotions: number
  demotions: number
}
interface Real {
  readonly table: ResidentTable
  readonly order: EvictionOrder
}

type Make = (table: ResidentTable, facts: SlotFacts, protectedBytesMax: number) => EvictionOrder

const classOf = ({ lists }: Lists, slot: number) => lists.findIndex((list) => list.includes(slot)) as ResidentClass
const slots = ({ lists }: Lists) => lists.flat()
const bytesIn = ({ bytes }: Lists, list: readonly number[]) =>
  list.reduce((sum, slot) => sum + (bytes.get(slot) as number), 0)

function moveTo(model: Lists, slot: number, to: ResidentClass): void {
  for (const list of model.lists) if (list.includes(slot)) list.splice(list.indexOf(slot), 1)
  model.lists[to].push(slot)
}

/** Promotion as the rules say it: the oldest retained that are idle make room; none of it when room cannot be made. */
function naiveUse(model: Lists, slot: number, cap: number): void {
  if (classOf(model, slot) === retained) return moveTo(model, slot, retained)
  const bytes = model.bytes.get(slot) as number
  for (const oldest of [...model.lists[retained]]) {
    if (bytes > cap || bytesIn(model, model.lists[retained]) + bytes <= cap) break
    if (model.busy.has(oldest)) continue
    moveTo(model, oldest, probationary)
    model.demotions++
  }
  if (bytesIn(model, model.lists[retained]) + bytes > cap) return moveTo(model, slot, probationary)
  moveTo(model, slot, retained)
  model.promotions++
}

/** The first idle one in class order; busy ones that stand before it count as used now. */
function naiveVictim(model: Lists): number {
  for (const list of model.lists) {
    for (const slot of [...list]) {
      if (!model.busy.has(slot)) return slot
      list.push(list.shift() as number)
    }
  }
  return NONE
}

function property(make: Make, cap = CAP) {
  const arrive = fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 4 })).map(([guessed, bytes]) =>
    step<Lists, Real>(`arrive(${guessed}, ${bytes})`, (model, { table, order }) => {
      const slot = table.add(bytes, 0)
      if (slot === NONE) return
      model.bytes.set(slot, bytes)
      model.lists[guessed ? reclaimable : probationary].push(slot)
      order.arrived(slot, guessed)
    }),
  )
  const pickOf = (label: string, run: (model: Lists, real: Real, slot: number) => void) =>
    fc.nat(99).map((pick) =>
      step<Lists, Real>(
        `${label}(${pick})`,
        (model, real) => run(model, real, slots(model)[pick % slots(model).length] as number),
        (model) => slots(model).length > 0,
      ),
    )
  const use = pickOf('use', (model, { order }, slot) => {
    naiveUse(model, slot, cap)
    order.used(slot)
  })
  const toggle = pickOf('busy', (model, _, slot) => {
    if (!model.busy.delete(slot)) model.busy.add(slot)
  })
  const leave = pickOf('leave', (model, { table, order }, slot) => {
    order.leaving(slot)
    table.remove(slot)
    for (const list of model.lists) if (list.includes(slot)) list.splice(list.indexOf(slot), 1)
    model.busy.delete(slot)
  })
  const evict = fc.constant(
    step<Lists, Real>('evict', (model, { table, order }) => {
      const slot = naiveVictim(model)
      expectEqual('victim', order.victim(), slot)
      if (slot === NONE) return
      order.leaving(slot)
      table.remove(slot)
      const list = model.lists[classOf(model, slot)]
      list.splice(list.indexOf(slot), 1)
    }),
  )
  return modelProperty<Lists, Real>(
    [arrive, arrive, use, use, use, toggle, leave, evict],
    () => {
      const model: Lists = { lists: [[], [], []], bytes: new Map(), busy: new Set(), promotions: 0, demotions: 0 }
      const table = new ResidentTable(24)
      const facts = {
        bytes: (slot: number) => model.bytes.get(slot) as number,
        idle: (slot: number) => !model.busy.has(slot),
      }
      return { model, real: { table, order: make(table, facts, cap) } }
    },
    (model, { table, order }) => {
      for (const of of [reclaimable, probationary, retained]) {
        const list: number[] = []
        for (let slot = table.oldest(of); slot !== NONE; slot = table.newer(slot)) list.push(slot)
        expectEqual(`class ${of}`, list, model.lists[of])
        expectEqual(`blocks of class ${of}`, order.blocks(of), list.length)
      }
      expectEqual('protected bytes', order.protectedBytes, bytesIn(model, model.lists[retained]))
      if (order.protectedBytes > cap) throw new Error('the protected segment is over its limit')
      expectEqual('moves', [order.promotions, order.demotions], [model.promotions, model.demotions])
    },
    80,
  )
}

const real: Make = (table, facts, max) => new EvictionOrder(table, facts, max)

test('EvictionOrder: three lists, promotions and victims equal the naive rules through any commands', (t) => {
  t.true(holds(property(real), 400))
})

test('EvictionOrder: without a protected segment it is reclaimable before plain LRU', (t) => {
  t.true(
    holds(
      property((table, facts) => real(table, facts, 0), 0),
      200,
    ),
  )
})

test('broken twins: demoting what is in use, evicting retained first, and a limit passed by one are caught', (t) => {
  t.true(catches(property((table, facts, max) => real(table, { ...facts, idle: () => true }, max))))
  t.true(catches(property((table, facts, max) => real(table, facts, max + 1))))
  class Backwards extends EvictionOrder {
    override arrived(slot: number, guessed: boolean): void {
      super.arrived(slot, !guessed)
    }
  }
  t.true(catches(property((table, facts, max) => new Backwards(table, facts, max))))
})
