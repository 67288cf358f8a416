import test from 'ava'
import { ManagerMachine } from '../../src/manager/machine.js'
import type { ManagerEffect } from '../../src/manager/messages.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import type { ManagerPorts } from '../../src/manager/ports.js'
import type { PageStorage } from '../../src/manager/storage/page-storage.js'

const OPTIONS = {
  ...MANAGER_DEFAULTS,
  epoch: 1,
  uids: [0],
  ssd: true,
  queryBudgetBytes: 1,
  queryInstanceBudgetBytes: 1,
} as const

test('ManagerMachine: storage hears no time once the lanes were told to stop, for they take nothing more', (t) => {
  const ticks: number[] = []
  const storage = {
    tick: (nowUs: number) => void ticks.push(nowUs),
    nextTickUs: () => 5_000,
    gauges: () => ({}),
    beginDrain: () => {},
    writesPending: 0,
    quiesced: true,
  } as unknown as PageStorage
  const tally = { add: () => {}, set: () => {}, observe: () => {} }
  const machine = new ManagerMachine(OPTIONS, {} as ManagerPorts, () => storage, tally, 1)
  const out: ManagerEffect[] = []
  machine.step({ kind: 'tick', nowUs: 1_000 }, out)
  t.deepEqual([ticks, machine.nextTickUs()], [[1_000], 5_000])
  machine.step({ kind: 'control', request: { kind: 'drain', limitUs: 1_000_000 } }, out)
  t.is(out.filter((effect) => 'request' in effect && effect.request.kind === 'stop').length, 4)
  machine.step({ kind: 'tick', nowUs: 6_000 }, out)
  t.deepEqual([ticks, machine.nextTickUs()], [[1_000], Number.POSITIVE_INFINITY])
})
