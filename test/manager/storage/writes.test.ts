import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT, WRITE_DROP_COUNT, type WriteDrop } from '../../../src/manager/storage/counters.js'
import { KIB } from '../../../src/shared/base/units.js'
import { type Fixture, find, fixture, publish } from './fixture.js'

const BLOCK = 64 * KIB
const one = (capacityBytes: number) => [{ file: 10, capacityBytes, store: 0, writer: 0 }]
const dropped = (of: Fixture, reason: WriteDrop): number => of.tally.of(WRITE_DROP_COUNT[reason])

test('a sealed block is written granule after granule to the next shard in turn', (t) => {
  const of = fixture()
  const entries = [1, 2].map((key) => publish(of, key)) as [number, number]
  t.deepEqual(
    of.lanes.writes.map(({ writer, file, fileOffsetBytes }) => [writer, file, fileOffsetBytes]),
    [
      [0, 10, 0],
      [1, 11, 0],
    ],
  )
  for (const [at, entry] of entries.entries()) {
    t.deepEqual(
      of.lanes.writes[at]?.pieces,
      [0, 1, 2, 3].map((granule) => ({
        poolOffsetBytes: of.storage.granuleOffset(entry, granule),
        bytes: 16 * KIB,
      })),
    )
    t.is(of.storage.source(entry), null, 'V1: not findable on SSD before the write has ended')
  }
  of.lanes.endAll(of.storage)
  t.deepEqual(of.storage.source(entries[1]), { store: 1, file: 11, fileOffsetBytes: 0 })
})

test('the window bounds what is in flight, the queue what waits; more is dropped as queue_full and counted', (t) => {
  const of = fixture({ shards: one(100 * BLOCK), writeWindowBytes: 2 * BLOCK, writeQueueBytesMax: 3 * BLOCK })
  for (let key = 1; key <= 7; key++) publish(of, key)
  t.is(of.lanes.writes.length, 2)
  t.is(of.storage.gauges().writesQueued, 3)
  t.is(dropped(of, 'queue_full'), 2)
  t.is(of.tally.of(STORAGE_COUNT.writeQueueFull), 2)
  t.is(of.storage.gauges().writesInFlightBytes, 2 * BLOCK)
  of.lanes.endWrite(of.storage, 1)
  t.is(of.lanes.writes.length, 2, 'out of order: the window goes on with the next')
  of.lanes.endAll(of.storage)
  t.is(of.tally.of(STORAGE_COUNT.writesCommitted), 5)
  t.deepEqual(
    [6, 7].map((key) => of.storage.onSsd(find(of, key))),
    [false, false],
  )
  t.deepEqual(census(of.storage), [])
})

test('while demand reads wait the window is narrow; it widens when none has waited for a while', (t) => {
  const of = fixture({ shards: one(100 * BLOCK), writeWindowBytes: 4 * BLOCK, writeWindowBytesMin: BLOCK })
  const entry = publish(of, 1)
  of.lanes.endAll(of.storage)
  of.storage.dropDram()
  t.is(of.lanes.windows.get(0), undefined, 'the lane starts wide')
  of.storage.fill(entry, 1)
  t.is(of.lanes.windows.get(0), BLOCK)
  publish(of, 2)
  publish(of, 3)
  t.is(of.lanes.writes.length, 1)
  while (of.lanes.reads.length > 0) of.lanes.endRead(of.storage, 0)
  t.is(of.storage.nextTickUs(), of.options.writeWindowRestoreUs)
  of.storage.tick(of.options.writeWindowRestoreUs - 1)
  t.is(of.lanes.windows.get(0), BLOCK)
  of.storage.tick(of.options.writeWindowRestoreUs)
  t.is(of.lanes.windows.get(0), 4 * BLOCK)
  t.is(of.lanes.writes.length, 2)
  t.is(of.storage.nextTickUs(), Number.POSITIVE_INFINITY)
  of.storage.demand(0, 3)
  t.is(of.lanes.windows.get(0), BLOCK, 'reads of other lanes count too')
  of.storage.demand(0, -3)
})

test('extents in flight stand in the way for a while: the write waits for them and is not dropped', (t) => {
  const of = fixture({ shards: one(2 * BLOCK), writeWindowBytes: 8 * BLOCK, writeQueueBytesMax: 4 * BLOCK })
  for (const key of [1, 2, 3]) publish(of, key)
  t.is(of.lanes.writes.length, 2)
  t.is(of.storage.gauges().writesQueued, 1)
  of.lanes.endAll(of.storage)
  t.is(dropped(of, 'no_space_pinned'), 0)
  t.is(of.tally.of(STORAGE_COUNT.writesCommitted), 3)
  t.is(of.tally.of(STORAGE_COUNT.ssdOverwrites), 1)
})

