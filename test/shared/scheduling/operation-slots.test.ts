import test from 'ava'
import fc from 'fast-check'
import { OperationSlots } from '../../../src/shared/scheduling/operation-slots.js'

type Slots = Pick<OperationSlots, 'acquire' | 'tagOf' | 'resolve' | 'release' | 'heldCount' | 'freeCount' | 'capacity'>

const actions = fc.array(
  fc.record({ act: fc.constantFrom('acquire', 'release', 'stray'), pick: fc.nat({ max: 1000 }) }),
  { maxLength: 120 },
)

/** The naive model is a Map from live tags to places and the list of every tag that died. */
function agrees(slots: Slots, steps: readonly { act: string; pick: number }[]): boolean {
  const live = new Map<number, number>()
  const dead: number[] = []
  for (const { act, pick } of steps) {
    if (act === 'acquire') {
      const place = slots.acquire()
      if (place < 0 !== (live.size === slots.capacity)) return false
      if (place < 0) continue
      const tag = slots.tagOf(place)
      if (tag < 0 || tag >= 2 ** 31 || live.has(tag) || [...live.values()].includes(place)) return false
      live.set(tag, place)
    } else if (act === 'release' && live.size > 0) {
      const [tag, place] = [...live][pick % live.size] as [number, number]
      slots.release(place)
      live.delete(tag)
      dead.push(tag)
    } else if (dead.length > 0) {
      if (slots.resolve(dead[pick % dead.length] as number) !== -1) return false
    }
    if (slots.heldCount !== live.size || slots.freeCount !== slots.capacity - live.size) return false
    for (const [tag, place] of live) if (slots.resolve(tag) !== place) return false
  }
  return true
}

test('OperationSlots: agrees with a map of live tags, and a dead tag never resolves', (t) => {
  fc.assert(
    fc.property(fc.constantFrom(1, 2, 8), actions, (capacity, steps) => agrees(new OperationSlots(capacity), steps)),
  )
  t.pass()
})

test('OperationSlots: the property catches a table that forgets generations', (t) => {
  class Forgetful extends OperationSlots {
    override tagOf(place: number): number {
      return super.tagOf(place) % this.capacity
    }
    override resolve(tag: number): number {
      return tag < this.heldCount ? tag : -1
    }
  }
  const found = fc.check(
    fc.property(fc.constantFrom(1, 2, 8), actions, (capacity, steps) => agrees(new Forgetful(capacity), steps)),
  )
  t.true(found.failed)
})

test('OperationSlots: numbers that are no tag are strays', (t) => {
  const slots = new OperationSlots(4)
  slots.acquire()
  for (const tag of [-1, 2 ** 31, 1.5, Number.NaN, 4095]) t.is(slots.resolve(tag), -1)
})

test('OperationSlots: generations wrap inside 31 bits', (t) => {
  const capacity = 1 << 20
  const slots = new OperationSlots(capacity)
  const first = slots.acquire()
  for (let use = 0; use < 5000; use++) {
    const tag = slots.tagOf(first)
    t.true(tag >= 0 && tag < 2 ** 31)
    slots.release(first)
    t.is(slots.acquire(), first)
    t.is(slots.resolve(tag), -1)
  }
})
