import test from 'ava'
import { FaultTally } from './faults.js'
import { hunt, planOf, simulate } from './seeds.js'
import { TWINS } from './twins.js'

const SEEDS = 12
/** Within how many seeds every planted bug must show. */
const TWIN_SEEDS = 40

test('sim: seeds end without a violation, and restores come back verified', (t) => {
  const faults = new FaultTally()
  let verified = 0
  for (let seed = 1; seed <= SEEDS; seed++) verified += simulate(planOf(seed), faults).blocksVerified
  t.true(verified > 100, `${verified} blocks were verified`)
  t.true(faults.kinds > 25, `${faults.kinds} kinds of fault fired`)
})

test('sim: the same seed gives the same events', (t) => {
  for (const seed of [3, 4]) t.deepEqual(simulate(planOf(seed)), simulate(planOf(seed)))
  t.not(simulate(planOf(3)).hash, simulate(planOf(4)).hash)
})

for (const twin of TWINS) {
  test(`sim: finds it when ${twin.name}`, (t) => {
    let said = ''
    let seed = 0
    while (said === '' && seed < TWIN_SEEDS) {
      try {
        simulate(planOf(++seed), new FaultTally(), twin)
      } catch (error) {
        said = error instanceof Error ? error.message : String(error)
      }
    }
    t.regex(said, twin.shows)
    t.log(`seed ${seed} of at most ${TWIN_SEEDS}: ${said}`)
  })
}

test('sim: a violation shrinks and is found again by its path', (t) => {
  const twin = TWINS[3]
  let seed = 1
  let first = hunt(seed, 2_000, null, twin)
  while (first === null && seed < TWIN_SEEDS) first = hunt(++seed, 2_000, null, twin)
  t.truthy(first)
  const again = hunt(seed, 2_000, first?.path, twin)
  t.deepEqual(again?.plan, first?.plan)
})
