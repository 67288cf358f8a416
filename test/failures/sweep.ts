import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { testAddonEnvironment } from '../support/test-addon-build.js'
import type { FaultName } from './injection.js'
import type { Outcome } from './scenario.js'
import type { Said, Sweep } from './sweep-child.js'

/** Runs sweeps in processes of their own and counts how their runs ended. */

const CHILD = fileURLToPath(new URL('sweep-child.js', import.meta.url))
const FULL_RINGS = new URL('full-rings.js', import.meta.url)
/** A run says something at least this often, or it hangs: four times what any deadline of the product adds up to. */
const SILENT_MS_MAX = 120_000

type RunEnd = Extract<Said, { at: 'end' }>

/** One run that broke a promise. */
export interface Breach {
  readonly fault: FaultName
  readonly io: string
  readonly readRoute: string
  readonly sticky: boolean
  readonly kth: number
  readonly broken: readonly string[]
}

/** How the runs of sweeps ended. */
export class Tally {
  /** Runs in which something failed. */
  runs = 0
  /** Uses that failed, each in a run of its own. */
  readonly points = new Map<FaultName, number>()
  readonly outcomes: Record<Outcome, number> = { whole: 0, less: 0, error: 0, refused: 0, death: 0 }
  once = 0
  sticky = 0
  wrongBytes = 0
  hangs = 0
  /** Processes that ended though nothing may end an embedded runtime's host. */
  crashes = 0
  readonly breaches: Breach[] = []

  add(plan: Sweep, end: RunEnd): void {
    this.wrongBytes += end.wrongBytes
    if (end.broken.length > 0) this.#breach(plan, end.kth, end.broken)
    if (end.failed === 0) return
    this.runs++
    this.points.set(plan.fault, (this.points.get(plan.fault) ?? 0) + 1)
    this.outcomes[end.outcome]++
    if (plan.sticky) this.sticky++
    else this.once++
  }

  lost(plan: Sweep, kth: number, hung: boolean, how: string): void {
    if (hung) this.hangs++
    else this.crashes++
    this.#breach(plan, kth, [how])
  }

  #breach({ fault, io, readRoute, sticky }: Sweep, kth: number, broken: readonly string[]): void {
    this.breaches.push({ fault, io, readRoute, sticky, kth, broken })
  }
}

/**
 * Runs a sweep to its end, in as many processes as die of it. `runsMax` ends it earlier.
 * @throws Error when the process cannot even begin.
 */
export async function runSweep(plan: Sweep, tally: Tally, runsMax = Number.POSITIVE_INFINITY): Promise<void> {
  let from = plan.from
  let left = runsMax
  while (left > 0) {
    const { done, next, runs } = await runFrom({ ...plan, from }, tally, left)
    if (done) return
    left -= runs
    from = next
  }
}

interface Part {
  readonly done: boolean
  /** Where the next process goes on. */
  readonly next: number
  readonly runs: number
}

async function runFrom(plan: Sweep, tally: Tally, runsMax: number): Promise<Part> {
  const environment = await testAddonEnvironment()
  const options = `${environment['NODE_OPTIONS'] ?? ''} --import=${FULL_RINGS.href}`
  const child = spawn(process.execPath, [CHILD, JSON.stringify(plan)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment, NODE_OPTIONS: options },
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  let begun: number | null = null
  let done = false
  let enough = false
  let hung = false
  let runs = 0
  let met = ''
  const silence = setTimeout(() => {
    hung = true
    child.kill('SIGKILL')
  }, SILENT_MS_MAX)
  createInterface({ input: child.stdout }).on('line', (line) => {
    silence.refresh()
    if (enough) return
    const said = JSON.parse(line) as Said
    if (said.at === 'begin') begun = said.kth
    if (said.at === 'done') done = true
    if (said.at === 'slow') met = `${said.seen} uses, ${said.failed} failed ${said.call}`
    if (said.at !== 'end') return
    begun = null
    tally.add(plan, said)
    if (++runs < runsMax) return
    enough = true
    child.kill('SIGKILL')
  })
  const end = await new Promise<string>((resolve) => {
    child.on('close', (code, signal) => resolve(signal ?? `code ${code}`))
  })
  clearTimeout(silence)
  const next = (begun ?? plan.from + plan.step * (runs - 1)) + plan.step
  if (done || enough) return { done, next, runs }
  if (begun === null) throw new Error(`The sweep ended with ${end} between two runs:\n${stderr}`)
  const how = hung ? `it hung for ${SILENT_MS_MAX} ms (${met})` : `the process ended with ${end}`
  tally.lost(plan, begun, hung, `${how}: ${stderr.trim().split('\n').slice(0, 12).join(' | ')}`)
  return { done: false, next, runs: runs + 1 }
}
