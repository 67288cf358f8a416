import { setTimeout as pause } from 'node:timers/promises'
import type { Draw } from './draw.js'
import { type Field, ROUTES } from './field.js'
import { count } from './results.js'

/**
 * K3: the Manager is killed at a random moment while engines publish, query and restore, and started again at once.
 * Some are stopped first: killed while they are, or let go on for a moment.
 */

const MOMENT_MS_MAX = 40
const WAYS = ['kill', 'kill', 'stop and kill', 'stop, go on and kill'] as const

/** One incarnation, from its start to its death. */
export async function managerKill(field: Field, draw: Draw): Promise<void> {
  const { manager, epoch } = await field.start(draw.pick(ROUTES))
  await field.registered(epoch)
  await field.engines[0]?.progress(draw.below(6))
  await pause(draw.below(MOMENT_MS_MAX))
  const way = draw.pick(WAYS)
  if (way !== 'kill') {
    manager.signal('SIGSTOP')
    field.results.managerStops++
    await pause(draw.below(MOMENT_MS_MAX))
  }
  if (way === 'stop, go on and kill') {
    manager.signal('SIGCONT')
    await Promise.all(field.engines.map((engine) => engine.progress(1)))
  }
  const end = await manager.kill()
  if (end.signal !== 'SIGKILL') throw new Error(`killed, but it ended with ${end.exitCode}: ${end.stderr}${end.stdout}`)
  field.results.managerKills++
  count(field.results.managerKillsBy, way)
}
