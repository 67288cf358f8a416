import { EAGAIN, EIO, ENOSPC } from '../support/errnos.js'
import type { FaultName } from './injection.js'
import type { Sweep } from './sweep-child.js'

/** Which sweeps there are. */

type Tier = Pick<Sweep, 'io' | 'readRoute' | 'codec'>

/** Both kinds of I/O and both routes, without their product: neither knows of the other. */
const URING: Tier = { io: 'uring', readRoute: 'uring', codec: 'none' }
const POSIX: Tier = { io: 'posix', readRoute: 'dram', codec: 'none' }
/** The same where writes have several spans. */
const CODED = { codec: 'turboquant-4' } as const

/** What each fault says, and where it can happen. 0: a short read or write. */
const ERRORS: Readonly<Record<FaultName, readonly number[]>> = {
  allocation: [0],
  io: [EIO, ENOSPC, 0],
  submit: [EAGAIN],
  addonCall: [0],
  ringPush: [0],
}

export interface Host {
  readonly uring: boolean
  /** A folder for each sweep. */
  folder(): string
}

/** Every sweep of every use, once and sticky. */
export function allSweeps(host: Host): Sweep[] {
  const sweeps: Sweep[] = []
  for (const fault of Object.keys(ERRORS) as FaultName[]) {
    for (const tier of tiersOf(fault, host)) {
      for (const error of ERRORS[fault]) {
        for (const sticky of [false, true]) {
          sweeps.push({ ...tier, fault, error, sticky, from: 1, step: 1, folder: host.folder() })
        }
      }
    }
  }
  return sweeps
}

function tiersOf(fault: FaultName, { uring }: Host): readonly Tier[] {
  if (fault === 'submit') return uring ? [URING] : []
  const tiers = uring ? [URING, POSIX] : [POSIX]
  return fault === 'io' ? tiers.flatMap((tier) => [tier, { ...tier, ...CODED }]) : tiers
}

/** Every so many uses of each kind: what a test run has time for. */
export function slice(host: Host): Sweep[] {
  const tier = host.uring ? URING : POSIX
  const steps: readonly (readonly [fault: FaultName, step: number, sticky: boolean, error: number])[] = [
    ['allocation', 32, false, 0],
    ['addonCall', 16, false, 0],
    ['io', 3, false, EIO],
    ['ringPush', 4, true, 0],
  ]
  const sweeps = steps.map(([fault, step, sticky, error]): Sweep => {
    return { ...tier, fault, error, sticky, from: Math.ceil(step / 2), step, folder: host.folder() }
  })
  // Half of a write of several spans.
  sweeps.push({ ...POSIX, ...CODED, fault: 'io', error: 0, sticky: false, from: 1, step: 2, folder: host.folder() })
  return sweeps
}
