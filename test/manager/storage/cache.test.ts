import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM } from '../../../src/manager/storage/counters.js'
import { KIB } from '../../../src/shared/base/units.js'
import { find, fixture, keysOf, publish } from './fixture.js'

const BLOCK = 64 * KIB

test('one held page never retains its siblings: hold one of four, evict, three are freed', (t) => {
  const of = fixture()
  const entries = [1, 2, 3, 4].map((key) => publish(of, key))
  of.lanes.endAll(of.storage)
  of.storage.hold(entries[1] as number)
  t.deepEqual(of.storage.dropDram(), {
    evictedBlocks: 3,
    evictedBytes: 3 * BLOCK,
    reclaimedBytes: 3 * BLOCK,
    stillReferencedBlocks: 1,
  })
  t.is(of.storage.gauges().poolUsedBytes, BLOCK)
  t.deepEqual(
    entries.map((entry) => of.storage.inDram(entry)),
    [false, true, false, false],
  )
  t.is(find(of, 1), entries[0] as number)
  t.deepEqual(census(of.storage), [])
})

test('eviction takes the least recently used block; a hold is no use', (t) => {
  const of = fixture({ poolBytes: 3 * BLOCK })
  const [first, second, third] = [1, 2, 3].map((key) => publish(of, key)) as [number, number, number]
  of.lanes.endAll(of.storage)
  of.storage.hold(second)
  of.storage.drop(second)
  of.storage.use(first)
  publish(of, 4)
  t.deepEqual([of.storage.inDram(first), of.storage.inDram(second), of.storage.inDram(third)], [true, false, true])
  t.true(of.storage.onSsd(second))
  t.is(of.tally.of(STORAGE_COUNT.evictions), 1)
  t.is(of.tally.observed[STORAGE_HISTOGRAM.residencePressureUs], 1)
})

test('a block that only DRAM has is lost with its eviction, and counted', (t) => {
  const of = fixture({ poolBytes: 2 * BLOCK, shards: [] })
  publish(of, 1)
  publish(of, 2)
  publish(of, 3)
  t.is(find(of, 1), -1)
  t.is(of.tally.of(STORAGE_COUNT.blocksLost), 1)
  t.is(of.storage.gauges().poolUsedBytes, 2 * BLOCK)
  t.is(of.lanes.writes.length, 0, 'without shards nothing is written')
})

test('an allocation that eviction cannot help evicts nothing', (t) => {
  const of = fixture({ poolBytes: 2 * BLOCK })
  const [kept, held] = [1, 2].map((key) => publish(of, key)) as [number, number]
  of.lanes.endAll(of.storage)
  of.storage.hold(held)
  const { entry } = of.storage.claim(of.classId, keysOf(3), 0)
  t.is(of.storage.allocate(entry), 'ok', 'one block may go')
  const blocked = of.storage.claim(of.classId, keysOf(4), 0).entry
  t.false(of.storage.inDram(kept))
  t.is(of.storage.allocate(blocked), 'no-memory')
  t.true(of.storage.inDram(held))
  t.is(of.tally.of(STORAGE_COUNT.poolAllocFailures), 1)
  of.storage.abandon(blocked)
  t.deepEqual(census(of.storage), [])
})

test('a block whose write is queued or in flight is not evicted before the write has ended', (t) => {
  const of = fixture({ poolBytes: BLOCK })
  publish(of, 1)
  t.is(of.lanes.writes.length, 1)
  const { entry } = of.storage.claim(of.classId, keysOf(2), 0)
  t.is(of.storage.allocate(entry), 'no-memory')
  t.is(of.storage.dropDram().evictedBlocks, 0)
  of.lanes.endWrite(of.storage, 0)
  t.is(of.storage.allocate(entry), 'ok')
})

test('countRequest counts each block by the tier that has it', (t) => {
  const of = fixture()
  publish(of, 1)
  of.lanes.endAll(of.storage)
  of.storage.dropDram()
  publish(of, 2)
  const entries = new Int32Array(3)
  const found = of.storage.lookup(of.classId, keysOf(1, 2, 3), 3, entries)
  t.is(found, 2)
  of.storage.countRequest(1, 1, 1)
  const { requestsRam, requestsSsd, requestsMiss, blockHits, blockMisses } = STORAGE_COUNT
  t.deepEqual(
    [requestsRam, requestsSsd, requestsMiss, blockHits, blockMisses].map((count) => of.tally.of(count)),
    [1, 1, 1, 2, 1],
  )
})

test('lookup answers each key, present or absent', (t) => {
  const of = fixture()
  const first = publish(of, 1)
  const third = publish(of, 3)
  const entries = new Int32Array(3)
  t.is(of.storage.lookup(of.classId, keysOf(1, 2, 3), 3, entries), 2)
  t.deepEqual([...entries], [first, -1, third])
})
