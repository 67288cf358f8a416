import test from 'ava'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { EMPTY_LIST } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { ManagerFixture, registration } from './fixture.js'

test('leaving: the last word of a slot is written before its table is released', (t) => {
  const manager = new ManagerFixture()
  manager.engine(1)
  t.is(manager.publish(1, 0, 1, 7)?.kind, 'publishing')
  // The copies are with the lane: the session's slots stay until it answers.
  const from = manager.log.length
  manager.step({ kind: 'connection-ended', connection: 1 })
  t.deepEqual(manager.kinds(from, 'slot-finish', 'release-slots', 'release-mapping'), [])
  const job = manager.log.flatMap((each) =>
    each.kind === 'to-dram-worker' && each.request.kind === 'save' ? [each.request.job] : [],
  )[0]
  manager.step({
    kind: 'dram-worker',
    device: 0,
    reply: { kind: 'save-done', job: job as number, status: 110, list: EMPTY_LIST },
  })
  t.deepEqual(manager.kinds(from, 'slot-finish', 'release-slots'), ['slot-finish', 'release-slots'])
  // A release through a port would come before every effect of the step.
  t.deepEqual(manager.kinds(0, 'port-release-slots'), [])
  const finish = manager.log.find((each) => each.kind === 'slot-finish')
  t.is(finish?.kind === 'slot-finish' ? finish.state : -1, SLOT_STATE.cancelled)
})

test('leaving: a rank that does not fit its siblings gives back its mapping, its slots and every descriptor', (t) => {
  const manager = new ManagerFixture()
  manager.greet(1)
  t.is(manager.ask(1, registration(1, 0, 2), [50])?.kind, 'registered')
  manager.greet(2)
  const from = manager.log.length
  const reply = manager.ask(2, registration(1, 1, 2, 2048), [51])
  t.is(reply?.kind === 'error' ? reply.code : 0, ERROR_CODES.geometry_conflict)
  const closed = manager.log.slice(from).flatMap((each) => (each.kind === 'close-fd' ? [each.number] : []))
  t.deepEqual(closed, [51, 101, 102, 103])
  t.deepEqual(manager.kinds(from, 'port-release-slots', 'release-mapping'), ['port-release-slots', 'release-mapping'])
})
