import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { directIoWorks } from '../support/direct-io.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { testAddon } from '../support/test-addon-build.js'
import { allSweeps, slice } from './plans.js'
import { runSweep, Tally } from './sweep.js'

/**
 * A slice of npm run test:failures: a use here and there of each resource fails, in a runtime of its own. The promises
 * are those of scenario.ts; the runs are read from the outside, so a hang or a death of the host counts.
 */

const native = loadNative()
const testWithDisk = needs(directIoWorks(native), 'a temporary folder with direct I/O is needed')

test.before('the test build is there', async (t) => {
  // The first test file of a machine that asks for it waits for the compiler.
  t.timeout(900_000)
  await testAddon()
})

const host = { uring: native.probe().available, folder: () => '/unused' }

for (const plan of slice(host)) {
  const { fault, sticky, step, codec } = plan
  const under = codec === 'none' ? '' : ` under ${codec}`
  testWithDisk(
    `every ${step}th ${fault} fails ${sticky ? 'for good' : 'once'}${under}: every promise is kept`,
    async (t) => {
      t.timeout(600_000)
      const tally = new Tally()
      await runSweep({ ...plan, folder: mkdtempSync(join(folderOf(t), 'sweep-')) }, tally)
      t.deepEqual(tally.breaches, [])
      t.true((tally.points.get(fault) ?? 0) > 0, 'something failed')
      t.deepEqual([tally.wrongBytes, tally.hangs, tally.crashes], [0, 0, 0])
    },
  )
}

test('the whole sweep has every fault, once and for good, over both kinds of I/O', (t) => {
  const sweeps = allSweeps({ ...host, uring: true })
  for (const fault of ['allocation', 'io', 'submit', 'addonCall', 'ringPush'] as const) {
    for (const sticky of [false, true]) t.true(sweeps.some((sweep) => sweep.fault === fault && sweep.sticky === sticky))
  }
  t.deepEqual(new Set(sweeps.map(({ io }) => io)), new Set(['uring', 'posix']))
  t.deepEqual(new Set(sweeps.map(({ codec }) => codec)), new Set(['none', 'turboquant-4']))
  t.true(sweeps.every(({ from, step }) => from === 1 && step === 1))
})
