import test from 'ava'
import { runPair } from './pair.js'

const RECORDS = 60
const SEEDS = 3
/** Within how many seeds the planted bug must show. */
const TWIN_SEEDS = 20

test.serial('Threads: under a seeded baton real lanes pass every record, and a seed gives one order', async (t) => {
  const hashes = new Set<number>()
  let steps = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    const first = await runPair(seed, RECORDS)
    t.is(first.outcome, 'finished', `seed ${seed}`)
    t.deepEqual(await runPair(seed, RECORDS), first, `seed ${seed} again`)
    hashes.add(first.hash)
    steps += 2 * first.steps
  }
  t.is(hashes.size, SEEDS)
  t.true(steps > 1_000)
  t.log(`${steps} controlled steps`)
})

test.serial('Threads: the baton finds a wake-up that is lost by looking before publishing', async (t) => {
  let seed = 0
  let outcome = ''
  while (outcome !== 'lost wake-up' && seed < TWIN_SEEDS) {
    outcome = (await runPair(++seed, RECORDS, 'looks before it publishes')).outcome
  }
  t.is(outcome, 'lost wake-up')
  t.log(`seed ${seed} of at most ${TWIN_SEEDS}`)
})
