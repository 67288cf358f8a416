import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT } from '../../../src/manager/storage/counters.js'
import { KIB } from '../../../src/shared/base/units.js'
import { find, fixture, geometryOf, keysOf, land, publish, runsOf } from './fixture.js'

/** Two ranks, each with two granules of four items. */
const PAIR = geometryOf({ ranks: 2, perRank: 2, bytes: 16 * KIB, items: 4 })

function check(of: ReturnType<typeof fixture>, entry: number): void {
  for (let granule = 0; granule < of.geometry.granules.length; granule++) of.storage.setCrc(entry, granule, granule)
}

test('claim: the first publish wins, a second one joins, and a sealed key is present', (t) => {
  const of = fixture()
  const first = of.storage.claim(of.classId, keysOf(1), 0)
  t.is(first.outcome, 'new')
  t.deepEqual(of.storage.claim(of.classId, keysOf(1), 0), { entry: first.entry, outcome: 'assembling' })
  of.storage.abandon(first.entry)
  const entry = publish(of, 1)
  t.deepEqual(of.storage.claim(of.classId, keysOf(9, 1), 1), { entry, outcome: 'present' })
})

test('V1: a block is not findable before its last item has landed, is checked and sealed', (t) => {
  const of = fixture({}, PAIR)
  const { storage, classId, geometry } = of
  const { entry } = storage.claim(classId, keysOf(1), 0)
  storage.allocate(entry)
  const entries = new Int32Array(1)
  for (const rank of [0, 1]) {
    t.is(storage.lookup(classId, keysOf(1), 1, entries), 0)
    const runs: number[] = []
    storage.contribute(entry, runsOf(geometry, rank), runs)
    t.false(storage.complete(entry))
    land(of, entry, runs)
  }
  t.true(storage.complete(entry))
  t.is(find(of, 1), -1)
  t.throws(() => storage.seal(entry), { message: /every item has landed and is checked/ })
  check(of, entry)
  t.is(find(of, 1), -1)
  storage.seal(entry)
  t.is(storage.lookup(classId, keysOf(1), 1, entries), 1)
  t.deepEqual(census(storage), [])
})

test('wants: an item is wanted while nobody brings it, and again when its copy failed', (t) => {
  const { storage, classId, geometry } = fixture({}, PAIR)
  const { entry } = storage.claim(classId, keysOf(1), 0)
  t.true(storage.wants(entry, runsOf(geometry, 0)), 'before there is memory for it')
  storage.allocate(entry)
  const runs: number[] = []
  storage.contribute(entry, [{ granule: 0, firstItem: 0, itemCount: 3 }], runs)
  t.false(storage.wants(entry, [{ granule: 0, firstItem: 1, itemCount: 2 }]))
  t.true(storage.wants(entry, [{ granule: 0, firstItem: 1, itemCount: 3 }]), 'the last one is not on its way')
  t.true(storage.wants(entry, runsOf(geometry, 1)), 'the other rank has not begun')
  storage.copyFailed(entry, runs, 0, 3)
  t.true(storage.wants(entry, [{ granule: 0, firstItem: 1, itemCount: 2 }]))
})

test('contribute: gives out each item once, in runs, and again after a copy failed', (t) => {
  const { storage, classId, geometry } = fixture({}, PAIR)
  const { entry } = storage.claim(classId, keysOf(1), 0)
  storage.allocate(entry)
  const middle = [{ granule: 1, firstItem: 1, itemCount: 2 }]
  const first: number[] = []
  t.is(storage.contribute(entry, middle, first), 1)
  t.deepEqual(first, [1, 1, 2])
  const rest: number[] = []
  t.is(storage.contribute(entry, runsOf(geometry, 0), rest), 3)
  t.deepEqual(rest, [0, 0, 4, 1, 0, 1, 1, 3, 1])
  t.is(storage.contribute(entry, middle, rest), 0, 'it is being copied')
  storage.copyFailed(entry, first, 0, 3)
  const again: number[] = []
  t.is(storage.contribute(entry, runsOf(geometry, 0), again), 1)
  t.deepEqual(again, first)
  storage.landed(entry, again, 0, 3)
  t.is(storage.contribute(entry, middle, rest), 0, 'it has landed')
})

