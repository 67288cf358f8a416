import test from 'ava'
import { CLIENT_READS_MAX } from '../../../src/actors/host-reader/messages.js'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT } from '../../../src/manager/storage/counters.js'
import { KIB } from '../../../src/shared/base/units.js'
import { type Fixture, find, fixture, geometryOf, keysOf, publish } from './fixture.js'

const BLOCK = 64 * KIB

/** Keys 1 … count, on SSD alone. */
function onSsdAlone(of: Fixture, count: number): number[] {
  const entries = []
  for (let key = 1; key <= count; key++) {
    entries.push(publish(of, key))
    of.lanes.endAll(of.storage)
    of.storage.dropDram()
  }
  return entries
}

test('a fill asks for every granule where it was written, with its checksum', (t) => {
  const of = fixture()
  const [, entry] = onSsdAlone(of, 2) as [number, number]
  const source = of.storage.source(entry)
  t.is(of.storage.fill(entry, 1), 'started')
  t.is(of.lanes.readBatches, 1, 'one record for the whole block')
  t.deepEqual(
    of.lanes.reads.map(({ store, file, fileOffsetBytes, bytes, crc32 }) => ({
      store,
      file,
      fileOffsetBytes,
      bytes,
      crc32,
    })),
    [0, 1, 2, 3].map((granule) => ({
      store: source?.store as number,
      file: source?.file as number,
      fileOffsetBytes: (source?.fileOffsetBytes as number) + granule * 16 * KIB,
      bytes: 16 * KIB,
      crc32: 1000 + granule,
    })),
  )
  t.deepEqual(
    of.lanes.reads.map(({ poolOffsetBytes }) => poolOffsetBytes),
    [0, 1, 2, 3].map((granule) => of.storage.granuleOffset(entry, granule)),
  )
})

test('C3: waiters share one read, and one that leaves does not stop it', (t) => {
  const of = fixture()
  const [entry] = onSsdAlone(of, 1) as [number]
  t.is(of.storage.fill(entry, 1), 'started')
  t.is(of.storage.fill(entry, 2), 'joined')
  t.is(of.lanes.reads.length, 4)
  t.is(of.storage.cancelFill(entry, 1), 'left')
  t.is(of.storage.cancelFill(entry, 1), 'absent', 'it left already')
  of.lanes.endAll(of.storage)
  t.deepEqual(of.lanes.filledCalls, [{ waiter: 2, entry, status: 'ok' }])
  t.is(of.storage.fill(entry, 3), 'resident')
})

test('C2: when the last waiter leaves, what was sent still ends before the memory is given back or kept', (t) => {
  const of = fixture()
  const [entry] = onSsdAlone(of, 1) as [number]
  of.storage.fill(entry, 1)
  t.is(of.storage.cancelFill(entry, 1), 'draining')
  t.is(of.storage.gauges().poolUsedBytes, BLOCK)
  t.is(of.storage.dropDram().evictedBlocks, 0)
  of.lanes.endAll(of.storage)
  t.true(of.storage.inDram(entry), 'the bytes came, verified: they are of use')
  t.deepEqual(of.lanes.filledCalls, [{ waiter: 1, entry, status: 'ok' }], 'whoever left last hears of the end')
  t.deepEqual(census(of.storage), [])
})

test('credits: a store never has more granules outstanding than a client may, the rest waits in order', (t) => {
  const wide = geometryOf({ ranks: 1, perRank: 100, bytes: 4 * KIB, items: 1 })
  const shards = [{ file: 10, capacityBytes: 8 * wide.extentBytes, store: 0, writer: 0 }]
  const bytes = { writeQueueBytesMax: wide.extentBytes, writeWindowBytes: wide.extentBytes }
  const of = fixture({ poolBytes: 8 * wide.extentBytes, shards, ...bytes }, wide)
  const entries = onSsdAlone(of, 4)
  for (const [waiter, entry] of entries.entries()) of.storage.fill(entry, waiter)
  t.is(of.lanes.reads.length, CLIENT_READS_MAX)
  t.is(of.storage.gauges().readsQueued, 400 - CLIENT_READS_MAX)
  t.deepEqual(census(of.storage), [])
  // C1: the last one has sent nothing: it ends at once, memory and all.
  const used = of.storage.gauges().poolUsedBytes
  of.storage.cancelFill(entries[3] as number, 3)
  t.is(of.storage.gauges().poolUsedBytes, used - wide.extentBytes)
  t.is(of.tally.of(STORAGE_COUNT.fillsCancelled), 1)
  of.lanes.endRead(of.storage, 0)
  t.is(of.lanes.reads.length, CLIENT_READS_MAX, 'a credit that returns is used at once')
  // The third has sent a part: it is given up with it, and taken up again by a new waiter.
  of.storage.cancelFill(entries[2] as number, 2)
  t.is(of.storage.fill(entries[2] as number, 9), 'joined')
  of.lanes.endAll(of.storage)
  t.deepEqual(
    of.lanes.filledCalls.map(({ waiter, status }) => [waiter, status]),
    [
      [0, 'ok'],
      [1, 'ok'],
      [9, 'ok'],
      [2, 'ok'],
    ],
  )
  t.deepEqual(census(of.storage), [])
})

