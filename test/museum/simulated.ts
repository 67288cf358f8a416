import { FaultTally } from '../sim/faults.js'
import { planOf } from '../sim/seeds.js'
import { NO_TWIN, type Twin } from '../sim/twin.js'
import { World } from '../sim/world.js'
import type { Exhibit, Looked } from './exhibit.js'

/** Of the simulation, for each bug: far below the million that a release may take. */
const OPERATIONS_MAX = 200_000

/** Seeds from 1 on with a twin, until something is wrong or `operations` were done. */
function simulated(twin: Twin, operations: number): Looked {
  let done = 0
  for (let seed = 1; done < operations; seed++) {
    const world = new World(planOf(seed), new FaultTally(), twin)
    try {
      world.run()
    } catch (error) {
      const said = error instanceof Error ? (error.message.split('\n')[0] as string) : String(error)
      return { said: `seed ${seed}: ${said}`, operations: done + world.operations }
    }
    done += world.operations
  }
  return { said: null, operations: done }
}

/** Green prefixes of the simulation, so that what many exhibits share is run once. */
let green: Looked = { said: null, operations: 0 }

/** An exhibit that the simulation finds. */
export function simulation(
  exhibit: Pick<Exhibit, 'id' | 'what' | 'where' | 'shows'> & { readonly twin: Omit<Twin, 'name'> },
): Exhibit {
  const { id, what, where, shows, twin } = exhibit
  return {
    id,
    what,
    where,
    shows,
    foundBy: 'simulation',
    bound: OPERATIONS_MAX,
    planted: () => simulated({ ...twin, name: id }, OPERATIONS_MAX),
    unplanted: (operations) => {
      if (green.operations < operations) green = simulated(NO_TWIN, operations)
      return green
    },
  }
}
