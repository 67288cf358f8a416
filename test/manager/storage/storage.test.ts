import test from 'ava'
import { census } from '../../../src/manager/storage/census.js'
import { find, fixture, publish } from './fixture.js'

test('Storage: a sealed block is found in DRAM, then on SSD, and comes back by a fill', (t) => {
  const of = fixture()
  const entry = publish(of, 1)
  t.true(of.storage.inDram(entry))
  t.false(of.storage.onSsd(entry))
  t.deepEqual(census(of.storage), [])
  of.lanes.endAll(of.storage)
  t.true(of.storage.onSsd(entry))
  t.deepEqual(of.storage.dropDram().evictedBlocks, 1)
  t.is(find(of, 1), entry)
  t.false(of.storage.inDram(entry))
  t.is(of.storage.fill(entry, 7), 'started')
  of.lanes.endAll(of.storage)
  t.deepEqual(of.lanes.filledCalls, [{ waiter: 7, entry, status: 'ok' }])
  t.true(of.storage.inDram(entry))
  t.deepEqual(census(of.storage), [])
})
