import test from 'ava'
import { ManagerFixture } from './fixture.js'

test('publish: a block that another engine is bringing is told as assembling, and nothing of it is copied', (t) => {
  const manager = new ManagerFixture()
  manager.engine(1)
  manager.engine(2)
  const none = { kind: 'publishing', accepted: 0, present: 0, assembling: 0, skipped: 0 }
  t.deepEqual(manager.publish(1, 0, 1, 7), { ...none, accepted: 1 } as never)
  const from = manager.log.length
  t.deepEqual(manager.publish(2, 0, 1, 7), { ...none, assembling: 1 } as never)
  t.deepEqual(manager.kinds(from, 'to-dram-worker', 'slot-finish'), ['slot-finish'])
})
