import test from 'ava'
import { CodedBed } from './coded-bed.js'
import { ManagerFixture } from './fixture.js'

/** What codecs hold on a device is given back before the last rank there has left. */

type Manager = ManagerFixture
const LANES = ['dram-worker', 'host-restore'] as const

const asked = (manager: Manager, from = 0): string[] =>
  manager.log
    .slice(from)
    .flatMap((each) =>
      (each.kind === 'to-dram-worker' || each.kind === 'to-host-restore') && each.request.kind === 'release-workspace'
        ? [each.kind]
        : [],
    )

const BOTH = ['to-dram-worker', 'to-host-restore']
const answer = (manager: Manager, kind: (typeof LANES)[number]) =>
  manager.step({ kind, device: 0, reply: { kind: 'workspace-released' } })

const unregister = (manager: Manager, connection: number) => manager.ask(connection, { kind: 'unregister' })
const owned = (manager: Manager) => manager.machine.ownership()

test('leaving: UNREGISTER of the last rank is answered when both lanes have given back what codecs hold', (t) => {
  const bed = new CodedBed()
  const { manager } = bed
  bed.engine(1)
  bed.publish(1, 1, [0])
  bed.rest()
  t.is(unregister(manager, 1), null)
  t.deepEqual(asked(manager), BOTH)
  t.deepEqual(manager.kinds(0, 'release-mapping'), [])
  t.is(owned(manager)['jobsOpen'], 2)
  t.deepEqual(answer(manager, 'host-restore'), [])
  t.deepEqual(
    answer(manager, 'dram-worker').map(({ kind }) => kind),
    ['release-slots', 'send'],
  )
  t.deepEqual(manager.kinds(0, 'release-mapping'), ['release-mapping'])
  t.is(owned(manager)['jobsOpen'], 0)
  bed.engine(2)
  t.deepEqual(asked(manager), BOTH, 'nobody is asked by a rank that comes')
})

test('leaving: what is still copied for a rank ends before the lanes are asked', (t) => {
  const bed = new CodedBed()
  const { manager } = bed
  bed.engine(1)
  bed.publish(1, 1, [0])
  manager.step({ kind: 'connection-ended', connection: 1 })
  t.deepEqual(asked(manager), [])
  bed.rest()
  t.deepEqual(asked(manager), BOTH)
  t.is(owned(manager)['sessions'], 1)
  for (const lane of LANES) answer(manager, lane)
  t.is(owned(manager)['sessions'], 0)
})

test('leaving: while another rank has pages on the device nothing is asked, whatever order they leave in', (t) => {
  const bed = new CodedBed()
  const { manager } = bed
  bed.engine(1)
  bed.engine(2)
  t.is(unregister(manager, 1)?.kind, 'ack')
  t.deepEqual(asked(manager), [])
  t.is(unregister(manager, 2), null)
  t.deepEqual(asked(manager), BOTH)
  // One comes and goes while the lanes are asked: they may have coded for it since.
  bed.engine(3)
  t.is(unregister(manager, 3), null)
  t.deepEqual(asked(manager), BOTH)
  for (const lane of LANES) answer(manager, lane)
  t.deepEqual(asked(manager), [...BOTH, ...BOTH])
  const from = manager.log.length
  answer(manager, 'dram-worker')
  t.deepEqual(manager.kinds(from, 'send'), [])
  answer(manager, 'host-restore')
  t.deepEqual(manager.kinds(from, 'send'), ['send'])
})

test('leaving: a peer that dies while the lanes are asked leaves when they have answered', (t) => {
  const bed = new CodedBed()
  const { manager } = bed
  bed.engine(1)
  t.is(unregister(manager, 1), null)
  manager.step({ kind: 'connection-ended', connection: 1 })
  t.deepEqual(asked(manager), BOTH, 'nobody is asked twice')
  t.is(owned(manager)['sessions'], 1)
  for (const lane of LANES) answer(manager, lane)
  t.is(owned(manager)['sessions'], 0)
  t.deepEqual(manager.kinds(0, 'release-mapping'), ['release-mapping'])
})

test('drain: lanes are stopped when they have answered for what codecs hold', (t) => {
  const bed = new CodedBed()
  const { manager } = bed
  bed.engine(1)
  manager.step({ kind: 'control', request: { kind: 'drain', limitUs: 1_000_000 } })
  t.deepEqual(asked(manager), BOTH)
  const stops = () =>
    manager.log.filter((each) => each.kind === 'to-dram-worker' && each.request.kind === 'stop').length
  t.is(stops(), 0)
  manager.tick(2_000_000)
  t.is(stops(), 0, 'nor when its time is over')
  for (const lane of LANES) answer(manager, lane)
  t.is(stops(), 1)
})

test('leaving: without a codec nobody is asked', (t) => {
  const manager = new ManagerFixture()
  manager.engine(1)
  t.is(unregister(manager, 1)?.kind, 'ack')
  t.deepEqual(asked(manager), [])
  t.throws(() => answer(manager, 'dram-worker'), { message: /when it was asked to/ })
})
