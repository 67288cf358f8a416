import { type BenchOptions, parseOptions, Refusal } from './support/options.js'
import { machine } from './support/place.js'

/**
 * npm run bench -- NAME [--json] [--dir D] [--pairs N] [--quick] [--device host|cuda:N] [--route uring|cufile]
 * Prints what was measured; with --json the last line is one JSON object with the keys of bench/README.md.
 * Exit codes: 0 measured, 1 a bug or a wrong byte, 2 refused (no control, not enough pairs, no such bench).
 */

type Bench = (options: BenchOptions, say: (line: string) => void) => Promise<object>

const BENCHES: Readonly<Record<string, () => Promise<{ readonly run: Bench }>>> = {
  ring: () => import('./ring.js'),
  ssd: () => import('./ssd.js'),
  writeback: () => import('./writeback.js'),
  restore: () => import('./restore.js'),
  directory: () => import('./directory.js'),
  copy: () => import('./copy.js'),
  gather: () => import('./gather.js'),
  codec: () => import('./codec.js'),
  'restore-codecs': () => import('./restore-codecs.js'),
  'codec-capacity': () => import('./codec-capacity.js'),
}

async function main(): Promise<void> {
  const { name, options } = parseOptions(process.argv.slice(2))
  const load = name === null ? undefined : BENCHES[name]
  if (load === undefined)
    throw new Refusal(`Cannot run bench ${name ?? ''}: choose one of ${Object.keys(BENCHES).join(', ')}`)
  const { run } = await load()
  const where = machine()
  console.log(
    `${name}: ${where.cores} x ${where.cpu}, Linux ${where.kernel}, Node ${where.node}, load ${where.load.toFixed(2)}`,
  )
  const result = await run(options, (line) => console.log(line))
  if (options.json) {
    const { quick, pairs, device } = options
    console.log(JSON.stringify({ bench: name, ...result, pairs, quick, device, machine: where }))
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(error instanceof Refusal ? `refused: ${error.message}` : error)
    process.exit(error instanceof Refusal ? 2 : 1)
  },
)
