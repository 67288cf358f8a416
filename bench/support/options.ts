import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { DeviceName } from '../../src/shared/base/device-name.js'

/** Pairs of a measurement and its control that a run has at least, unless it is a quick one. */
export const PAIRS_MIN = 15
/** Pairs of a run with --quick: it shows that a bench works, and no number of it is evidence. */
const PAIRS_QUICK = 3

/** What the command line says. */
export interface BenchOptions {
  readonly json: boolean
  /** Folder in which a run makes its own fresh one. */
  readonly dir: string
  readonly pairs: number
  readonly quick: boolean
  /** Microseconds that lanes look again before they sleep; null: as the Manager decides. */
  readonly spinUs: number | null
  /** Where engine pages lie: `host`, or a CUDA device by its ordinal. */
  readonly device: DeviceName
  /** How bytes come from SSD. cuFile in compatibility mode shows that bytes are right and nothing about its speed. */
  readonly route: 'uring' | 'cufile'
}

/** The bench cannot be run as asked, or its control is absent: no number is printed. */
export class Refusal extends Error {}

/** @throws Refusal for what is not an option, or too few pairs. */
export function parseOptions(words: readonly string[]): {
  readonly name: string | null
  readonly options: BenchOptions
} {
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(words)
  } catch (error) {
    throw new Refusal(error instanceof Error ? error.message : String(error))
  }
  const { values, positionals } = parsed
  if (positionals.length > 1) throw new Refusal(`Cannot run ${positionals.length} benches at once: name one`)
  const quick = values.quick ?? false
  const pairs = values.pairs === undefined ? (quick ? PAIRS_QUICK : PAIRS_MIN) : Number(values.pairs)
  if (!Number.isInteger(pairs) || pairs < (quick ? 1 : PAIRS_MIN)) {
    throw new Refusal(`Cannot compare over ${values.pairs} pairs: at least ${PAIRS_MIN} are needed, or --quick`)
  }
  const dir = resolve(values.dir ?? process.env['TMPDIR'] ?? tmpdir())
  const spinUs = values['lane-spin-us'] === undefined ? null : Number(values['lane-spin-us'])
  if (spinUs !== null && !(Number.isInteger(spinUs) && spinUs >= 0)) {
    throw new Refusal(`Cannot spin for ${values['lane-spin-us']}: a whole number of microseconds is needed`)
  }
  const device = deviceOf(values.device ?? 'host')
  const route = routeOf(values.route ?? 'uring')
  const options = { json: values.json ?? false, dir, pairs, quick, spinUs, device, route }
  return { name: positionals[0] ?? null, options }
}

function deviceOf(text: string): DeviceName {
  if (text === 'host' || /^cuda:\d{1,3}$/.test(text)) return text as DeviceName
  throw new Refusal(`Cannot measure device ${text}: host, or cuda:N, is expected`)
}

function routeOf(text: string): BenchOptions['route'] {
  if (text === 'uring' || text === 'cufile') return text
  throw new Refusal(`Cannot measure route ${text}: uring or cufile is expected`)
}

function parse(words: readonly string[]) {
  return parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      json: { type: 'boolean' },
      dir: { type: 'string' },
      pairs: { type: 'string' },
      quick: { type: 'boolean' },
      'lane-spin-us': { type: 'string' },
      device: { type: 'string' },
      route: { type: 'string' },
    },
  })
}
