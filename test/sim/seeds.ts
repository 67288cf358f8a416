import fc from 'fast-check'
import { commitOf } from './commit.js'
import type { Outcome } from './deeds.js'
import { FAULT_KINDS, type FaultKind, FaultTally } from './faults.js'
import { type Plan, planArbitrary } from './plan.js'
import { Violation } from './violation.js'
import { NO_TWIN, type Twin, World } from './world.js'

/** The last line of `npm run sim`. */
export interface Report {
  readonly seeds: number
  /** Machine steps with an input, ticks that were due, and completions of disk and device. */
  readonly operations: number
  readonly violations: number
  readonly restoresVerified: number
  readonly blocksVerified: number
  readonly publishesDone: number
  /** Reads and writes of the cuFile route that ended in full. */
  readonly cufileReads: number
  readonly cufileWrites: number
  /** Items that the device encoded and decoded. */
  readonly encoded: number
  readonly decoded: number
  readonly faultKinds: number
  readonly faultKindsFired: number
  readonly faultKindsSilent: readonly string[]
  /** How often each kind fired. */
  readonly faultCounts: Readonly<Record<string, number>>
  /** Starts of the Manager: one a seed, and one after every death, stop and restart. */
  readonly starts: number
  /** Processor time of all threads, with compiling and collecting. */
  readonly cpuSeconds: number
  /** On one core: operations by seconds of processor time. */
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
  const world = new World(plan, faults, twin)
  try {
    return world.run()
  } catch (error) {
    if (error instanceof Error) HASHES.set(error, world.hash)
    throw error
  }
}

/** The event hash at the moment of each violation. */
const HASHES = new WeakMap<Error, number>()

/** Of eight digits, as the last line and a replay line have it. */
export function hashText(hash: number): string {
  return (hash >>> 0).toString(16).padStart(8, '0')
}

/** A violation of one seed, as small as it would become. */
export interface Found {
  readonly seed: number
  readonly path: string
  readonly message: string
  /** Of the smallest plan, up to the violation. */
  readonly eventHash: string
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
    eventHash: hashText((error instanceof Error ? HASHES.get(error) : undefined) ?? 0),
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
  readonly cufileReads: number
  readonly cufileWrites: number
  readonly encoded: number
  readonly decoded: number
  readonly seconds: number
  /** Event hash of each seed, in order. */
  readonly hashes: readonly number[]
  readonly starts: number
  /** Kinds that fired, and how often. */
  readonly faultCounts: readonly (readonly [FaultKind, number])[]
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
  const sum = {
    operations: 0,
    violations: 0,
    restoresVerified: 0,
    blocksVerified: 0,
    publishesDone: 0,
    cufileReads: 0,
    cufileWrites: 0,
    encoded: 0,
    decoded: 0,
    starts: 0,
  }
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
      sum.cufileReads += outcome.cufileReads
      sum.cufileWrites += outcome.cufileWrites
      sum.encoded += outcome.encoded
      sum.decoded += outcome.decoded
      sum.starts += outcome.starts
      hashes.push(outcome.hash)
      if (sayEvery > 0 && seed % sayEvery === 0) say(`seed ${seed}: ${JSON.stringify(outcome)}`)
    } catch (error) {
      sum.violations++
      say(`seed ${seed} breaks: ${error instanceof Error ? error.stack : String(error)}`)
      report(hunt(seed, SHRINK_MS), say)
    }
  }
  const seconds = (performance.now() - startedMs) / 1000
  return { seeds: done, ...sum, seconds, hashes, faultCounts: [...faults.counts], lines }
}

/** Joins parts, given in order of their seeds, as if one thread had run them all. */
export function reportOf(parts: readonly Part[], cpuSeconds: number): Report {
  const total = (pick: (part: Part) => number) => parts.reduce((sum, part) => sum + pick(part), 0)
  const fired = new Map<FaultKind, number>(FAULT_KINDS.map((kind) => [kind, 0]))
  for (const [kind, count] of parts.flatMap((part) => part.faultCounts)) fired.set(kind, (fired.get(kind) ?? 0) + count)
  const silent = FAULT_KINDS.filter((kind) => fired.get(kind) === 0)
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
    cufileReads: total((part) => part.cufileReads),
    cufileWrites: total((part) => part.cufileWrites),
    encoded: total((part) => part.encoded),
    decoded: total((part) => part.decoded),
    faultKinds: FAULT_KINDS.length,
    faultKindsFired: FAULT_KINDS.length - silent.length,
    faultKindsSilent: silent,
    faultCounts: Object.fromEntries(fired),
    starts: total((part) => part.starts),
    cpuSeconds: Math.round(cpuSeconds * 10) / 10,
    operationsPerSecond: Math.round(operations / Math.max(1e-3, cpuSeconds)),
    eventHash: hashText(hash),
  }
}

function report(found: Found | null, say: (line: string) => void): number {
  if (found === null) return 0
  const { plan } = found
  const commands = plan.engines.reduce((count, engine) => count + engine.commands.length, 0)
  say(`smallest: ${found.message}`)
  say(`commands ${commands}, plan ${JSON.stringify(plan)}`)
  say(
    `replay: npm run sim -- --seed ${found.seed} --path ${found.path} (commit ${commitOf()}, event hash ${found.eventHash})`,
  )
  return 1
}
