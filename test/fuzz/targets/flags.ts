import { FLAGS, type FlagValues, parseFlags } from '../../../src/cli/flags.js'
import { configOf } from '../../../src/cli/manager-config.js'
import { formatSize, parseDuration, parseSize } from '../../../src/cli/sizes.js'
import { ConfigError } from '../../../src/shared/base/errors.js'
import { type Breach, crash, type MakeTarget } from '../target.js'

/** Between the words of a command line. */
const END = '\0'

const SEEDS = [
  ...Object.values(FLAGS).map(({ example }) => example.split(' ')),
  ['--pool-size=1.5gb', '--lease-ttl=250ms', '--ssd-cache-path', '/tmp/a', '--ssd-cache-path', '/tmp/b'],
  ['--http-addr', '[::1]:9655', '--allow-uid', '1001', '--metric-hll-windows', '15m,1h,1d'],
]

/** A value that a flag took is inside what its help promises. */
function outside(values: FlagValues): string | null {
  for (const [name, flag] of Object.entries(FLAGS)) {
    const value = (values as Readonly<Record<string, unknown>>)[name]
    const { min = 0, max = Number.MAX_SAFE_INTEGER } = flag as { readonly min?: number; readonly max?: number }
    if (typeof value === 'number' && !(Number.isSafeInteger(value) && value >= min && value <= max)) {
      return `--${name} took ${value}`
    }
  }
  return null
}

function sizes(words: readonly string[]): Breach | null {
  for (const word of words) {
    for (const [what, value] of [
      ['size', parseSize(word)],
      ['duration', parseDuration(word)],
    ] as const) {
      if (value !== null && !(Number.isSafeInteger(value) && value >= 0))
        return crash(`the ${what} '${word}' is ${value}`)
      if (value !== null) formatSize(value)
    }
  }
  return null
}

/** Command lines, sizes and the configuration that comes of them: a value within its bounds, or a ConfigError. */
export const flags: MakeTarget = (weak) => ({
  name: 'flags',
  seeds: SEEDS.map((words) => Uint8Array.from(Buffer.from(words.join(END)))),
  run(input) {
    const words = Buffer.from(input).toString('latin1').split(END)
    const wrong = sizes(words)
    if (wrong !== null) return wrong
    try {
      const values = parseFlags(words)
      const found = outside(values)
      if (found !== null) return crash(found)
      configOf(values, 0, undefined)
      return null
    } catch (error) {
      // The weakness: a flag that is not known takes the process down with a TypeError.
      if (weak && error instanceof ConfigError && error.code === 'config_unknown_flag')
        throw new TypeError('no such flag')
      return error instanceof ConfigError ? null : crash(`threw ${String(error)}`)
    }
  },
})
