import { runPair } from './baton/pair.js'
import { PLANTED } from './planted.js'
import { CRASH_PLANTED } from './planted-crashes.js'
import { PRODUCTION } from './scenario.js'
import { SLOT_PLANTED, SLOT_SCENARIOS, type SlotPlanted, shippedIn, walkSlots } from './slot-walks.js'
import { CRASHES, SCENARIOS, walk } from './walks.js'
import type { Walk } from './world.js'

/**
 * npm run explore -- [--json]: walks every interleaving of the production ring and park code and of the slot table in
 * each scenario, then of each broken twin until one scenario catches it. Exits non-zero when production breaks or a
 * twin survives; a twin that claims to need a death must also survive the same scenario without deaths.
 */

const total = { states: 0, crashStates: 0, slotTableStates: 0, violations: 0 }

/** Walks what ships. */
function walked(name: string, step: () => Walk): Walk {
  const start = performance.now()
  const found = step()
  const { states, transitions, crashStates, violation } = found
  total.states += states
  total.crashStates += crashStates
  if (violation !== null) total.violations++
  const seconds = ((performance.now() - start) / 1000).toFixed(2)
  console.log(
    `${name}: ${states} states, ${crashStates} of them after a death, ${transitions} transitions, ${seconds} s`,
  )
  if (violation !== null) console.log(violation)
  return found
}

/** Walks a twin in one scenario after the other until one catches it. */
function hunted<S>(name: string, scenarios: readonly S[], step: (scenario: S) => Walk): S | null {
  const catcher = scenarios.find((scenario) => {
    const { violation } = step(scenario)
    if (violation !== null) console.log(`planted: ${name}: caught: ${violation.split('\n')[0]}`)
    return violation !== null
  })
  if (catcher === undefined) console.log(`planted: ${name}: SURVIVED`)
  return catcher ?? null
}

/** A twin that shows only where somebody dies must be right where nobody does. */
function innocent(name: string, { violation }: Walk): boolean {
  if (violation !== null) console.log(`planted: ${name}: needs no death: ${violation.split('\n')[0]}`)
  return violation === null
}

function slotTwinCaught({ name, protocol, onlyDeath }: SlotPlanted): boolean {
  const catcher = hunted(name, SLOT_SCENARIOS, (scenario) => walkSlots(scenario, protocol))
  if (catcher === null) return false
  return !onlyDeath || innocent(name, walkSlots({ ...catcher, deaths: false }, protocol))
}

const THREAD_SEEDS = 20
const THREAD_RECORDS = 400

/** Real lanes on real threads under the baton of a seed, each seed twice; returns the steps that seeds chose. */
async function threaded(): Promise<number> {
  let steps = 0
  for (let seed = 1; seed <= THREAD_SEEDS; seed++) {
    const first = await runPair(seed, THREAD_RECORDS)
    const again = await runPair(seed, THREAD_RECORDS)
    steps += first.steps + again.steps
    if (first.outcome === 'finished' && JSON.stringify(first) === JSON.stringify(again)) continue
    total.violations++
    console.log(`threads: seed ${seed}: ${JSON.stringify(first)}, then ${JSON.stringify(again)}`)
  }
  console.log(`threads: ${THREAD_SEEDS} seeds, each twice: ${steps} steps`)
  return steps
}

async function threadTwinCaught(): Promise<boolean> {
  for (let seed = 1; seed <= THREAD_SEEDS; seed++) {
    const { outcome } = await runPair(seed, THREAD_RECORDS, 'looks before it publishes')
    if (outcome !== 'lost wake-up') continue
    console.log(`planted: threads: look, then publish: caught: ${outcome} with seed ${seed}`)
    return true
  }
  console.log('planted: threads: look, then publish: SURVIVED')
  return false
}

async function main(): Promise<boolean> {
  for (const scenario of [...SCENARIOS, ...CRASHES]) walked(scenario.name, () => walk(scenario, PRODUCTION))
  for (const scenario of SLOT_SCENARIOS) {
    total.slotTableStates += walked(scenario.name, () => walkSlots(scenario, shippedIn(scenario))).states
  }
  let caught = 0
  for (const { name, protocol } of PLANTED) {
    if (hunted(name, SCENARIOS, (scenario) => walk(scenario, protocol)) !== null) caught++
  }
  let caughtByDeath = 0
  for (const { name, protocol } of CRASH_PLANTED) {
    const catcher = hunted(name, CRASHES, (scenario) => walk(scenario, protocol))
    if (catcher !== null && innocent(name, walk({ ...catcher, deaths: 'nobody' }, protocol))) caughtByDeath++
  }
  for (const twin of SLOT_PLANTED) {
    if (!slotTwinCaught(twin)) continue
    if (twin.onlyDeath) caughtByDeath++
    else caught++
  }
  const controlledSteps = await threaded()
  if (await threadTwinCaught()) caught++
  const plantedBugs = 1 + PLANTED.length + CRASH_PLANTED.length + SLOT_PLANTED.length
  const plantedCaught = caught + caughtByDeath
  const capacities = [...new Set([...SCENARIOS, ...CRASHES].map(({ capacity }) => capacity))].sort((a, b) => a - b)
  const { states: statesWalked, crashStates, slotTableStates, violations } = total
  console.log(
    JSON.stringify({
      statesWalked,
      capacities,
      crashStates,
      slotTableStates,
      controlledSteps,
      violations,
      plantedBugs,
      plantedCaught,
      plantedCaughtByDeath: caughtByDeath,
    }),
  )
  return violations === 0 && plantedCaught === plantedBugs
}

process.exitCode = (await main()) ? 0 : 1
