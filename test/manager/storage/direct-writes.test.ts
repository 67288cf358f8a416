import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM, WRITE_DROP_COUNT } from '../../../src/manager/storage/counters.js'
import { type Fixture, find, fixture, keysOf, land, publish, runsOf } from './fixture.js'

/** Claims key `number` and takes an extent for it, with all of its runs under way. */
function begin(of: Fixture, number: number): { readonly entry: number; readonly runs: number[] } {
  const { storage, geometry, classId } = of
  const { entry } = storage.claim(classId, keysOf(number), 0)
  storage.hold(entry)
  storage.allocate(entry)
  if (storage.beginDirect(entry) === null) throw new Error(`key ${number}: no extent`)
  const runs: number[] = []
  storage.contribute(entry, runsOf(geometry, 0), runs)
  return { entry, runs }
}

function seal({ storage, geometry }: Fixture, entry: number): void {
  for (const granule of geometry.granules.keys()) storage.setCrc(entry, granule, 1)
  storage.seal(entry)
  storage.drop(entry)
}

test("V1: an extent becomes the block's when it is sealed and written, whichever is last", (t) => {
  const of = fixture()
  const first = begin(of, 1)
  land(of, first.entry, first.runs)
  seal(of, first.entry)
  t.is(of.storage.source(first.entry), null, 'sealed, not written')
  of.storage.directEnded(first.entry, true)
  t.not(of.storage.source(first.entry), null)
  const second = begin(of, 2)
  of.storage.directEnded(second.entry, true)
  t.is(of.storage.source(second.entry), null, 'written, not sealed')
  land(of, second.entry, second.runs)
  seal(of, second.entry)
  t.not(of.storage.source(second.entry), null)
  t.is(of.tally.of(STORAGE_COUNT.writesCommitted), 2)
  t.deepEqual(of.lanes.writes, [], 'nothing is written twice')
  t.deepEqual(census(of.storage), [])
})

test('a write that fails before the seal leaves the block in DRAM alone, counted once', (t) => {
  const of = fixture()
  const { entry, runs } = begin(of, 1)
  of.storage.directEnded(entry, false)
  land(of, entry, runs)
  seal(of, entry)
  t.is(of.tally.of(WRITE_DROP_COUNT.failed), 1)
  t.deepEqual(of.lanes.writes, [])
  t.is(find(of, 1), entry)
  t.deepEqual(census(of.storage), [])
})

test('after a write that failed with its publication, the row of its block is like new: the next one there is written', (t) => {
  const of = fixture()
  const { entry, runs } = begin(of, 1)
  of.storage.copyFailed(entry, runs, 0, runs.length)
  of.storage.abandon(entry)
  of.storage.drop(entry)
  of.storage.directEnded(entry, false)
  t.is(of.storage.gauges().interests, 0)
  t.is(publish(of, 2), entry, 'the row is used again')
  t.is(of.lanes.writes.length, 1)
  of.lanes.endAll(of.storage)
  t.not(of.storage.source(entry), null)
  t.deepEqual(census(of.storage), [])
})

test('an extent that is given back unused is no write: it is not timed, not counted, and its block goes by DRAM', (t) => {
  const of = fixture()
  const { entry, runs } = begin(of, 1)
  of.storage.abortDirect(entry)
  t.is(of.storage.writesPending, 0)
  t.is(of.tally.observed[STORAGE_HISTOGRAM.writeUs], undefined)
  land(of, entry, runs)
  seal(of, entry)
  t.is(of.lanes.writes.length, 1)
  of.lanes.endAll(of.storage)
  t.is(of.tally.of(STORAGE_COUNT.writesAdmitted), 1)
  t.deepEqual(census(of.storage), [])
})

test('a block of which something was brought takes no extent before its seal', (t) => {
  const of = fixture()
  const { storage, geometry, classId } = of
  const { entry } = storage.claim(classId, keysOf(1), 0)
  storage.hold(entry)
  storage.allocate(entry)
  t.true(storage.untouched(entry))
  const runs: number[] = []
  storage.contribute(entry, runsOf(geometry, 0).slice(0, 1), runs)
  t.false(storage.untouched(entry), 'on its way')
  land(of, entry, runs)
  t.false(storage.untouched(entry), 'there')
  t.throws(() => storage.beginDirect(entry), { message: /brings all of its block/ })
})
