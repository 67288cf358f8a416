import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadNative } from '../../src/binding/load.js'
import { FAULTS, type FaultName } from './injection.js'
import { allSweeps } from './plans.js'
import { runSweep, Tally } from './sweep.js'

/**
 * npm run test:failures -- [--only FAULT] [--json]: every use of every resource fails, once and for good, each in a life
 * of its own. The last line is one JSON object; exits non-zero when a promise was broken or nothing could fail.
 */

/** Machines have at least two cores, and a life is mostly waiting. */
const PARALLEL = 2

function only(): FaultName | null {
  const at = process.argv.indexOf('--only')
  if (at < 0) return null
  const name = FAULTS.find((fault) => fault === process.argv[at + 1])
  if (name !== undefined) return name
  process.stderr.write(`Cannot use --only ${process.argv[at + 1]}: one of ${FAULTS.join(', ')} is needed\n`)
  process.exit(2)
}

async function main(): Promise<boolean> {
  const say = process.argv.includes('--json') ? () => {} : (line: string) => process.stderr.write(`${line}\n`)
  const root = mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-failures-'))
  const wanted = only()
  const tally = new Tally()
  try {
    const host = { uring: loadNative().probe().available, folder: () => mkdtempSync(join(root, 'sweep-')) }
    const sweeps = allSweeps(host).filter(({ fault }) => wanted === null || fault === wanted)
    const next = sweeps.values()
    const work = async () => {
      for (const sweep of next) {
        const { fault, io, readRoute, sticky, error } = sweep
        const before = tally.runs
        await runSweep(sweep, tally)
        say(`${fault} ${io} ${readRoute} ${sticky ? 'sticky' : 'once'} errno ${error}: ${tally.runs - before} runs`)
      }
    }
    await Promise.all(Array.from({ length: PARALLEL }, work))
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
  for (const breach of tally.breaches) process.stderr.write(`${JSON.stringify(breach)}\n`)
  const { runs, outcomes, once, sticky, wrongBytes, hangs, crashes, breaches } = tally
  const points = Object.fromEntries(FAULTS.map((fault) => [fault, tally.points.get(fault) ?? 0]))
  const report = { runs, points, once, sticky, outcomes, wrongBytes, hangs, crashes, broken: breaches.length }
  process.stdout.write(`${JSON.stringify(report)}\n`)
  return breaches.length === 0 && runs > 0
}

process.exitCode = (await main()) ? 0 : 1