test('O2: an abandoned block keeps its memory until its copies have ended, and its key is free at once', (t) => {
  const of = fixture()
  const { storage, classId, geometry } = of
  const { entry } = storage.claim(classId, keysOf(1), 0)
  storage.allocate(entry)
  const runs: number[] = []
  storage.contribute(entry, runsOf(geometry, 0), runs)
  storage.abandon(entry)
  t.false(storage.assembling(entry))
  const next = storage.claim(classId, keysOf(1), 0)
  t.is(next.outcome, 'new')
  t.not(next.entry, entry)
  t.true(storage.generationOf(next.entry) > storage.generationOf(entry))
  storage.landed(entry, runs, 0, runs.length - 3)
  t.is(storage.gauges().poolUsedBytes, geometry.extentBytes, 'one copy is still in flight')
  storage.landed(entry, runs, runs.length - 3, runs.length)
  t.is(storage.gauges().poolUsedBytes, 0)
  t.deepEqual(census(storage), [])
})

test('abandon, allocate and setCrc are no-ops for a rank that comes second', (t) => {
  const of = fixture()
  const { storage, classId, geometry } = of
  const { entry } = storage.claim(classId, keysOf(1), 0)
  storage.hold(entry)
  storage.allocate(entry)
  const used = storage.gauges().poolUsedBytes
  t.is(storage.allocate(entry), 'ok')
  t.is(storage.gauges().poolUsedBytes, used)
  storage.abandon(entry)
  storage.abandon(entry)
  storage.setCrc(entry, 0, 1)
  storage.drop(entry)
  const sealed = publish(of, 2)
  storage.abandon(sealed)
  t.is(find(of, 2), sealed)
  t.is(storage.gauges().poolUsedBytes, geometry.extentBytes)
})

test('an assembly without progress is given up at its age, but not while it is copied into or held', (t) => {
  const of = fixture()
  const { storage, classId, geometry, options } = of
  const [idle, copied, held] = [1, 2, 3].map((key) => {
    const { entry } = storage.claim(classId, keysOf(key), 0)
    storage.allocate(entry)
    return entry
  }) as [number, number, number]
  const runs: number[] = []
  storage.contribute(copied, runsOf(geometry, 0), runs)
  storage.hold(held)
  t.is(storage.nextTickUs(), options.assemblyAgeUsMax)
  storage.tick(options.assemblyAgeUsMax - 1)
  t.is(storage.gauges().assemblies, 3)
  storage.tick(options.assemblyAgeUsMax)
  t.false(storage.assembling(idle))
  t.true(storage.assembling(copied))
  t.true(storage.assembling(held))
  t.true(storage.nextTickUs() > options.assemblyAgeUsMax, 'no busy loop over what may not be collected')
  land(of, copied, runs)
  storage.tick(2 * options.assemblyAgeUsMax - 1)
  t.true(storage.assembling(copied), 'landing was progress')
  storage.drop(held)
  storage.tick(2 * options.assemblyAgeUsMax)
  t.is(storage.gauges().assemblies, 0)
  t.is(of.tally.of(STORAGE_COUNT.inflightGcCleaned), 3)
  t.deepEqual(census(storage), [])
})

test('a full directory gives up the coldest block, and says so when everything is in use', (t) => {
  const of = fixture({ entriesMax: 2 })
  const first = publish(of, 1)
  publish(of, 2)
  of.lanes.endAll(of.storage)
  of.storage.hold(first)
  const third = publish(of, 3)
  t.is(find(of, 1), first)
  t.is(find(of, 2), -1)
  of.storage.hold(third)
  t.deepEqual(of.storage.claim(of.classId, keysOf(4), 0), { entry: -1, outcome: 'directory-full' })
  t.is(of.tally.of(STORAGE_COUNT.directoryEvictions), 1)
})

test('defineClass: one id for one namespace and group, entries of one class are not found in another', (t) => {
  const of = fixture()
  const { storage, geometry, classId } = of
  t.is(storage.defineClass('aa', geometry), classId)
  const other = storage.defineClass('bb', geometry)
  const group = storage.defineClass('aa', { ...geometry, group: 1 })
  t.is(new Set([classId, other, group]).size, 3)
  publish(of, 1)
  t.is(storage.lookup(other, keysOf(1), 1, new Int32Array(1)), 0)
  t.is(storage.dropClass(other), 0)
  t.is(storage.dropClass(classId), 1)
  t.is(find(of, 1), -1)
})
