import { build, type Protocol, type Scenario } from './scenario.js'
import type { Walk } from './world.js'

const STATES_MAX = 4_000_000
const NEAR_WRAP = 2 ** 31 - 3

const lists = (serial: number): number => [2, 1, 0, 3, 2, 3][serial % 6] as number
const noLists = (): number => 0

/** What is walked. One producer meets every edge of ring and arena; two share one park word. */
export const SCENARIOS: readonly Scenario[] = (['js', 'native'] as const).flatMap((parks) => [
  ...[2, 4].map((capacity) => oneProducer(capacity, parks)),
  twoProducers(parks),
])

/** The same code, and at every step somebody may die. */
export const CRASHES: readonly Scenario[] = [
  ...[2, 4].flatMap((capacity) =>
    (['js', 'native'] as const).map((parks) => mortal(oneProducer(capacity, parks), 'anybody')),
  ),
  mortal(twoProducers('js'), 'anybody'),
  mortal({ ...oneProducer(2, 'js'), grain: 'cells' }, 'producer, with an heir'),
  mortal({ ...oneProducer(2, 'js'), grain: 'cells' }, 'consumer, with an heir'),
]

function oneProducer(capacity: number, parks: Scenario['parks']): Scenario {
  return {
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
    deaths: 'nobody',
  }
}

function twoProducers(parks: Scenario['parks']): Scenario {
  return {
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
    deaths: 'nobody',
  }
}

/** Where each sleeper sleeps in the addon, plain accesses are walked by the scenario that sleeps in JavaScript. */
function mortal(scenario: Scenario, deaths: Scenario['deaths']): Scenario {
  const { name, parks, capacity, producers } = scenario
  const grain = parks === 'native' ? 'cells' : scenario.grain
  const records = producers === 2 ? 2 : capacity === 2 ? 4 : 6
  return { ...scenario, name: `${name}, dies: ${deaths}`, deaths, grain, records }
}

/** Walks one scenario with one protocol. */
export function walk(scenario: Scenario, protocol: Protocol): Walk {
  const { world, parties, endings } = build(scenario, protocol)
  return world.explore(parties, STATES_MAX, endings)
}
