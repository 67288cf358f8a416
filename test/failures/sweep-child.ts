import { writeSync } from 'node:fs'
import { type FaultName, type Injected, Injector } from './injection.js'
import { type Ended, type Held, held, live, type Setting } from './scenario.js'

/** One sweep in a process of its own, so that a death is seen from outside. See sweep.ts for its other half. */

/** Fails the use `from`, then each `step` further, until a run has so few uses that none failed. */
export interface Sweep extends Setting {
  readonly fault: FaultName
  readonly sticky: boolean
  readonly error: number
  readonly from: number
  readonly step: number
}

/** What the child says: the run it begins, how it ended, and that there is nothing left to fail. */
export type Said =
  | { readonly at: 'begin'; readonly kth: number }
  | ({ readonly at: 'end'; readonly kth: number; readonly ms: number } & Ended & Injected)
  /** A run takes long: what it met so far, should it hang. */
  | ({ readonly at: 'slow'; readonly kth: number } & Injected)
  | { readonly at: 'done'; readonly kth: number }

/** Runs that a sweep may take at most: above what any scenario uses. */
const KTH_MAX = 100_000
const SLOW_MS = 20_000
/**
 * What the sessions of a dead lane had mapped stays mapped (RunningManager.abandon): here one slot table, which keeps its
 * eventfd.
 */
const SESSION_FDS = 1
/** Half a minute: only a loss waits them out. */
const LOOKS_MAX = 3_000
const LOOK_MS = 10
/** Lives without a fault before the first: they load code and fill pools that stay. */
const WARM_LIVES = 2

/** Synchronous: what was said before a death must be out. */
function say(said: Said): void {
  writeSync(1, `${JSON.stringify(said)}\n`)
}

/** What is held once no more than `allowed` is, or when that has not come: the kernel counts an ended thread a little longer. */
async function settled(allowed: Held): Promise<Held> {
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const now = held()
    if (now.fds <= allowed.fds && now.threads <= allowed.threads) return now
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
  return held()
}

async function sweep(plan: Sweep): Promise<void> {
  const injector = new Injector()
  for (let i = 0; i < WARM_LIVES; i++) {
    const { outcome, detail, broken } = await live(plan)
    if (outcome !== 'whole') throw new Error(`without a fault: ${outcome} ${detail} ${broken.join()}`)
  }
  let before = held()
  for (let { from: kth } = plan; kth < KTH_MAX; kth += plan.step) {
    say({ at: 'begin', kth })
    const startMs = performance.now()
    injector.arm({ ...plan, kth })
    const slow = setTimeout(() => say({ at: 'slow', kth, ...injector.counts(plan.fault) }), SLOW_MS)
    const ended = await live(plan)
    clearTimeout(slow)
    const injected = injector.disarm(plan.fault)
    const broken = [...ended.broken]
    if (injected.failed === 0 && ended.outcome !== 'whole') broken.push('nothing failed, and not all came back')
    const kept = ended.outcome === 'death' ? SESSION_FDS : 0
    const now = await settled({ fds: before.fds + kept, threads: before.threads })
    if (now.fds > before.fds + kept) broken.push(`${now.fds - before.fds} descriptors more than before`)
    if (now.threads > before.threads) broken.push(`${now.threads - before.threads} threads more than before`)
    // Each loss is told once, by the run that lost it.
    before = { fds: Math.max(before.fds, now.fds), threads: Math.max(before.threads, now.threads) }
    if (ended.outcome !== 'whole') {
      const next = await live(plan)
      if (next.outcome !== 'whole') broken.push(`the next start: ${next.outcome} ${next.detail}`)
    }
    const ms = Math.round(performance.now() - startMs)
    say({ at: 'end', kth, ms, ...ended, ...injected, broken })
    if (injected.failed === 0) return say({ at: 'done', kth })
  }
  throw new Error(`after ${KTH_MAX} uses there were still more`)
}

sweep(JSON.parse(process.argv[2] as string) as Sweep).catch((error: unknown) => {
  console.error(error)
  process.exit(3)
})
