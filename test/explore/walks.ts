import { build, type Protocol, type Scenario } from './scenario.js'
import type { Walk } from './world.js'

const STATES_MAX = 4_000_000
const NEAR_WRAP = 2 ** 31 - 3

const lists = (serial: number): number => [2, 1, 0, 3, 2, 3][serial % 6] as number
const noLists = (): number => 0

/** What is walked. One producer meets every edge of ring and arena; two share one park word. */
export const SCENARIOS: readonly Scenario[] = (['js', 'native'] as const).flatMap((parks) => [
  ...[2, 4].map(
    (capacity): Scenario => ({
      name: `one producer, ${capacity} slots, parks ${parks}`,
      capacity,
      arenaDoubles: 5,
      producers: 1,
      records: 6,
      listLength: lists,
      firstCount: NEAR_WRAP,
      parks,
      batches: true,
      grain: 'access',
    }),
  ),
  {
    name: `two producers, 2 slots, parks ${parks}`,
    capacity: 2,
    arenaDoubles: 1,
    producers: 2,
    records: 3,
    listLength: noLists,
    firstCount: NEAR_WRAP,
    parks,
    batches: false,
    grain: 'cells',
  },
])

/** Walks one scenario with one protocol. */
export function walk(scenario: Scenario, protocol: Protocol): Walk {
  const { world, parties } = build(scenario, protocol)
  return world.explore(parties, STATES_MAX)
}
