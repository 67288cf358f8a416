import { existsSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { folderOf } from '../support/folder.js'
import { eventually, ManagerChild } from '../support/manager-child.js'
import { DEATH_VARIABLE, type PlannedDeath } from './campaign/lane-death.js'
import { checkReport } from './campaign/lane-deaths.js'

/** How a Manager ends before it served, and while. The campaign has the rest: `npm run test:process`. */

const preload = new URL('./campaign/lane-death.js', import.meta.url).href

for (const [when, afterStores] of [
  ['before the Manager serves', 0],
  ['while it serves', 12],
] as const) {
  test.serial(`K5: a lane that dies ${when} is reported, and the process ends with 70`, async (t) => {
    const death: PlannedDeath = { lane: 'dram-worker', kind: 'throw', afterStores }
    const launcher = ['env', `NODE_OPTIONS=--import ${preload}`, `${DEATH_VARIABLE}=${JSON.stringify(death)}`]
    const manager = ManagerChild.launch(t, { folder: folderOf(t), launcher })
    const end = await manager.ended
    t.notThrows(() => checkReport(end, death.lane))
    t.regex(end.stderr, /planned death/)
  })
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test.serial(`K8: ${signal} while a Manager starts drains it once it has started`, async (t) => {
    const folder = folderOf(t)
    const manager = ManagerChild.launch(t, { folder })
    // Made early in a start: the lanes come after it.
    await eventually('the start has begun', () => existsSync(join(folder, 'shard.dat')))
    manager.signal(signal)
    const end = await manager.ended
    t.is(end.exitCode, 0, end.stdout + end.stderr)
    t.is(end.stderr, '')
    t.deepEqual(end.drained?.leaks, {})
  })
}
