import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM } from '../../../src/manager/storage/counters.js'
import { KIB } from '../../../src/shared/base/units.js'
import { RESIDENT_CLASS } from '../../../src/shared/directory/resident-table.js'
import { type Fixture, find, fixture, keysOf, publish } from './fixture.js'

const BLOCK = 64 * KIB
const { reclaimable, probationary, retained } = RESIDENT_CLASS

/** Blocks in DRAM of each class, in the order of eviction. */
const classes = ({ storage }: Fixture) =>
  [reclaimable, probationary, retained].map((of) => storage.cache.order.blocks(of))

/** Keys that are in DRAM. */
const inDram = (of: Fixture, ...keys: number[]) =>
  keys.filter((key) => find(of, key) >= 0 && of.storage.inDram(find(of, key)))

/** Publishes keys, writes them, and leaves them on SSD alone. */
function onSsd(of: Fixture, ...keys: number[]): void {
  for (const key of keys) {
    publish(of, key)
    of.lanes.endAll(of.storage)
  }
  of.storage.dropDram()
}

function read(of: Fixture, key: number, purpose: 'demand' | 'speculation'): number {
  const entry = find(of, key)
  of.storage.fill(entry, key, purpose)
  of.lanes.endAll(of.storage)
  return entry
}

test('pages that were read on a guess go before those that nobody asked for again, whatever their age', (t) => {
  const of = fixture({ poolBytes: 3 * BLOCK })
  onSsd(of, 1, 2, 3)
  publish(of, 4)
  publish(of, 5)
  of.lanes.endAll(of.storage)
  read(of, 1, 'speculation')
  t.deepEqual(classes(of), [1, 2, 0])
  read(of, 2, 'demand')
  t.deepEqual(inDram(of, 1, 2, 4, 5), [2, 4, 5], 'the guess was the newest and went')
  t.is(of.tally.of(STORAGE_COUNT.evictedReclaimable), 1)
  t.is(of.tally.of(STORAGE_COUNT.warmUnusedBytes), BLOCK)
  t.deepEqual(census(of.storage), [])
})

test('a guess that a request joins, or uses, is no guess any more; its bytes count as restored when they were', (t) => {
  const of = fixture()
  onSsd(of, 1, 2)
  const joined = find(of, 1)
  of.storage.fill(joined, 10, 'speculation')
  of.storage.fill(joined, 11, 'demand')
  of.lanes.endAll(of.storage)
  const used = read(of, 2, 'speculation')
  t.deepEqual(classes(of), [1, 1, 0])
  of.storage.use(used)
  t.deepEqual(classes(of), [0, 2, 0])
  of.storage.tick(3_000_000)
  of.storage.restored(used)
  of.storage.restored(used)
  t.is(of.tally.of(STORAGE_COUNT.warmPreparedBytes), 2 * BLOCK)
  t.is(of.tally.of(STORAGE_COUNT.warmRestoredBytes), BLOCK, 'once')
  t.is(of.tally.of(STORAGE_COUNT.warmWaitRestored), 3 * BLOCK, 'three seconds')
  of.storage.invalidate(joined)
  t.is(of.tally.of(STORAGE_COUNT.warmUnusedBytes), BLOCK, 'hidden before anybody used it')
  t.is(of.storage.cache.guesses.pendingBytes, 0)
})

test('a protected segment keeps what requests use again; leased pages in it are not demoted', (t) => {
  const cache = { protectedBytesMax: 2 * BLOCK, lfuAdmission: false }
  const of = fixture({ poolBytes: 4 * BLOCK, cache })
  for (const key of [1, 2, 3]) publish(of, key)
  of.lanes.endAll(of.storage)
  for (const key of [1, 2]) of.storage.use(find(of, key))
  t.deepEqual(classes(of), [0, 1, 2])
  for (const key of [4, 5, 6]) {
    publish(of, key)
    of.lanes.endAll(of.storage)
  }
  t.deepEqual(inDram(of, 1, 2, 3, 4, 5, 6), [1, 2, 5, 6], 'a scan passes by')
  of.storage.hold(find(of, 1))
  of.storage.use(find(of, 5))
  t.deepEqual(of.storage.entries.residents.classOf(of.storage.entries.directory.dramSlot(find(of, 1))), retained)
  t.deepEqual(of.storage.entries.residents.classOf(of.storage.entries.directory.dramSlot(find(of, 2))), probationary)
  of.storage.hold(find(of, 5))
  of.storage.use(find(of, 6))
  t.is(of.storage.cache.order.protectedBytes, 2 * BLOCK, 'no room: what is used stays probationary')
  t.deepEqual([of.storage.cache.order.promotions, of.storage.cache.order.demotions], [3, 1])
  t.deepEqual(census(of.storage), [])
})