test('G3: a pinned extent is written around, and when all are pinned the write is dropped and counted', (t) => {
  const of = fixture({ shards: one(2 * BLOCK) })
  const [first, second] = [1, 2].map((key) => publish(of, key)) as [number, number]
  of.lanes.endAll(of.storage)
  of.storage.hold(first)
  t.is(of.storage.gauges().ssdPinnedBytes, BLOCK)
  const third = publish(of, 3)
  of.lanes.endAll(of.storage)
  t.true(of.storage.onSsd(first))
  t.false(of.storage.onSsd(second), 'the unpinned one made room')
  t.true(of.storage.inDram(second))
  of.storage.hold(third)
  publish(of, 4)
  t.is(of.lanes.writes.length, 0)
  t.is(dropped(of, 'no_space_pinned'), 1)
  of.storage.refreshGauges()
  t.true(of.tally.of(STORAGE_COUNT.pinnedWriteSkips) > 0)
  of.storage.drop(first)
  of.storage.drop(third)
  t.is(of.storage.gauges().ssdPinnedBytes, 0)
  t.deepEqual(census(of.storage), [])
})

test('a block whose SSD replica was its last is lost when it is overwritten', (t) => {
  const of = fixture({ shards: one(BLOCK) })
  publish(of, 1)
  of.lanes.endAll(of.storage)
  of.storage.dropDram()
  publish(of, 2)
  t.is(find(of, 1), -1)
  t.is(of.tally.of(STORAGE_COUNT.blocksLost), 1)
})

test('V2: failed, short and disk-full writes are counted and never findable; the block stays in DRAM', (t) => {
  const of = fixture({ writeWindowBytes: 8 * BLOCK })
  const entries = [1, 2, 3].map((key) => publish(of, key)) as [number, number, number]
  of.lanes.endWrite(of.storage, 0, 'io_write_failed')
  of.lanes.endWrite(of.storage, 0, 'io_disk_full')
  of.lanes.endWrite(of.storage, 0, 'ok', 512)
  t.is(dropped(of, 'failed'), 2)
  t.is(dropped(of, 'disk_full'), 1)
  for (const [index, entry] of entries.entries()) {
    t.is(find(of, index + 1), entry)
    t.false(of.storage.onSsd(entry))
  }
  t.is(of.storage.entries.extents.liveExtents, 0)
})

test('a block larger than every shard is too_large, without a place in the queue', (t) => {
  const of = fixture({ shards: one(BLOCK - 512) })
  publish(of, 1)
  t.is(dropped(of, 'too_large'), 1)
  t.is(of.storage.writesPending, 0)
})

test('a block invalidated on its way is neither written nor published', (t) => {
  const of = fixture({ shards: one(100 * BLOCK), writeWindowBytes: BLOCK })
  const [flying, queued] = [1, 2].map((key) => publish(of, key)) as [number, number]
  of.storage.invalidate(flying)
  of.storage.invalidate(queued)
  t.is(of.storage.gauges().poolUsedBytes, 2 * BLOCK, 'the writes still hold both')
  of.lanes.endAll(of.storage)
  t.is(dropped(of, 'invalidated'), 2)
  t.is(of.storage.gauges().poolUsedBytes, 0)
  t.is(of.storage.entries.extents.liveExtents, 0)
})

test('sync waits for the writes that were pending, in whatever order they end, and for no later one', (t) => {
  const of = fixture({ shards: one(100 * BLOCK), writeWindowBytes: 8 * BLOCK })
  t.is(of.storage.sync(1), 'done')
  publish(of, 1)
  publish(of, 2)
  t.is(of.storage.sync(2), 'waiting')
  publish(of, 3)
  t.is(of.storage.sync(3), 'waiting')
  t.is(of.storage.sync(4), 'waiting')
  of.storage.cancelSync(4)
  of.lanes.endWrite(of.storage, 1)
  t.deepEqual(of.lanes.syncedCalls, [])
  of.lanes.endWrite(of.storage, 0, 'io_write_failed')
  t.deepEqual(of.lanes.syncedCalls, [2])
  of.lanes.endWrite(of.storage, 0)
  t.deepEqual(of.lanes.syncedCalls, [2, 3])
  t.is(of.storage.gauges().syncWaiters, 0)
})

test('drain: what is queued is dropped as draining, what is in flight ends, syncs are answered', (t) => {
  const of = fixture({ shards: one(100 * BLOCK), writeWindowBytes: BLOCK })
  for (const key of [1, 2, 3]) publish(of, key)
  of.storage.sync(1)
  of.storage.beginDrain()
  t.is(dropped(of, 'draining'), 2)
  t.false(of.storage.quiesced)
  of.lanes.endAll(of.storage)
  t.true(of.storage.quiesced)
  t.deepEqual(of.lanes.syncedCalls, [1])
  publish(of, 4)
  t.is(dropped(of, 'draining'), 3)
  of.storage.dropDram()
  for (const [gauge, value] of Object.entries(of.storage.gauges())) t.is(value, 0, gauge)
})
