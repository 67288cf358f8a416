import test from 'ava'
import fc from 'fast-check'
import { RestoreWindow } from '../../../src/actors/host-restore/window.js'
import { GRANULE_BYTES_MAX, KIB, MIB, PAGE_BYTES } from '../../../src/shared/base/units.js'
import { demand } from '../../support/demand.js'

const BASE = 7 * PAGE_BYTES
const BYTES = 3 * MIB + 5 * PAGE_BYTES

interface Window {
  take(bytes: number): number
  give(offsetBytes: number): void
  readonly usedBytes: number
}

const step = fc.oneof(
  fc.record({ take: fc.constantFrom(1, 4096, 4097, 300 * KIB, 340 * KIB, 512 * KIB, 600 * KIB, MIB) }),
  fc.record({ give: fc.nat({ max: 99 }) }),
)

/** The naive model: the list of ranges given out. */
function property(make: () => Window) {
  return fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
    const window = make()
    const held: { offset: number; bytes: number }[] = []
    for (const each of steps) {
      if ('take' in each) {
        const offset = window.take(each.take)
        demand(offset >= 0 || held.length > 0, 'an empty window takes everything')
        if (offset < 0) continue
        const end = offset + each.take
        demand(offset >= BASE && end <= BASE + BYTES && (offset - BASE) % PAGE_BYTES === 0, 'inside, on a page')
        demand(!held.some((other) => offset < other.offset + other.bytes && other.offset < end), 'units never overlap')
        held.push({ offset, bytes: each.take })
      } else if (held.length > 0) {
        const [unit] = held.splice(each.give % held.length, 1)
        window.give(unit?.offset ?? -1)
      }
      const bytes = held.reduce((sum, unit) => sum + unit.bytes, 0)
      demand(window.usedBytes >= bytes && window.usedBytes <= 3 * MIB, 'what is used is within the window')
    }
    for (const unit of held) window.give(unit.offset)
    demand(window.usedBytes === 0, 'everything comes back')
    for (let place = 0; place < 3; place++) demand(window.take(GRANULE_BYTES_MAX) >= 0, 'and is whole again')
    demand(window.take(1) === -1, 'a full window refuses')
  })
}

test('RestoreWindow: units never overlap, and everything that comes back is whole again', (t) => {
  fc.assert(
    property(() => new RestoreWindow(BASE, BYTES)),
    { numRuns: 400 },
  )
  t.pass()
})

test('RestoreWindow: the property catches a twin that carves a place before it is free', (t) => {
  class Careless implements Window {
    readonly #inner = new RestoreWindow(BASE, BYTES)
    #last = -1
    get usedBytes() {
      return this.#inner.usedBytes
    }
    take(bytes: number): number {
      const offset = this.#inner.take(bytes)
      if (offset >= 0) this.#last = offset
      return offset >= 0 || bytes > PAGE_BYTES ? offset : this.#last
    }
    give(offsetBytes: number): void {
      this.#inner.give(offsetBytes)
    }
  }
  t.regex(
    String(
      fc.check(
        property(() => new Careless()),
        { numRuns: 400, seed: 20261129 },
      ).errorInstance,
    ),
    /units never overlap|a full window refuses/,
  )
})

test('RestoreWindow: a place holds as many small granules as fit, and a unit comes back once', (t) => {
  const window = new RestoreWindow(0, MIB)
  const offsets = Array.from({ length: 3 }, () => window.take(300 * KIB))
  t.deepEqual(offsets, [0, 340 * KIB, 680 * KIB])
  t.is(window.take(300 * KIB), -1)
  t.is(window.take(4096), -1)
  window.give(340 * KIB)
  t.throws(() => window.give(340 * KIB), { message: /given back once/ })
  t.is(window.take(300 * KIB), 340 * KIB)
})

test('RestoreWindow: granules of many lengths share places: no length of its own costs a place', (t) => {
  const window = new RestoreWindow(0, 4 * MIB)
  const lengths = Array.from({ length: 16 }, (_, at) => 210 * KIB + at * 3 * KIB - 7)
  t.true(lengths.every((bytes) => window.take(bytes) >= 0))
  t.is(window.usedBytes, 4 * MIB)
})

test('RestoreWindow: a granule above the largest is a bug of ours, and an empty window gives nothing', (t) => {
  t.is(new RestoreWindow(0, MIB - 1).take(1), -1)
  t.throws(() => new RestoreWindow(0, MIB).take(MIB + 1), { message: /fits a place/ })
})
