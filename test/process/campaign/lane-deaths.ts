import { ACTOR } from '../../../src/manager/params.js'
import type { ManagerEnd } from '../../support/manager-child.js'
import type { Draw } from './draw.js'
import type { Field } from './field.js'
import { DEATH_KINDS, DEATH_VARIABLE, DEATH_WORD, type PlannedDeath } from './lane-death.js'
import { count } from './results.js'

/**
 * K5: one lane dies somewhere in its work. The process ends with a report that names the lane, within 2 s, with the
 * code that asks for a restart; the next start is clean.
 */

const LANES = [
  ACTOR.manager,
  ACTOR.dramWorker('host'),
  ACTOR.hostRestore('host'),
  ACTOR.hostReader(0),
  ACTOR.writeback(0),
]
/** Stores that a lane does while the engines come and for a moment after: the manager does most. */
const STORES_MAX: Readonly<Record<string, number>> = { [ACTOR.manager]: 400 }
const STORES_MAX_OTHERS = 60
const EXIT_BROKEN = 70

const preload = new URL('./lane-death.js', import.meta.url).href

export async function laneDeath(field: Field, draw: Draw): Promise<void> {
  const lane = draw.pick(LANES)
  const afterStores = 8 + draw.below(STORES_MAX[lane] ?? STORES_MAX_OTHERS)
  const planned: PlannedDeath = { lane, kind: draw.pick(DEATH_KINDS), afterStores }
  const environment = [`NODE_OPTIONS=--import ${preload}`, `${DEATH_VARIABLE}=${JSON.stringify(planned)}`]
  // Only the explicit route needs every lane.
  const manager = field.launch('uring', environment)
  const end = await manager.ended
  const atNs = process.hrtime.bigint()
  field.results.reported(Number(atNs - diedAtNs(end)) / 1e9)
  checkReport(end, lane)
  field.results.laneDeaths++
  count(field.results.laneDeathsBy, `${planned.lane}: ${planned.kind}`)
}

function diedAtNs({ stderr, stdout }: ManagerEnd): bigint {
  const text = new RegExp(`^${DEATH_WORD}(\\d+)$`, 'm').exec(stderr)?.[1]
  if (text === undefined) throw new Error(`a Manager ended before its lane died: ${stderr}${stdout}`)
  return BigInt(text)
}

const BEFORE_IT_SERVED = 'a part of the process failed before it served: '

/**
 * Throws unless the process says that it ends because a lane died, and which: this one, when that is known. Before a
 * Manager serves, the report is the error of its start.
 */
export function checkReport(end: Omit<ManagerEnd, 'drained'>, lane: string | null): void {
  const { exitCode, signal, stdout, stderr } = end
  const lines = stdout.split('\n').filter((line) => line !== '')
  const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  const report = logged.find(({ msg }) => msg === 'a lane ended: the process ends with it')
  const named = lane === null ? LANES.includes(String(report?.['lane'])) : report?.['lane'] === lane
  const early = logged.length === 0 && stderr.includes(BEFORE_IT_SERVED)
  if (exitCode === EXIT_BROKEN && (named || early)) return
  throw new Error(`${lane ?? 'a lane'} died; the process ended with ${exitCode ?? signal}: ${stderr}${stdout}`)
}
