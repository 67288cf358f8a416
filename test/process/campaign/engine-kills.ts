import { setTimeout as pause } from 'node:timers/promises'
import type { Draw } from './draw.js'
import type { EngineAtWork, EngineLanguage } from './engines.js'
import { type Field, ROUTES, Watcher } from './field.js'
import { count } from './results.js'

/**
 * K1, K2: engines are killed and stopped at random moments of their work. Nothing of a dead one is left within the
 * bound, a stopped one holds what it holds and hinders nobody, and the others go on.
 */

const MOMENT_MS_MAX = 30
const WAYS = ['kill', 'kill', 'stop and kill', 'stop, go on and kill'] as const
/** Two of three are TypeScript. */
export const LANGUAGES: readonly EngineLanguage[] = ['typescript', 'python', 'typescript']

/** Kills of one incarnation, then everything leaves and the Manager drains to nothing. */
export async function engineKills(field: Field, draws: readonly Draw[]): Promise<void> {
  const first = draws[0] as Draw
  const { manager, epoch } = await field.start(first.pick(ROUTES))
  for (const language of LANGUAGES.slice(field.engines.length)) field.hire(first, language)
  await field.registered(epoch)
  const watcher = await Watcher.start(field.socketPath)
  for (const [round, draw] of draws.entries()) {
    await engineKill(field, draw, watcher)
    field.hire(draw, LANGUAGES[round % LANGUAGES.length] as EngineLanguage)
    await field.registered(epoch)
  }
  await watcher.close()
  await field.dismiss()
  await field.rest(manager)
}

async function engineKill(field: Field, draw: Draw, watcher: Watcher): Promise<void> {
  const victim = draw.pick(field.engines) as EngineAtWork
  const others = field.engines.filter((engine) => engine !== victim)
  await pause(draw.below(MOMENT_MS_MAX))
  const way = draw.pick(WAYS)
  if (way !== 'kill') {
    victim.signal('SIGSTOP')
    field.results.engineStops++
    await Promise.all(others.map((engine) => engine.progress(2)))
  }
  if (way === 'stop, go on and kill') {
    victim.signal('SIGCONT')
    await victim.progress(1)
  }
  const killedMs = performance.now()
  await victim.kill()
  field.strike(victim)
  field.results.drained(await watcher.until(others.length, killedMs))
  await Promise.all(others.map((engine) => engine.progress(1)))
  field.results.engineKills++
  count(field.results.engineKillsBy, way)
}
