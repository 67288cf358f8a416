import test from 'ava'
import { keysNamed } from '../support/engine.js'
import { versionedSegment, versionOf } from './campaign/content.js'
import { Draw } from './campaign/draw.js'
import { checkDrained } from './campaign/field.js'
import { checkReport } from './campaign/lane-deaths.js'
import { Ledger } from './campaign/ledger.js'

/** The judges of the process campaign can say no. The campaign itself is `npm run test:process`. */

const publication = { epoch: 1, name: 'prefix 0', blocks: 2, version: 7 }

test('ledger: what was begun under this incarnation may be served, and nothing else', (t) => {
  const ledger = new Ledger()
  ledger.begun(publication)
  ledger.acknowledged(publication)
  ledger.restored(1, 'prefix 0', [7, 7])
  t.deepEqual([ledger.wrongs.length, ledger.published, ledger.blocksChecked], [0, 1, 2])

  ledger.restored(1, 'prefix 0', [7, 7, 7])
  t.regex(ledger.wrongs[0] ?? '', /prefix 0\/2 .* which nobody published/)
  ledger.restored(1, 'prefix 1', [7])
  t.regex(ledger.wrongs[1] ?? '', /prefix 1\/0 .* which nobody published/)
  ledger.restored(1, 'prefix 0', [8])
  t.is(ledger.wrongs.length, 3, 'a version that nobody wrote')
  ledger.restored(2, 'prefix 0', [7])
  t.regex(ledger.wrongs[3] ?? '', /under incarnation 2 with version 7, of incarnation 1/)
  ledger.acknowledged({ ...publication, version: 9 })
  t.regex(ledger.wrongs[4] ?? '', /nobody began/)
})

test('ledger: a block that two engines publish at once may be either', (t) => {
  const ledger = new Ledger()
  ledger.begun(publication)
  ledger.begun({ ...publication, version: 8 })
  ledger.restored(1, 'prefix 0', [8, 7])
  t.deepEqual(ledger.wrongs, [])
})

test('content: every segment says its version, and differs by key, layer, segment and version', (t) => {
  const keys = keysNamed('prefix 0', 2)
  const [one, two] = [keys.subarray(0, 32), keys.subarray(32, 64)]
  const segment = versionedSegment(one, 7, 0, 0)
  t.is(versionOf(segment), 7)
  t.true(segment.equals(versionedSegment(one, 7, 0, 0)))
  for (const other of [
    versionedSegment(two, 7, 0, 0),
    versionedSegment(one, 8, 0, 0),
    versionedSegment(one, 7, 1, 0),
    versionedSegment(one, 7, 0, 1),
  ]) {
    t.false(segment.subarray(4).equals(other.subarray(4)))
  }
})

test('draw: one seed and purpose make one plan, others make others', (t) => {
  const plan = (seed: number, purpose: string) => {
    const draw = new Draw(seed, purpose)
    return Array.from({ length: 50 }, () => draw.below(10))
  }
  t.deepEqual(plan(1, 'managerKills'), plan(1, 'managerKills'))
  t.notDeepEqual(plan(1, 'managerKills'), plan(2, 'managerKills'))
  t.notDeepEqual(plan(1, 'managerKills'), plan(1, 'laneDeaths'))
  const seen = new Set(Array.from({ length: 64 }, (_, seed) => plan(seed, 'x')).flat())
  t.is(seen.size, 10)
})

const REPORT = '{"msg":"a lane ended: the process ends with it","lane":"dram-worker"}\n'
const died = { exitCode: 70, signal: null, stdout: REPORT, stderr: '' }

test('K5: a lane that died is reported by name, with the code that asks for a restart', (t) => {
  t.notThrows(() => checkReport(died, 'dram-worker'))
  t.notThrows(() => checkReport(died, null))
  t.throws(() => checkReport(died, 'manager'))
  t.throws(() => checkReport({ ...died, exitCode: 0 }, 'dram-worker'))
  t.throws(() => checkReport({ ...died, exitCode: null, signal: 'SIGSEGV' }, 'dram-worker'))
  t.throws(() => checkReport({ ...died, stdout: '' }, 'dram-worker'))
})

test('D1: a drain counts only with code 0, a report, nothing unfinished and nothing leaked', (t) => {
  const clean = { exitCode: 0, signal: null, drained: { unfinished: 0, leaks: {} }, stdout: '', stderr: '' }
  t.notThrows(() => checkDrained(clean))
  for (const bad of [
    { ...clean, exitCode: 1 },
    { ...clean, exitCode: null, signal: 'SIGTERM' as const },
    { ...clean, drained: undefined },
    { ...clean, drained: { unfinished: 1, leaks: {} } },
    { ...clean, drained: { unfinished: 0, leaks: { orbitkv_leases: 1 } } },
    { ...clean, stderr: 'a warning' },
  ])
    t.throws(() => checkDrained(bad))
})
