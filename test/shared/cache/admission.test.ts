import test from 'ava'
import fc from 'fast-check'
import { FrequencySketch } from '../../../src/shared/cache/frequency-sketch.js'
import { HISTORY_KEYS, KeyHistory } from '../../../src/shared/cache/key-history.js'

/** A thing as two independent words. */
const hashes = (thing: number): [number, number] => [Math.imul(thing + 1, 0x9e3779b1) >>> 0, mix(thing)]
function mix(thing: number): number {
  let mixed = Math.imul(thing ^ 0x51ed270b, 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

interface Noted {
  readonly items: number
  readonly things: readonly number[]
}
const noted: fc.Arbitrary<Noted> = fc.record({
  items: fc.constantFrom(4, 16, 64),
  things: fc.array(fc.nat(40), { minLength: 1, maxLength: 600, size: 'max' }),
})

/** Exact counts that saturate and are halved together, as the sketch says it does. */
function neverBelow(make: (items: number) => FrequencySketch) {
  return fc.property(noted, ({ items, things }) => {
    const sketch = make(items)
    const exact = new Map<number, number>()
    let notes = 0
    for (const thing of things) {
      sketch.note(...hashes(thing))
      exact.set(thing, Math.min(255, (exact.get(thing) ?? 0) + 1))
      if (++notes >= 8 * items) {
        for (const [each, count] of exact) exact.set(each, count >>> 1)
        notes = Math.floor(notes / 2)
      }
    }
    for (const [thing, count] of exact) {
      const estimate = sketch.estimate(...hashes(thing))
      if (estimate < count) throw new Error(`thing ${thing}: ${estimate} below ${count}`)
      if (estimate > 255) throw new Error('a counter has 8 bits')
    }
    if (sketch.notes !== notes) throw new Error(`${sketch.notes} notes, ${notes} counted`)
  })
}

test('FrequencySketch: never below the truth, through any halvings', (t) => {
  fc.assert(
    neverBelow((items) => new FrequencySketch(items)),
    { numRuns: 300 },
  )
  t.pass()
})

test('broken twin: a sketch that forgets more than half is caught', (t) => {
  class Forgets extends FrequencySketch {
    override estimate(high: number, low: number): number {
      return super.estimate(high, low) >>> 1
    }
  }
  t.true(
    fc.check(
      neverBelow((items) => new Forgets(items)),
      { seed: 20, numRuns: 100, endOnFailure: true },
    ).failed,
  )
})

test('FrequencySketch: with room for its items hot things stand out, and fade when they are not asked for', (t) => {
  const sketch = new FrequencySketch(1024)
  for (let round = 0; round < 20; round++) for (let hot = 0; hot < 16; hot++) sketch.note(...hashes(hot))
  for (let cold = 1000; cold < 1500; cold++) sketch.note(...hashes(cold))
  let wrong = 0
  for (let cold = 1000; cold < 1500; cold++) if (sketch.estimate(...hashes(cold)) > 2) wrong++
  t.true(wrong < 10, `${wrong} of 500 cold things look warm`)
  t.true(sketch.estimate(...hashes(3)) >= 20)
  for (let other = 5000; other < 5000 + 4 * 8 * 1024; other++) sketch.note(...hashes(other))
  t.true(sketch.estimate(...hashes(3)) < 20, 'what was popular long ago has faded')
  t.is(new FrequencySketch(4).estimate(1, 2), 0)
})

test('FrequencySketch: a counter stays at 255', (t) => {
  const sketch = new FrequencySketch(1024)
  for (let note = 0; note < 1000; note++) sketch.note(...hashes(1))
  t.is(sketch.estimate(...hashes(1)), 255)
})

/** A list, oldest first. */
function equalsList(make: (keysMax: number) => KeyHistory) {
  return fc.property(
    fc.integer({ min: 1, max: 8 }),
    fc.array(fc.nat(14), { maxLength: 120, size: 'max' }),
    (max, keys) => {
      const history = make(max)
      const list: number[] = []
      for (const key of keys) {
        const at = list.indexOf(key)
        if (at >= 0) list.splice(at, 1)
        list.push(key)
        if (list.length > max) list.shift()
        if (history.note(`k${key}`) !== at >= 0) throw new Error(`key ${key}: remembered wrongly`)
        if (history.size !== list.length) throw new Error(`${history.size} keys, the list has ${list.length}`)
      }
    },
  )
}

test('KeyHistory: exactly the last different keys, least recently noted forgotten first', (t) => {
  fc.assert(
    equalsList((max) => new KeyHistory(max)),
    { numRuns: 500 },
  )
  t.is(HISTORY_KEYS, 16_384)
})

test('broken twins: a history that forgets one too early, and one in order of first note, are caught', (t) => {
  const failed = (make: (max: number) => KeyHistory) =>
    fc.check(equalsList(make), { seed: 20, numRuns: 300, endOnFailure: true }).failed
  t.true(failed((max) => new KeyHistory(Math.max(1, max - 1))))
  class FirstNote extends KeyHistory {
    readonly #keys: string[] = []
    override get size(): number {
      return this.#keys.length
    }
    override note(key: string): boolean {
      if (this.#keys.includes(key)) return true
      this.#keys.push(key)
      if (this.#keys.length > this.keysMax) this.#keys.shift()
      return false
    }
  }
  t.true(failed((max) => new FirstNote(max)))
})