test('admission by frequency: what is saved once does not displace what is asked for; saved again it does', (t) => {
  const of = fixture({ poolBytes: 2 * BLOCK, cache: { protectedBytesMax: 0, lfuAdmission: true } })
  for (const key of [1, 2]) publish(of, key)
  of.lanes.endAll(of.storage)
  const hashes = new Uint32Array(4)
  of.storage.hashKeys(of.classId, keysOf(1, 2), 2, hashes, 0)
  for (let request = 0; request < 3; request++) {
    of.storage.requested(hashes[0] as number, hashes[1] as number)
    of.storage.requested(hashes[2] as number, hashes[3] as number)
  }
  let entry = -1
  let saves = 0
  for (let outcome = 'rejected'; outcome === 'rejected'; saves++) {
    entry = of.storage.claim(of.classId, keysOf(3), 0).entry
    outcome = of.storage.allocate(entry)
    if (outcome === 'rejected') {
      of.storage.abandon(entry)
      t.deepEqual(inDram(of, 1, 2), [1, 2])
    }
  }
  t.is(saves, 4, 'one save is one use: as warm as the others after the fourth')
  t.is(of.tally.of(STORAGE_COUNT.admissionRejections), 3)
  of.storage.abandon(entry)
  t.deepEqual(census(of.storage), [])
})

test('admission by frequency never turns away what a request waits for', (t) => {
  const of = fixture({ poolBytes: 2 * BLOCK, cache: { protectedBytesMax: 0, lfuAdmission: true } })
  onSsd(of, 1)
  for (const key of [2, 3]) publish(of, key)
  of.lanes.endAll(of.storage)
  const hashes = new Uint32Array(4)
  of.storage.hashKeys(of.classId, keysOf(2, 3), 2, hashes, 0)
  for (let request = 0; request < 9; request++) {
    of.storage.requested(hashes[0] as number, hashes[1] as number)
    of.storage.requested(hashes[2] as number, hashes[3] as number)
  }
  t.is(of.storage.fill(find(of, 1), 1, 'speculation'), 'no-memory', 'a guess is weighed')
  t.is(of.storage.fill(find(of, 1), 2, 'demand'), 'started')
})

test('--ssd-write-policy all: a save that is there, under way, or named twice is counted and not written again', (t) => {
  const of = fixture()
  publish(of, 1)
  of.storage.claim(of.classId, keysOf(1), 0)
  t.is(of.tally.of(STORAGE_COUNT.skipPending), 1)
  of.lanes.endAll(of.storage)
  of.storage.claim(of.classId, keysOf(1), 0)
  of.storage.duplicate()
  t.is(of.tally.of(STORAGE_COUNT.skipResident), 1)
  t.is(of.tally.of(STORAGE_COUNT.skipDuplicate), 1)
  t.is(of.tally.of(STORAGE_COUNT.writesAdmitted), 1)
})

test('--ssd-write-policy all: a block whose write was dropped is offered again when it is saved again', (t) => {
  const of = fixture()
  publish(of, 1)
  of.lanes.endWrite(of.storage, 0, 'io_write_failed')
  t.false(of.storage.onSsd(find(of, 1)))
  of.storage.claim(of.classId, keysOf(1), 0)
  of.lanes.endAll(of.storage)
  t.true(of.storage.onSsd(find(of, 1)))
})

test('--ssd-write-policy reuse: cold at first; written when saved again, also after it was lost, or when returned', (t) => {
  const of = fixture({ writePolicy: 'reuse' })
  for (const key of [1, 2, 3]) publish(of, key)
  t.is(of.lanes.writes.length, 0)
  t.is(of.tally.of(STORAGE_COUNT.skipCold), 3)
  of.storage.claim(of.classId, keysOf(1), 0)
  of.storage.returned(find(of, 2))
  of.storage.returned(find(of, 2))
  t.is(of.lanes.writes.length, 2)
  of.lanes.endAll(of.storage)
  of.storage.dropDram()
  t.deepEqual(
    [1, 2, 3].map((key) => find(of, key) >= 0),
    [true, true, false],
    'what was not written is lost with its replica',
  )
  publish(of, 3)
  t.is(of.lanes.writes.length, 1, 'its key is remembered')
  of.lanes.endAll(of.storage)
  t.is(of.storage.policy.remembered, 3)
  t.deepEqual(census(of.storage), [])
})

test('speed is observed a block, for reads and for writes', (t) => {
  const of = fixture()
  publish(of, 1)
  of.lanes.endAll(of.storage)
  of.storage.dropDram()
  of.storage.fill(find(of, 1), 1)
  of.storage.tick(1_000)
  of.lanes.endAll(of.storage)
  t.is(of.tally.observed[STORAGE_HISTOGRAM.writeThroughput], 1)
  t.is(of.tally.observed[STORAGE_HISTOGRAM.fillThroughput], 1)
})
