import { Barriers, POINTS, type PointName } from '../../support/barriers.js'
import type { ManagerChild } from '../../support/manager-child.js'
import type { Draw } from './draw.js'
import { LANGUAGES } from './engine-kills.js'
import { type Field, ROUTES, Watcher } from './field.js'
import { checkReport } from './lane-deaths.js'
import { count } from './results.js'

/**
 * K1, K3, K5 at the named points of the test build (docs/internals/testing-points.md): when a thread of the Manager
 * stands at the point, the engines are killed, then the Manager is, and in another incarnation the thread itself ends.
 */
export async function namedPoint(field: Field, draw: Draw, round: number): Promise<void> {
  const point = POINTS[round % POINTS.length] as PointName
  const barriers = new Barriers(field.privateFolder())
  const { manager, epoch } = await comes(field, draw, barriers)
  await enginesDieAt(point, field, draw, barriers, manager)
  await field.registered(epoch)
  await held(point, barriers, manager)
  const end = await manager.kill()
  barriers.resume(point)
  if (end.signal !== 'SIGKILL') throw new Error(`killed at ${point}, it ended with ${end.exitCode}: ${end.stderr}`)
  count(field.results.points, `${point}: manager`)

  const next = await comes(field, draw, barriers)
  barriers.die(point)
  await barriers.reached(point, next.manager.ended)
  const diedMs = performance.now()
  const report = await next.manager.ended
  field.results.reported((performance.now() - diedMs) / 1_000)
  checkReport(report, null)
  count(field.results.points, `${point}: lane`)
  field.results.pointsVisited++
}

/** A Manager of the test build, with every engine at work. */
async function comes(field: Field, draw: Draw, barriers: Barriers): Promise<{ manager: ManagerChild; epoch: number }> {
  const environment = Object.entries(await barriers.environment()).map(([name, value]) => `${name}=${value}`)
  const started = await field.start(draw.pick(ROUTES), environment)
  await field.registered(started.epoch)
  return started
}

async function held(point: PointName, barriers: Barriers, manager: ManagerChild): Promise<void> {
  barriers.pause(point)
  await barriers.reached(point, manager.ended)
}

/** Nothing of the dead is left once the point lets go; new engines find a Manager that serves. */
async function enginesDieAt(
  point: PointName,
  field: Field,
  draw: Draw,
  barriers: Barriers,
  manager: ManagerChild,
): Promise<void> {
  const watcher = await Watcher.start(field.socketPath)
  await held(point, barriers, manager)
  for (const engine of [...field.engines]) {
    await engine.kill()
    field.strike(engine)
  }
  const resumedMs = performance.now()
  barriers.resume(point)
  field.results.drained(await watcher.until(0, resumedMs))
  await watcher.close()
  count(field.results.points, `${point}: engine`)
  for (const language of LANGUAGES.slice(0, 2)) field.hire(draw, language)
}
