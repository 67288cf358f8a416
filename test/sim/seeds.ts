import fc from 'fast-check'
import { FAULT_KINDS, type FaultKind, FaultTally } from './faults.js'
import { type Plan, planArbitrary } from './plan.js'
import { Violation } from './violation.js'
import { NO_TWIN, type Outcome, type Twin, World } from './world.js'

/** The last line of `npm run sim`. */
export interface Report {
  readonly seeds: number
  /** Machine steps with an input, ticks that were due, and completions of disk and device. */
  readonly operations: number
  readonly violations: number
  readonly restoresVerified: number
  readonly blocksVerified: number
  readonly publishesDone: number
  readonly faultKinds: number
  readonly faultKindsFired: number
  readonly faultKindsSilent: readonly string[]
  /** On one core: operations by the seconds that the threads spent, added up. */
  readonly operationsPerSecond: number
  readonly eventHash: string
}

/** The plan of a seed: the same in every process and on every machine. */
export function planOf(seed: number): Plan {
  const [plan] = fc.sample(planArbitrary, { seed, numRuns: 1 })
  return plan as Plan
}

/** Simulates one plan; throws what went wrong. */
export function simulate(plan: Plan, faults = new FaultTally(), twin: Twin = NO_TWIN): Outcome {
  return new World(plan, faults, twin).run()
}

/** A violation of one seed, as small as it would become. */
export interface Found {
  readonly seed: number
  readonly path: string
  readonly message: string
  readonly plan: Plan
}

/** Runs one seed through fast-check, which makes a failing plan smaller; null when nothing is wrong. */
export function hunt(seed: number, shrinkMs: number, path: string | null = null, twin: Twin = NO_TWIN): Found | null {
  // A smaller plan that breaks something else is another finding: only the same rule counts.
  let rule: string | null = null
  const property = fc.property(planArbitrary, (plan) => {
    try {
      simulate(plan, new FaultTally(), twin)
    } catch (error) {
      rule ??= ruleOf(error)
      if (rule === ruleOf(error)) throw error
    }
  })
  const details = fc.check(property, {
    seed,
    numRuns: 1,
    interruptAfterTimeLimit: shrinkMs,
    ...(path === null ? {} : { path, endOnFailure: true }),
  })
  if (!details.failed || details.counterexample === null) return null
  const error = details.errorInstance
  return {
    seed,
    path: details.counterexamplePath ?? '',
    message: error instanceof Error ? `${error.message}\n${error.stack ?? ''}` : String(error),
    plan: details.counterexample[0],
  }
}

function ruleOf(error: unknown): string {
  if (error instanceof Violation) return error.rule
  return error instanceof Error ? error.message.replace(/[{\d].*$/s, '') : 'unknown'
}

/** A run of neighbouring seeds: what one thread of a sweep does. */
export interface PartOptions {
  readonly first: number
  readonly seeds: number
  /** Replay of a smaller plan of the first seed: the path that a violation printed. */
  readonly path: string | null
  /** A line for every so many seeds; 0: only what breaks. */
  readonly sayEvery: number
}

/** What came of a part; plain, so that it can be posted to another thread. */
export interface Part {
  readonly seeds: number
  readonly operations: number
  readonly violations: number
  readonly restoresVerified: number
  readonly blocksVerified: number
  readonly publishesDone: number
  readonly seconds: number
  /** Event hash of each seed, in order. */
  readonly hashes: readonly number[]
  readonly faultKinds: readonly FaultKind[]
  /** What a person should read. */
  readonly lines: readonly string[]
}

const SHRINK_MS = 20_000
const VIOLATIONS_MAX = 5

/** Simulates the seeds of a part, one after the other; stops early when too many break. */
export function runPart({ first, seeds, path, sayEvery }: PartOptions): Part {
  const faults = new FaultTally()
  const lines: string[] = []
  const say = (line: string) => lines.push(line)
  const startedMs = performance.now()
  const sum = { operations: 0, violations: 0, restoresVerified: 0, blocksVerified: 0, publishesDone: 0 }
  const hashes: number[] = []
  let done = 0
  for (let seed = first; seed < first + seeds && sum.violations < VIOLATIONS_MAX; seed++, done++) {
    if (path !== null) {
      sum.violations += report(hunt(seed, SHRINK_MS, path), say)
      continue
    }
    try {
      const outcome = simulate(planOf(seed), faults)
      sum.operations += outcome.operations
      sum.restoresVerified += outcome.restoresVerified
      sum.blocksVerified += outcome.blocksVerified
      sum.publishesDone += outcome.publishesDone
      hashes.push(outcome.hash)
      if (sayEvery > 0 && seed % sayEvery === 0) say(`seed ${seed}: ${JSON.stringify(outcome)}`)
    } catch (error) {
      sum.violations++
      say(`seed ${seed} breaks: ${error instanceof Error ? error.stack : String(error)}`)
      report(hunt(seed, SHRINK_MS), say)
    }
  }
  const seconds = (performance.now() - startedMs) / 1000
  return { seeds: done, ...sum, seconds, hashes, faultKinds: [...faults.counts.keys()], lines }
}

/** Joins parts, given in order of their seeds, as if one thread had run them all. */
export function reportOf(parts: readonly Part[]): Report {
  const total = (pick: (part: Part) => number) => parts.reduce((sum, part) => sum + pick(part), 0)
  const fired = new Set(parts.flatMap((part) => part.faultKinds))
  const silent = FAULT_KINDS.filter((kind) => !fired.has(kind))
  let hash = 0
  for (const one of parts.flatMap((part) => part.hashes)) hash = Math.imul(hash ^ one, 0x9e3779b1) >>> 0
  const operations = total((part) => part.operations)
  return {
    seeds: total((part) => part.seeds),
    operations,
    violations: total((part) => part.violations),
    restoresVerified: total((part) => part.restoresVerified),
    blocksVerified: total((part) => part.blocksVerified),
    publishesDone: total((part) => part.publishesDone),
    faultKinds: FAULT_KINDS.length,
    faultKindsFired: fired.size,
    faultKindsSilent: silent,
    operationsPerSecond: Math.round(
      operations /
        Math.max(
          1e-3,
          total((part) => part.seconds),
        ),
    ),
    eventHash: hash.toString(16).padStart(8, '0'),
  }
}

function report(found: Found | null, say: (line: string) => void): number {
  if (found === null) return 0
  const { plan } = found
  const commands = plan.engines.reduce((count, engine) => count + engine.commands.length, 0)
  say(`smallest: ${found.message}`)
  say(`commands ${commands}, plan ${JSON.stringify(plan)}`)
  say(`replay: npm run sim -- --seed ${found.seed} --path ${found.path}`)
  return 1
}
