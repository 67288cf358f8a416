import test from 'ava'
import { needs } from '../support/needs.js'
import { Feed } from './loop.js'
import { Mutator, Random } from './mutate.js'
import { NATIVE_TARGETS, nativeMissing, nativeProgram, runNative } from './native.js'
import { HTTP_SEEDS, openHttpTarget } from './targets/http.js'
import { TARGETS } from './targets/index.js'

/** `npm run fuzz` with small counts: the rules hold, and each target's planted weakness is found. */

Error.stackTraceLimit = 0

const SEED = 4
const RECORDS = 1_000
const RECORDS_WEAK = 10_000
const REQUESTS = 200
const NEVER = () => false

for (const make of TARGETS) {
  const { name } = make(false)
  test(`fuzz ${name}: ${RECORDS} mutated records break no rule`, (t) => {
    const feed = new Feed(make(false), SEED)
    feed.turn(RECORDS, NEVER)
    t.is(feed.progress.finding, null)
    t.is(feed.progress.records, RECORDS)
  })

  test(`fuzz ${name}: the planted weakness is found`, (t) => {
    const feed = new Feed(make(true), SEED)
    feed.turn(RECORDS_WEAK, NEVER)
    t.not(feed.progress.finding, null)
  })
}

for (const weak of [false, true]) {
  test(`fuzz http: ${REQUESTS} mutated requests ${weak ? 'find the planted weakness' : 'break no rule'}`, async (t) => {
    const http = await openHttpTarget(weak)
    const mutator = new Mutator(new Random(SEED))
    let found = 0
    for (let i = 0; i < REQUESTS; i++) if ((await http.run(mutator.draw(HTTP_SEEDS).slice())) !== null) found++
    t.is(found > 0, weak)
    t.true(await http.alive())
    await http.close()
  })
}

const missing = nativeMissing()
const native = needs(missing === null, missing ?? '')

native('fuzz: no native parser breaks a rule, and each planted weakness is found', async (t) => {
  t.timeout(300_000)
  const program = await nativeProgram()
  const run = { seed: SEED, seconds: 240 }
  for (const target of NATIVE_TARGETS) {
    const [whole] = await runNative(program, { ...run, records: 1_000, target, weak: false })
    t.deepEqual(whole, { target, records: 1_000, finding: null })
    const [weak] = await runNative(program, { ...run, records: RECORDS_WEAK, target, weak: true })
    t.truthy(weak?.finding, `${target}: the weakness is not found`)
  }
})