test('O6: after a failed read nothing new is sent, and the fill ends when every sent read has', (t) => {
  const of = fixture()
  const [entry] = onSsdAlone(of, 1) as [number]
  of.storage.fill(entry, 1)
  of.lanes.endRead(of.storage, 1, 'io_read_failed')
  t.is(of.storage.fill(entry, 2), 'joined')
  of.lanes.endRead(of.storage, 0)
  of.lanes.endRead(of.storage, 0)
  t.deepEqual(of.lanes.filledCalls, [])
  t.is(of.storage.gauges().poolUsedBytes, BLOCK)
  of.lanes.endRead(of.storage, 0)
  t.deepEqual(of.lanes.filledCalls, [
    { waiter: 1, entry, status: 'io_read_failed' },
    { waiter: 2, entry, status: 'io_read_failed' },
  ])
  t.is(of.storage.gauges().poolUsedBytes, 0)
  t.is(find(of, 1), entry, 'a read that failed damages nothing')
  t.is(of.storage.fill(entry, 3), 'started')
})

test('a read that came short is a failure, whatever its status says', (t) => {
  const of = fixture()
  const [entry] = onSsdAlone(of, 1) as [number]
  of.storage.fill(entry, 1)
  of.lanes.endRead(of.storage, 2, 'ok', 512)
  of.lanes.endAll(of.storage)
  t.deepEqual(of.lanes.filledCalls, [{ waiter: 1, entry, status: 'io_short' }])
  t.false(of.storage.inDram(entry))
})

test('V6: a damaged generation is hidden at once and only it; a republication repairs the key', (t) => {
  const of = fixture()
  const [entry, other] = onSsdAlone(of, 2) as [number, number]
  const generation = of.storage.generationOf(entry)
  of.storage.hold(entry)
  of.storage.fill(entry, 1)
  of.lanes.endRead(of.storage, 0, 'checksum_mismatch')
  of.lanes.endAll(of.storage)
  t.deepEqual(of.lanes.filledCalls, [{ waiter: 1, entry, status: 'checksum_mismatch' }])
  t.is(find(of, 1), -1)
  t.is(find(of, 2), other)
  t.is(of.storage.fill(entry, 2), 'gone')
  const repaired = publish(of, 1)
  t.not(repaired, entry)
  t.is(of.storage.generationOf(entry), generation, 'it lives while it is held')
  t.false(of.storage.invalidateGeneration(repaired, generation), 'a late report hides nothing new')
  of.storage.drop(entry)
  t.is(find(of, 1), repaired)
  t.deepEqual(census(of.storage), [])
})

test('O4: replies that match nothing outstanding are counted and change nothing', (t) => {
  const of = fixture()
  const [entry] = onSsdAlone(of, 1) as [number]
  of.storage.fill(entry, 1)
  const read = of.lanes.endRead(of.storage, 0)
  const before = of.tally.of(STORAGE_COUNT.strayReplies)
  const reply = { kind: 'read-done', batch: read.batch, index: read.index, status: 0, bytes: read.bytes } as const
  of.storage.readDone(read.store, reply)
  of.storage.readDone(1 - read.store, { ...reply, index: 1 })
  of.storage.readDone(read.store, { ...reply, index: 99 })
  of.storage.readDone(read.store, { ...reply, batch: 99 })
  t.is(of.tally.of(STORAGE_COUNT.strayReplies), before + 4)
  t.is(of.storage.gauges().readsOutstanding, 3)
  t.deepEqual(census(of.storage), [])
})

test('a fill without room changes nothing; one of a block that is nowhere is gone', (t) => {
  const of = fixture({ poolBytes: BLOCK })
  const [entry] = onSsdAlone(of, 1) as [number]
  const held = publish(of, 2)
  of.storage.hold(held)
  of.lanes.endAll(of.storage)
  t.is(of.storage.fill(entry, 1), 'no-memory')
  t.is(of.lanes.reads.length, 0)
  t.deepEqual(census(of.storage), [])
  const { entry: assembling } = of.storage.claim(of.classId, keysOf(3), 0)
  t.is(of.storage.fill(assembling, 1), 'gone')
})

test('drain: fills with unsent reads end as draining once what was sent has ended, and none starts', (t) => {
  const wide = geometryOf({ ranks: 1, perRank: 150, bytes: 4 * KIB, items: 1 })
  const shards = [{ file: 10, capacityBytes: 8 * wide.extentBytes, store: 0, writer: 0 }]
  const bytes = { writeQueueBytesMax: wide.extentBytes, writeWindowBytes: wide.extentBytes }
  const of = fixture({ poolBytes: 8 * wide.extentBytes, shards, ...bytes }, wide)
  const [first, second, third] = onSsdAlone(of, 3) as [number, number, number]
  of.storage.fill(first, 1)
  of.storage.fill(second, 2)
  of.storage.beginDrain()
  t.is(of.storage.fill(third, 3), 'draining')
  t.false(of.storage.quiesced)
  of.lanes.endAll(of.storage)
  t.deepEqual(
    of.lanes.filledCalls.map(({ waiter, status }) => [waiter, status]),
    [
      [1, 'ok'],
      [2, 'draining'],
    ],
  )
  t.true(of.storage.quiesced)
})
