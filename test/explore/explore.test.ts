import { setImmediate as breath } from 'node:timers/promises'
import test from 'ava'
import { PLANTED } from './planted.js'
import { CRASH_PLANTED } from './planted-crashes.js'
import { PRODUCTION } from './scenario.js'
import { SLOT_PLANTED, SLOT_SCENARIOS, shippedIn, walkSlots } from './slot-walks.js'
import { CRASHES, SCENARIOS, walk } from './walks.js'

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

test.serial(
  'Ring and park: no interleaving loses, tears, doubles or reorders a record, or leaves a sleeper behind',
  async (t) => {
    await breath()
    for (const scenario of [...SMALL, ...NATIVE]) {
      await breath()
      const { states, violation } = walk(scenario, PRODUCTION)
      t.is(violation, null, scenario.name)
      t.true(states > 1000, `${scenario.name}: ${states} states`)
      t.log(`${scenario.name}: ${states} states`)
    }
  },
)

for (const { name, protocol } of PLANTED) {
  test.serial(`Ring and park: the exploration catches «${name}»`, async (t) => {
    await breath()
    const caught = SMALL.map((scenario) => walk(scenario, protocol).violation).find((violation) => violation !== null)
    t.truthy(caught)
  })
}

/** Of the walks with deaths those of one producer and two slots, where all of the above happens too. */
const MORTAL = CRASHES.filter(({ capacity, producers }) => capacity === 2 && producers === 1)

test.serial(
  'K5: whoever dies, and before whichever step, the other end takes what was published, and nothing is recycled',
  async (t) => {
    await breath()
    for (const scenario of MORTAL) {
      await breath()
      const { states, crashStates, violation } = walk(scenario, PRODUCTION)
      t.is(violation, null, scenario.name)
      t.true(crashStates > 1000, `${scenario.name}: ${crashStates} states after a death`)
      t.log(`${scenario.name}: ${crashStates} of ${states} states after a death`)
    }
  },
)

for (const { name, protocol } of CRASH_PLANTED) {
  test.serial(`K5: the exploration with deaths, and only that, catches «${name}»`, async (t) => {
    await breath()
    const catcher = MORTAL.find((scenario) => walk(scenario, protocol).violation !== null)
    t.truthy(catcher)
    if (catcher !== undefined) t.is(walk({ ...catcher, deaths: 'nobody' }, protocol).violation, null)
  })
}

/** The two smallest: a line alone, and a slot used twice between a client, the Manager and a lane. */
const SLOTS = SLOT_SCENARIOS.filter(({ slots, hints, line }) => slots === 1 && hints === 'sent' && line === true)
const TABLE = SLOT_SCENARIOS.filter(({ slots, deaths, line }) => slots === 1 && deaths && line !== true)

test.serial(
  'O2, K3: no interleaving and no death makes a slot be used again early, or a torn payload be believed',
  async (t) => {
    await breath()
    for (const scenario of [...SLOTS, ...TABLE]) {
      await breath()
      const { states, crashStates, violation } = walkSlots(scenario, shippedIn(scenario))
      t.is(violation, null, scenario.name)
      t.log(`${scenario.name}: ${states} states, ${crashStates} after a death`)
    }
  },
)

for (const { name, protocol, onlyDeath } of SLOT_PLANTED) {
  test.serial(`O2, K3: the exploration catches «${name}»`, async (t) => {
    await breath()
    const catcher = [...SLOTS, ...TABLE, ...SLOT_SCENARIOS].find(
      (scenario) => walkSlots(scenario, protocol).violation !== null,
    )
    t.truthy(catcher)
    if (catcher !== undefined && onlyDeath) t.is(walkSlots({ ...catcher, deaths: false }, protocol).violation, null)
  })
}
