import { POINTS } from '../../support/barriers.js'
import { testAddon } from '../../support/test-addon-build.js'
import { coldStart } from './cold-starts.js'
import { Draw } from './draw.js'
import { engineKills, LANGUAGES } from './engine-kills.js'
import { Field } from './field.js'
import { laneDeath } from './lane-deaths.js'
import { managerKill } from './manager-kills.js'
import { namedPoint } from './named-points.js'
import { Results } from './results.js'

/**
 * `npm run test:process -- [--managerKills N] [--engineKills N] [--laneDeaths N] [--coldStarts N]
 * [--pointsVisited N] [--seed S] [--drainSeconds S] [--json]`: real processes that die, and an outside ledger of what was promised. Round i of a phase
 * has seed S + i: a failing one is replayed by its own seed and a count of 1. Without counts: the whole campaign.
 */

const WHOLE = {
  managerKills: 100,
  engineKills: 100,
  laneDeaths: 100,
  coldStarts: 50,
  pointsVisited: POINTS.length,
} as const
type Phase = keyof typeof WHOLE
const PHASES = Object.keys(WHOLE) as Phase[]
/** Strands run side by side, each with a Manager and engines of its own. */
const STRANDS = 2
/** Engine kills of one incarnation. */
const KILLS_EACH = 25
/** What a drain, and the report of a dead lane, may take. */
const DRAIN_SECONDS_MAX = 2

function number(name: string): number | null {
  const at = process.argv.indexOf(`--${name}`)
  if (at < 0) return null
  const value = Number(process.argv[at + 1])
  if (Number.isSafeInteger(value) && value >= 0) return value
  process.stderr.write(`Cannot use --${name} ${process.argv[at + 1]}: a whole number is needed, as in --${name} 10\n`)
  process.exit(2)
}

const given = Object.fromEntries(PHASES.map((phase) => [phase, number(phase)])) as Record<Phase, number | null>
const whole = PHASES.every((phase) => given[phase] === null)
const counts = Object.fromEntries(PHASES.map((phase) => [phase, whole ? WHOLE[phase] : (given[phase] ?? 0)])) as Record<
  Phase,
  number
>
const seed = number('seed') ?? Math.floor(Math.random() * 2 ** 31)
const drainSecondsMax = number('drainSeconds') ?? DRAIN_SECONDS_MAX
const json = process.argv.includes('--json')
const results = new Results()

/** One strand: its rounds of every phase, one after the other, on a field that goes on from round to round. */
class Strand {
  readonly #number: number
  #field: Field | null = null

  constructor(place: number) {
    this.#number = place
  }

  async run(): Promise<void> {
    for (const phase of PHASES) {
      const rounds = Array.from({ length: counts[phase] }, (_, i) => i).filter((i) => i % STRANDS === this.#number)
      const each = phase === 'engineKills' ? KILLS_EACH : 1
      for (let at = 0; at < rounds.length; at += each) await this.#round(phase, rounds.slice(at, at + each))
    }
    await this.#guarded('last start', seed, (field) => this.#end(field))
    await this.#field?.close()
  }

  async #round(phase: Phase, rounds: readonly number[]): Promise<void> {
    const draws = rounds.map((round) => new Draw(seed + round, phase))
    const [round, draw] = [rounds[0] as number, draws[0] as Draw]
    await this.#guarded(phase, seed + round, async (field) => {
      if (phase === 'engineKills') return await engineKills(field, draws)
      for (const language of LANGUAGES.slice(field.engines.length, 2)) field.hire(draw, language)
      if (phase === 'managerKills') await managerKill(field, draw)
      else if (phase === 'laneDeaths') await laneDeath(field, draw)
      else if (phase === 'coldStarts') await coldStart(field, draw, round)
      else await namedPoint(field, draw, round)
    })
  }

  /** After all that, a Manager starts, serves and leaves nothing behind. */
  async #end(field: Field): Promise<void> {
    const { manager, epoch } = await field.start('dram')
    await field.registered(epoch)
    await field.dismiss()
    await field.rest(manager)
  }

  /** A round that fails is reported with its seed; the next one begins on a field of its own. */
  async #guarded(phase: string, roundSeed: number, body: (field: Field) => Promise<void>): Promise<void> {
    this.#field ??= new Field(results)
    try {
      await body(this.#field)
    } catch (error) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      results.failures.push({ phase, seed: roundSeed, error: text })
      process.stderr.write(`${phase}, seed ${roundSeed}: ${text}\n`)
      await this.#field.close()
      this.#field = null
    }
  }
}

const startMs = performance.now()

function report(): string {
  const seconds = Math.round((performance.now() - startMs) / 1_000)
  return JSON.stringify({ seed, seconds, ...results }, null, json ? 0 : 2)
}

async function main(): Promise<void> {
  process.stderr.write(`seed ${seed}\n`)
  process.once('SIGINT', () => {
    process.stdout.write(`${report()}\n`)
    process.stderr.write('interrupted\n')
    process.exit(130)
  })
  if (counts.pointsVisited > 0) await testAddon()
  await Promise.all(Array.from({ length: STRANDS }, (_, place) => new Strand(place).run()))
  process.stdout.write(`${report()}\n`)
  const bad = verdict()
  for (const text of bad) process.stderr.write(`${text}\n`)
  process.exitCode = bad.length === 0 ? 0 : 1
}

/** What is not as it must be. A campaign that checked nothing has proven nothing. */
function verdict(): string[] {
  const bad: string[] = results.failures.map(({ phase, seed: at, error }) => `${phase}, seed ${at}: ${error}`)
  for (const phase of PHASES) {
    if (results[phase] < counts[phase]) bad.push(`${phase}: ${results[phase]} of ${counts[phase]}`)
  }
  if (results.wrongBytes > 0) bad.push(`wrongBytes: ${results.wrongBytes}`)
  if (results.failedRestarts > 0) bad.push(`failedRestarts: ${results.failedRestarts}`)
  if (results.blocksChecked === 0) bad.push('no restored block was checked')
  if (results.drainSecondsMax > drainSecondsMax) bad.push(`a drain took ${results.drainSecondsMax} s`)
  if (results.reportSecondsMax > drainSecondsMax) bad.push(`a report took ${results.reportSecondsMax} s`)
  return bad
}

await main()
