import type { BedKind } from './bed.js'
import { listFor } from './messages.js'
import { oneLane } from './rig.js'

/** A process of its own: starts a lane, hears from it, and exits in the way it was told while the lane sleeps. */
async function run(bed: BedKind, end: 'exit' | 'throw' | 'leave'): Promise<void> {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 1 }, bed)
  const [lane] = rig.lanes
  await lane?.ready
  rig.toFirst.send({ kind: 'number', serial: 0, list: listFor(0, new Float64Array(8)) })
  rig.main.flush()
  await rig.heard('number')
  if (end === 'exit') process.exit(7)
  if (end === 'throw') {
    setImmediate(() => {
      throw new Error('planted: main failed')
    })
    return
  }
  rig.toFirst.send({ kind: 'stop' })
  rig.main.flush()
  await rig.heard('stopped')
  rig.main.close()
  // Nothing holds the event loop any more: the process ends by itself once the lane has left.
  process.exitCode = rig.deaths.length === 0 ? 9 : 1
}

const [bed = 'js', end = 'exit'] = process.env['ORBITKV_TEST_END']?.split(' ') ?? []
void run(bed as BedKind, end as 'exit' | 'throw' | 'leave')
