import test from 'ava'
import { PLANTED } from './planted.js'
import { PRODUCTION } from './scenario.js'
import { SCENARIOS, walk } from './walks.js'

/** The small form of `npm run explore`: fewer records, and the coarse grain where all that matters is sleeping. */
const SMALL = SCENARIOS.filter(({ parks, producers }) => parks === 'js' && producers === 1).map((scenario) => ({
  ...scenario,
  records: scenario.capacity === 4 ? 6 : 4,
  grain: scenario.capacity === 4 ? ('cells' as const) : scenario.grain,
}))
const NATIVE = SCENARIOS.filter(
  ({ parks, producers, capacity }) => parks === 'native' && producers === 1 && capacity === 2,
).map((scenario) => ({
  ...scenario,
  grain: 'cells' as const,
}))

test('Ring and park: no interleaving loses, tears, doubles or reorders a record, or leaves a sleeper behind', (t) => {
  for (const scenario of [...SMALL, ...NATIVE]) {
    const { states, violation } = walk(scenario, PRODUCTION)
    t.is(violation, null, scenario.name)
    t.true(states > 1000, `${scenario.name}: ${states} states`)
    t.log(`${scenario.name}: ${states} states`)
  }
})

for (const { name, protocol } of PLANTED) {
  test(`Ring and park: the exploration catches «${name}»`, (t) => {
    const caught = SMALL.map((scenario) => walk(scenario, protocol).violation).find((violation) => violation !== null)
    t.truthy(caught)
  })
}
