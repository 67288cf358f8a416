import { openLanePort } from '../../../../src/actors/runtime/lane-port.js'
import type { LanePort } from '../../../../src/actors/runtime/loop.js'
import type { Actor } from '../../../../src/actors/runtime/wiring.js'
import { loadNative } from '../../../../src/binding/load.js'

/** Where a test lane sleeps: in JavaScript, or in the addon behind one of its two queues. */
export type BedKind = 'js' | 'posix' | 'uring'

export interface Bed {
  readonly parksNatively: boolean
  readonly wakePort: ((port: number) => void) | null
  /** Opens the lane's port; null for a lane without native work. */
  native(actor: Actor): LanePort | null
}

/** Loads the addon only where it is slept in. */
export function bedOf(kind: BedKind): Bed {
  if (kind === 'js') return { parksNatively: false, wakePort: null, native: () => null }
  const native = loadNative()
  return {
    parksNatively: true,
    wakePort: (port) => native.wake(port),
    native: (actor) => {
      const options = { depth: 2, jobs: 0, results: 0, pool: -1, io: kind, register: false }
      const { port, completions } = openLanePort(native, actor, options)
      const completed = (tag: number): void => {
        throw new Error(`completion ${tag} of nothing`)
      }
      return { port, completions, completed }
    },
  }
}
