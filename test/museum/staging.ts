import fc from 'fast-check'
import { type Distortion, StagingBed } from '../support/staging-bed.js'
import { command, run, settle } from '../support/staging-commands.js'
import type { Outcome } from '../support/staging-device.js'
import type { Exhibit } from './exhibit.js'
import { named } from './named.js'

const LISTS = 40
const LIST_COMMANDS = 60

/** What only a checksum sees: here there is none, so that nothing hides behind it. */
const SILENT: ReadonlySet<Outcome> = new Set(['rotten', 'stale'])

/**
 * Restores and writes over a device with real bytes, in any order and with any fault that a device admits. The same
 * lists of commands for what ships and for its twin.
 */
function anyJobs(distort: Distortion | null, count: () => void): void {
  const lists = fc.sample(fc.array(command, { minLength: LIST_COMMANDS, maxLength: LIST_COMMANDS }), {
    numRuns: LISTS,
    seed: 1,
  })
  for (const commands of lists) {
    const bed = new StagingBed({ unverified: true, ...(distort === null ? {} : { distort }) })
    const admitted = commands.map((each) =>
      each.act === 'complete' && SILENT.has(each.outcome) ? { ...each, outcome: 'ok' as const } : each,
    )
    for (const _ of admitted) count()
    run(bed, admitted)
    settle(bed)
  }
}

/** A lane that is told something else than the device said. */
function believing(exhibit: Pick<Exhibit, 'id' | 'what'>, distort: Distortion): Exhibit {
  return named<Distortion | null>({
    ...exhibit,
    where: 'SsdWorker, on a completion',
    foundBy: 'check: bytes of pages and extents',
    shows: /wrong bytes|other bytes/,
    bound: LISTS * LIST_COMMANDS,
    shipped: null,
    twin: distort,
    check: anyJobs,
  })
}

/** Bugs of what travels by cuFile, on the lane that does. */
export const STAGING: readonly Exhibit[] = [
  believing(
    {
      id: 'dynamo#15079, by cuFile',
      what: 'a file that is not registered (5027) is taken for a success; the slot has the bytes of another request',
    },
    (result, wanted) => (result === -5027 ? wanted : result),
  ),
  believing(
    {
      id: 'nixl#2146, by cuFile',
      what: 'the status of a transfer is not read, so that one that failed is a success',
    },
    (result, wanted) => (result < 0 ? wanted : result),
  ),
  believing(
    {
      id: 'MagnumIO#18, by cuFile',
      what: 'the call succeeded, so nobody looks at its result word: -5, or a page short',
    },
    (result, wanted) => (result === -5 || result >= 0 ? wanted : result),
  ),
]
