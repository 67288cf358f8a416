import { runSeeds } from './seeds.js'

const WHOLE_RUN_SEEDS = 200

/** `npm run sim -- --seeds N [--seed S] [--json]`: simulates N seeds from S on; the last line is one JSON object. */
function argument(name: string): string | undefined {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : process.argv[at + 1]
}

function number(name: string, fallback: number): number {
  const text = argument(name)
  if (text === undefined) return fallback
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  process.stderr.write(`Cannot use ${name} ${text}: a whole number is needed, for example ${name} 500\n`)
  process.exit(2)
}

const one = argument('--seed')
const report = runSeeds({
  first: number('--seed', 1),
  seeds: number('--seeds', one === undefined ? 500 : 1),
  path: argument('--path') ?? null,
  json: process.argv.includes('--json'),
  say: (line) => process.stderr.write(`${line}\n`),
})
process.stdout.write(`${JSON.stringify(report)}\n`)
// A few seeds cannot be expected to meet every kind of fault; a whole run must.
const silent = report.seeds >= WHOLE_RUN_SEEDS ? report.faultKindsSilent : []
for (const kind of silent) process.stderr.write(`The fault ${kind} never fired in ${report.seeds} seeds\n`)
process.exit(report.violations === 0 && silent.length === 0 ? 0 : 1)
