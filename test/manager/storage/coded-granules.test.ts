import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { KIB, PAGE_BYTES } from '../../../src/shared/base/units.js'
import { ANS, codedGeometry, type Fixture, FP8, fixture, keysOf, runsOf } from './fixture.js'

const ITEM = 64 * KIB
/** Two blocks of two items fit as they are; an item coded by FP8 is half of one. */
const POOL = { poolBytes: 4 * ITEM }

/** Claims key `number`, with memory, and begins the copies of all its granules. */
function begin(of: Fixture, number: number): { readonly entry: number; readonly runs: number[] } {
  const { storage, classId, geometry } = of
  const { entry } = storage.claim(classId, keysOf(number), 0)
  if (storage.allocate(entry) !== 'ok') throw new Error('no memory')
  const runs: number[] = []
  storage.contribute(entry, runsOf(geometry, 0), runs)
  return { entry, runs }
}

function sound(of: Fixture): string[] {
  return census(of.storage)
}

test('Storage: a coding of exact length takes its room, and leaves nothing to give back', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [FP8, FP8]))
  const { entry, runs } = begin(of, 1)
  const { storage } = of
  t.is(storage.gauges().poolUsedBytes, ITEM)
  t.is(storage.codedRoom(entry, 0), ITEM / 2)
  for (const granule of [0, 1]) {
    storage.coded(entry, granule, ITEM / 2, 77 + granule)
    storage.landed(entry, runs, granule * 3, granule * 3 + 3)
  }
  t.true(storage.complete(entry))
  t.deepEqual(storage.unchecked(entry), [], 'the codec has given the checksums')
  t.is(storage.crc(entry, 1), 78)
  storage.seal(entry)
  t.deepEqual(storage.granule(entry, 1), { bytes: ITEM / 2, segmentBytes: ITEM / 2, segmentStrideBytes: ITEM / 2 })
  t.is(storage.extentOffset(entry, 1), ITEM / 2)
  t.is(storage.gauges().poolUsedBytes, ITEM)
  t.deepEqual(sound(of), [])
})

test('Storage: what a coding does not need goes back by whole pages, before the seal', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [ANS, ANS]))
  const { entry, runs } = begin(of, 1)
  const { storage } = of
  t.is(storage.gauges().poolUsedBytes, 2 * ITEM, 'nobody knows what ANS leaves')
  storage.coded(entry, 0, 5000, 1)
  t.is(storage.gauges().poolUsedBytes, ITEM + 2 * PAGE_BYTES)
  storage.coded(entry, 1, ITEM, 2)
  t.false(storage.encoded(entry, 1), 'of its own length it is raw')
  storage.landed(entry, runs, 0, 6)
  storage.seal(entry)
  t.is(storage.extentBytes(entry), 5120 + ITEM)
  t.is(of.lanes.writes[0]?.pieces.length, 2)
  t.deepEqual(
    of.lanes.writes[0]?.pieces.map(({ bytes }) => bytes),
    [5120, ITEM],
  )
  t.deepEqual(sound(of), [])
})

test('Storage: a refused granule loses its room, finds another for its bytes as they are, and is checked like any', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [FP8, FP8]))
  const { storage, geometry } = of
  const { entry, runs } = begin(of, 1)
  storage.coded(entry, 0, ITEM / 2, 1)
  storage.landed(entry, runs, 0, 3)
  storage.copyFailed(entry, runs, 3, 6)
  storage.keepRaw(entry, 1)
  t.is(storage.gauges().poolUsedBytes, ITEM / 2)
  t.deepEqual(sound(of), [])
  t.true(storage.wants(entry, runsOf(geometry, 0)), 'its item is missing again')
  t.throws(() => storage.contribute(entry, runsOf(geometry, 0), []), { code: 'invariant' }, 'it has no room yet')
  t.is(storage.allocate(entry), 'ok')
  t.is(storage.gauges().poolUsedBytes, ITEM / 2 + ITEM)
  t.is(storage.codedRoom(entry, 1), 0, 'the codec is not asked again')
  const again: number[] = []
  t.is(storage.contribute(entry, runsOf(geometry, 0), again), 1)
  t.deepEqual(again, [1, 0, 1])
  storage.landed(entry, again, 0, 3)
  t.deepEqual(storage.unchecked(entry), [1])
  storage.setCrc(entry, 1, 9)
  storage.seal(entry)
  t.false(storage.encoded(entry, 1))
  t.true(storage.encoded(entry, 0))
  t.is(storage.extentBytes(entry), ITEM / 2 + ITEM)
  t.deepEqual(sound(of), [])
})

