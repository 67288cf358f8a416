import test from 'ava'
import fc from 'fast-check'
import { describeFlags, FLAGS, type FlagName, parseFlags } from '../../src/cli/flags.js'
import { REFUSED_FLAGS } from '../../src/cli/refused-flags.js'
import { ConfigError } from '../../src/shared/base/errors.js'
import { GIB, MIB, TIB } from '../../src/shared/base/units.js'

const NAMES = Object.keys(FLAGS) as FlagName[]

function refusal(argv: readonly string[]): ConfigError {
  try {
    parseFlags(argv)
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
  throw new Error(`accepted: ${argv.join(' ')}`)
}

test('flags: without arguments every flag has its default, in bytes and microseconds', (t) => {
  const values = parseFlags([])
  t.deepEqual(Object.keys(values), NAMES)
  t.is(values['pool-size'], 30 * GIB)
  t.is(values['ssd-cache-capacity'], 512 * GIB)
  t.is(values['lease-ttl'], 30_000_000)
  t.is(values['ssd-cache-shards'], 1)
  t.is(values['query-budget'], null)
  t.deepEqual(values['ssd-cache-path'], [])
  t.is(values['ssd-read-path'], null)
  t.is(values['storage-codec'], 'none')
  t.is(values['storage-codec-budget'], 64 * MIB)
})

test('flags: --name value and --name=value are the same, for every flag by its own example', (t) => {
  for (const name of NAMES) {
    const [flag, value] = FLAGS[name].example.split(' ') as [string, string]
    t.is(flag, `--${name}`)
    t.deepEqual(parseFlags([flag, value]), parseFlags([`${flag}=${value}`]))
    t.notDeepEqual(parseFlags([flag, value])[name], undefined)
  }
})

test('flags: a repeatable flag keeps its values in order and refuses one twice', (t) => {
  const two = ['--ssd-cache-path', '/a', '--ssd-cache-path=/b']
  t.deepEqual(parseFlags(two)['ssd-cache-path'], ['/a', '/b'])
  t.is(refusal([...two, '--ssd-cache-path', '/a']).code, 'config_bad_value')
})

test('flags: a single flag given twice is a conflict that names both values', (t) => {
  const error = refusal(['--log-level', 'info', '--log-level', 'debug'])
  t.is(error.code, 'config_conflict')
  t.regex(error.message, /'debug' follows 'info'/)
})

test('flags: an unknown flag, a bare word and a short flag are refused by name', (t) => {
  for (const argument of [
    '--pool',
    '-p',
    'pool-size',
    '--',
    '--Pool-Size',
    '--pool_size',
    '--toString',
    '--__proto__',
  ]) {
    const error = refusal([argument, '1gb'])
    t.is(error.code, 'config_unknown_flag', argument)
    t.true(error.message.includes(`'${argument}'`))
  }
})

test('flags: a flag of another version says what to use instead', (t) => {
  t.regex(refusal(['--ssd-write-queue-depth', '8']).message, /--ssd-write-queue \(bytes instead of batches\)/)
  t.regex(refusal(['--ssd-codec=ans']).message, /use --storage-codec: pages are encoded in DRAM as on SSD$/)
  t.regex(refusal(['--ssd-codec-budget', '64mb']).message, /use --storage-codec-budget$/)
})

test('flags: a refused value is quoted, with the range and an example', (t) => {
  const size = refusal(['--pool-size', '15mb'])
  t.is(size.code, 'config_bad_value')
  t.is(
    size.message,
    "Cannot use --pool-size '15mb': a size from 16 MiB to 16 TiB with kb, mb, gb or tb is expected, for example --pool-size 8gb",
  )
  t.regex(refusal(['--lease-ttl', '99ms']).message, /'99ms'.*from 100ms to 3600s.*--lease-ttl 30s/)
  t.regex(refusal(['--ssd-cache-shards', '65']).message, /'65'.*a whole number from 1 to 64/)
  t.regex(refusal(['--storage-codec', 'fp4']).message, /'fp4'.*one of none, ans, fp8, turboquant-4, turboquant-3/)
  t.regex(refusal(['--storage-codec-budget', '2kb']).message, /'2kb'.*from 4 KiB to 4 GiB/)
  t.regex(refusal(['--ssd-io', 'aio']).message, /'aio'.*one of uring, posix/)
  t.is(refusal(['--pool-size']).code, 'config_bad_value')
  t.is(refusal(['--addr=']).code, 'config_bad_value')
})

test('flags: bounds are part of the range, one step outside is not', (t) => {
  t.is(parseFlags(['--pool-size', '16mb'])['pool-size'], 16 * MIB)
  t.is(parseFlags(['--pool-size', '16tb'])['pool-size'], 16 * TIB)
  refusal(['--pool-size', `${16 * MIB - 1}b`])
  refusal(['--pool-size', `${16 * TIB + 1}b`])
  t.is(parseFlags(['--storage-codec-budget', '4kb'])['storage-codec-budget'], 4096)
  t.is(parseFlags(['--storage-codec-budget', '4gb'])['storage-codec-budget'], 4 * GIB)
  refusal(['--storage-codec-budget', `${4 * GIB + 1}b`])
  refusal(['--storage-codec-budget', '0'])
  t.is(parseFlags(['--lease-ttl', '1h'])['lease-ttl'], 3_600_000_000)
  refusal(['--lease-ttl', '3600001ms'])
  for (const count of ['0', '65', '-1', '1.5', '0x10', '']) refusal(['--ssd-cache-shards', count])
})

test('flags: whatever is typed, the answer is values in range or a ConfigError', (t) => {
  const word = fc.oneof(
    fc.constantFrom(...NAMES.map((name) => `--${name}`)),
    fc.constantFrom('1gb', '30s', '4', 'true', 'posix', '/x', '-1gb', '1e9gb', '--', '='),
    fc.string({ maxLength: 8 }),
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (argv) => {
      try {
        const values = parseFlags(argv)
        for (const name of NAMES) {
          const flag: { kind: string; min?: number; max?: number; choices?: readonly string[] } = FLAGS[name]
          const value = values[name]
          if (typeof value === 'number') t.true(value >= (flag.min as number) && value <= (flag.max as number))
          if (flag.choices !== undefined && value !== null) t.true(flag.choices.includes(value as string))
        }
      } catch (error) {
        t.true(error instanceof ConfigError, String(error))
      }
    }),
    { numRuns: 2_000 },
  )
})

test('flags: --help lists every flag once with its default', (t) => {
  const lines = describeFlags().split('\n')
  for (const name of NAMES) {
    const own = lines.filter((line) => line.trimStart().split(' ')[0] === `--${name}`)
    t.is(own.length, 1, name)
    t.true(own[0]?.endsWith(`default ${FLAGS[name].default ?? 'unset'}`))
  }
})

test('flags: every upstream flag that this version does not take is refused by name, with its reason', (t) => {
  for (const [name, why] of Object.entries(REFUSED_FLAGS)) {
    const error = t.throws(() => parseFlags([`--${name}`, '1']), { instanceOf: ConfigError })
    t.is(error?.code, 'config_unknown_flag')
    t.true(error?.message.includes(`'--${name}'`) && error.message.endsWith(why), error?.message)
  }
  for (const name of ['use-hugepages', 'disable-numa-affinity', 'pool-shards', 'blockwise-alloc', 'hint-value-size']) {
    t.true(Object.hasOwn(REFUSED_FLAGS, name), name)
  }
})
