import { PLANTED } from './planted.js'
import { PRODUCTION } from './scenario.js'
import { SCENARIOS, walk } from './walks.js'

/**
 * npm run explore -- [--json]: walks every interleaving of the production ring and park code in each scenario, then
 * of each broken twin until one scenario catches it. Exits non-zero when production breaks or a twin survives.
 */
function main(say: (line: string) => void): boolean {
  let statesWalked = 0
  let violations = 0
  for (const scenario of SCENARIOS) {
    const start = performance.now()
    const { states, transitions, violation } = walk(scenario, PRODUCTION)
    statesWalked += states
    if (violation !== null) violations++
    const time = `${((performance.now() - start) / 1000).toFixed(2)} s`
    say(
      `${scenario.name}: ${states} states, ${transitions} transitions, ${time}${violation === null ? '' : `\n${violation}`}`,
    )
  }
  let plantedCaught = 0
  for (const { name, protocol } of PLANTED) {
    const catcher = SCENARIOS.find((scenario) => {
      const { violation } = walk(scenario, protocol)
      if (violation !== null) say(`planted: ${name}: caught: ${violation.split('\n')[0]}`)
      return violation !== null
    })
    if (catcher === undefined) say(`planted: ${name}: SURVIVED`)
    else plantedCaught++
  }
  const capacities = [...new Set(SCENARIOS.map(({ capacity }) => capacity))].sort((a, b) => a - b)
  say(JSON.stringify({ statesWalked, capacities, violations, plantedBugs: PLANTED.length, plantedCaught }))
  return violations === 0 && plantedCaught === PLANTED.length
}

process.exitCode = main(console.log) ? 0 : 1
