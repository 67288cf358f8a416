import test from 'ava'
import { HyperLogLog } from '../../../src/shared/cache/hyper-log-log.js'
import { ReuseWindows, WINDOW_SLICES } from '../../../src/shared/cache/reuse-windows.js'

/** Two words from a counter: the mixing that a keyed hash does in production. */
function words(thing: number): [number, number] {
  let high = Math.imul(thing ^ 0x2545f491, 0x9e3779b1)
  high = Math.imul(high ^ (high >>> 15), 0x85ebca6b)
  high ^= high >>> 13
  let low = Math.imul(thing + 0x7f4a7c15, 0xc2b2ae35)
  low = Math.imul(low ^ (low >>> 16), 0x27d4eb2f)
  low ^= low >>> 15
  return [high >>> 0, low >>> 0]
}

function sketchOf(bits: number, first: number, count: number): HyperLogLog {
  const sketch = new HyperLogLog(bits)
  for (let thing = first; thing < first + count; thing++) sketch.add(...words(thing))
  return sketch
}

for (const bits of [4, 10, 14, 16, 18]) {
  test(`HyperLogLog: 2^${bits} registers estimate from nothing to many within four standard errors`, (t) => {
    const error = 1.04 / Math.sqrt(2 ** bits)
    t.is(new HyperLogLog(bits).estimate(), 0)
    for (const count of [1, 10, 100, 1_000, 30_000, 200_000]) {
      const estimate = sketchOf(bits, 0, count).estimate()
      // Small counts in many registers are nearly exact; a few units are rounding of the estimator.
      const allowed = Math.max(4 * error * count, 1)
      t.true(Math.abs(estimate - count) <= allowed, `${count} things are estimated ${estimate}`)
    }
  })
}

test('HyperLogLog: seeing things again changes nothing, a merge is as if one had seen everything', (t) => {
  const all = sketchOf(12, 0, 5_000)
  const before = all.estimate()
  for (let thing = 0; thing < 5_000; thing++) all.add(...words(thing))
  t.is(all.estimate(), before)
  const merged = sketchOf(12, 0, 3_000)
  merged.merge(sketchOf(12, 2_000, 3_000))
  t.is(merged.estimate(), before)
  merged.clear()
  t.is(merged.estimate(), 0)
  t.throws(() => merged.merge(new HyperLogLog(10)), { code: 'invariant' })
})

test('broken twin: a sketch that takes its rank from the bits of its index is caught by the bound on its error', (t) => {
  class Correlated extends HyperLogLog {
    override add(high: number): void {
      super.add(high, high)
    }
  }
  const sketch = new Correlated(14)
  for (let thing = 0; thing < 200_000; thing++) sketch.add(...(words(thing).slice(0, 1) as [number]))
  t.true(Math.abs(sketch.estimate() - 200_000) > 4 * (1.04 / Math.sqrt(2 ** 14)) * 200_000)
})

test('ReuseWindows: the hit rate is all requests but the first of each block', (t) => {
  const windows = new ReuseWindows([{ name: '8s', us: 8_000_000 }], 14, 0)
  for (let round = 0; round < 4; round++)
    for (let thing = 0; thing < 1_000; thing++) windows.observe(...words(thing), 10)
  const [reading] = windows.read(20)
  t.is(reading?.requests, 4_000)
  t.true(Math.abs((reading?.cardinality ?? 0) - 1_000) < 40)
  t.true(Math.abs((reading?.hitRate ?? 0) - 0.75) < 0.01)
  t.deepEqual(new ReuseWindows([{ name: 'a', us: 80 }], 4, 0).read(1_000), [
    { cardinality: 0, requests: 0, hitRate: 0 },
  ])
})

test('ReuseWindows: what is older than the window is forgotten, slice by slice, and nothing younger is', (t) => {
  const sliceUs = 1_000
  const windows = new ReuseWindows(
    [
      { name: 'short', us: WINDOW_SLICES * sliceUs },
      { name: 'long', us: 100 * WINDOW_SLICES * sliceUs },
    ],
    12,
    0,
  )
  const seen: { atUs: number; thing: number }[] = []
  for (let nowUs = 0; nowUs < 30_000; nowUs += 250) {
    const thing = Math.floor(nowUs / 2_000)
    windows.observe(...words(thing), nowUs)
    seen.push({ atUs: nowUs, thing })
    const [short, long] = windows.read(nowUs)
    // The current slice and the seven before it: between seven and eight slices of time.
    const oldestUs = (Math.floor(nowUs / sliceUs) - WINDOW_SLICES + 1) * sliceUs
    const inside = seen.filter(({ atUs }) => atUs >= oldestUs)
    t.is(short?.requests, inside.length)
    t.is(short?.cardinality, new Set(inside.map((each) => each.thing)).size)
    t.is(long?.requests, seen.length)
  }
  const [later] = windows.read(1_000_000)
  t.deepEqual(later, { cardinality: 0, requests: 0, hitRate: 0 }, 'a pause longer than the window empties it')
})