test('Storage: room for a refused granule is found by eviction, as any room is; where there is none nothing changes', (t) => {
  const of = fixture({ poolBytes: 2 * ITEM, shards: [] }, codedGeometry(ITEM, [FP8, FP8]))
  const { storage } = of
  const first = begin(of, 1)
  for (const granule of [0, 1]) storage.coded(first.entry, granule, ITEM / 2, 1)
  storage.landed(first.entry, first.runs, 0, 6)
  storage.seal(first.entry)
  const second = begin(of, 2)
  storage.copyFailed(second.entry, second.runs, 0, 6)
  for (const granule of [0, 1]) storage.keepRaw(second.entry, granule)
  storage.hold(first.entry)
  t.is(storage.allocate(second.entry), 'no-memory')
  t.is(storage.gauges().poolUsedBytes, ITEM, 'all that lacked room, or nothing')
  t.deepEqual(sound(of), [])
  storage.drop(first.entry)
  t.is(storage.allocate(second.entry), 'ok')
  t.false(storage.published(first.entry), 'it went, for nobody held it')
  t.is(storage.gauges().poolUsedBytes, 2 * ITEM)
  t.deepEqual(sound(of), [])
})

test('Storage: of a block that was given up meanwhile, what the codec says changes nothing, and no room is lost', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [FP8, FP8]))
  const { storage } = of
  const { entry, runs } = begin(of, 1)
  storage.hold(entry)
  storage.abandon(entry)
  storage.coded(entry, 0, ITEM / 2, 1)
  storage.landed(entry, runs, 0, 3)
  storage.copyFailed(entry, runs, 3, 6)
  storage.keepRaw(entry, 1)
  t.deepEqual(sound(of), [])
  storage.drop(entry)
  t.is(storage.gauges().poolUsedBytes, 0)
  t.deepEqual(sound(of), [])
})

test('Storage: a block that lacks room is given up with what it has', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [FP8, FP8]))
  const { storage } = of
  const { entry, runs } = begin(of, 1)
  storage.copyFailed(entry, runs, 0, 6)
  storage.keepRaw(entry, 1)
  storage.abandon(entry)
  t.is(storage.gauges().poolUsedBytes, 0)
  t.is(storage.gauges().assemblies, 0)
  t.deepEqual(sound(of), [])
  // The row is used again, and remembers nothing.
  const next = begin(of, 2)
  t.is(storage.codedRoom(next.entry, 1), ITEM / 2)
  t.deepEqual(sound(of), [])
})

test('Storage: what storage was not told to code, or has coded, is not coded', (t) => {
  const of = fixture(POOL, codedGeometry(ITEM, [FP8, FP8]))
  const { storage } = of
  const { entry, runs } = begin(of, 1)
  const broken = { code: 'invariant' }
  t.throws(() => storage.keepRaw(entry, 0), broken, 'its copy has not ended')
  storage.coded(entry, 0, ITEM / 2, 1)
  storage.landed(entry, runs, 0, 3)
  t.throws(() => storage.coded(entry, 0, 100, 1), broken, 'its copy has ended')
  t.throws(() => storage.keepRaw(entry, 0), broken, 'it has landed')
  t.throws(() => storage.coded(entry, 1, ITEM / 2 + 1, 1), broken, 'it would leave its room')
})
