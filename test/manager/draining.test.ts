import test from 'ava'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { EMPTY_LIST, listOf } from '../../src/shared/layout/records.js'
import { HELLO, ManagerFixture } from './fixture.js'

test('draining: when its time is over the Manager waits for lanes without asking for the time again', (t) => {
  const manager = new ManagerFixture()
  manager.engine(1)
  manager.publish(1, 0, 1, 7)
  manager.step({ kind: 'control', request: { kind: 'drain', limitUs: 500 } })
  t.is(manager.machine.nextTickUs(), manager.nowUs + 500)
  manager.tick(600)
  t.true(manager.machine.nextTickUs() > manager.nowUs, 'a loop that is asked to tick at once never sleeps')
  t.false(manager.machine.ended)
})

test('draining: a block that only one of two ranks brought is given up, and nothing is owned at the end', (t) => {
  const manager = new ManagerFixture()
  manager.engine(1, 2)
  manager.publish(1, 0, 1, 7)
  const job = manager.log.flatMap((each) =>
    each.kind === 'to-dram-worker' && each.request.kind === 'save' ? [each.request.job] : [],
  )[0]
  manager.step({
    kind: 'dram-worker',
    device: 0,
    reply: { kind: 'save-done', job: job as number, status: 0, list: EMPTY_LIST },
  })
  t.is(manager.storage.gauges().assemblies, 1)
  manager.step({ kind: 'control', request: { kind: 'drain', limitUs: 1_000_000 } })
  const held = Object.entries(manager.machine.ownership()).filter(([, value]) => value !== 0)
  t.deepEqual(held, [])
  t.true(manager.log.some((each) => each.kind === 'to-dram-worker' && each.request.kind === 'stop'))
})

test('draining: a client that connected in time and says hello too late is told that the Manager drains', (t) => {
  const manager = new ManagerFixture()
  manager.step({ kind: 'accepted', connection: 1, uid: 0, pid: 1 })
  // Something is in flight, so that the drain does not end at once.
  manager.engine(2)
  manager.publish(2, 0, 1, 7)
  manager.step({ kind: 'control', request: { kind: 'drain', limitUs: 1_000_000 } })
  const reply = manager.ask(1, HELLO)
  t.is(reply?.kind === 'error' ? reply.code : 0, ERROR_CODES.draining)
})

test('draining: a lane is stopped only when the staging of every rank has been given back, and pages stay mapped until then', (t) => {
  const routes = { ...MANAGER_DEFAULTS.routes, backend: 'cufile', readRoute: 'cufile', writeRoute: 'cufile' } as const
  const manager = new ManagerFixture({ staging: ['host'], routes })
  manager.engine(1)
  manager.publish(1, 0, 1, 7)
  const [write] = manager.log.flatMap((each) =>
    each.kind === 'to-ssd-worker' && each.request.kind === 'write' ? [each.request] : [],
  )
  if (write === undefined) return t.fail('the block comes whole')
  const { job, worker } = write
  const list = listOf([ERROR_CODES.io_write_failed])
  manager.step({ kind: 'ssd-worker', device: 0, reply: { kind: 'copied', job, status: ERROR_CODES.io_copy_failed } })
  const status = ERROR_CODES.io_write_failed
  manager.step({ kind: 'ssd-worker', device: 0, reply: { kind: 'write-done', job, status, list } })
  const from = manager.log.length
  manager.step({ kind: 'control', request: { kind: 'drain', limitUs: 1_000_000 } })
  const asked = () =>
    manager.log.slice(from).flatMap((each) => (each.kind === 'to-ssd-worker' ? [each.request.kind] : []))
  t.deepEqual(asked(), ['close-worker'])
  t.deepEqual(manager.kinds(from, 'release-mapping'), [])
  manager.step({ kind: 'ssd-worker', device: 0, reply: { kind: 'worker-closed', worker } })
  t.deepEqual(asked(), ['close-worker', 'stop'])
  t.deepEqual(manager.kinds(from, 'release-mapping'), ['release-mapping'])
  const held = Object.entries(manager.machine.ownership()).filter(([, value]) => value !== 0)
  t.deepEqual(held, [])
})
