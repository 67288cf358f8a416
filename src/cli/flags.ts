import { ConfigError } from '../shared/base/errors.js'
import { GIB, MIB, TIB } from '../shared/base/units.js'
import { CODEC_BUDGET_BYTES_MAX, CODEC_BUDGET_BYTES_MIN, CODEC_NAMES } from '../shared/codec/setting.js'
import { REFUSED_FLAGS } from './refused-flags.js'
import { formatSize, parseDuration, parseSize } from './sizes.js'

/** One flag of `orbitkv-cache-manager`: how it is read, what it allows, what it means. */
interface Flag {
  readonly kind: 'size' | 'duration' | 'count' | 'choice' | 'text' | 'texts'
  /** As a person would type it; null when the flag is unset by default. */
  readonly default: string | null
  readonly choices?: readonly string[]
  /** Bounds for sizes (bytes), durations (microseconds) and counts. */
  readonly min?: number
  readonly max?: number
  readonly example: string
  readonly help: string
}

/**
 * Every flag. docs/operating.md has the same list and a test holds both together. Names and defaults follow the
 * upstream Manager where it has the flag; docs/decisions/0006-deviations.md lists the differences.
 */
export const FLAGS = {
  addr: {
    kind: 'text',
    default: '127.0.0.1:50055',
    example: '--addr 127.0.0.1:50055',
    help: 'names the socket: its port is part of the default socket path; nothing listens on TCP',
  },
  'bootstrap-socket': {
    kind: 'text',
    default: null,
    example: '--bootstrap-socket /run/user/1000/orbitkv/50055.sock',
    help: 'path of the UNIX socket; its directory must be private to this user (0700)',
  },
  'allow-uid': {
    kind: 'texts',
    default: null,
    example: '--allow-uid 1001',
    help: 'another user whose engines may connect (repeatable)',
  },
  'pool-size': {
    kind: 'size',
    default: '30gb',
    min: 16 * MIB,
    max: 16 * TIB,
    example: '--pool-size 8gb',
    help: 'pinned DRAM for KV pages, in total',
  },
  'query-budget': {
    kind: 'size',
    default: null,
    min: MIB,
    max: 16 * TIB,
    example: '--query-budget 4gb',
    help: 'bytes that open queries and leases may reserve; default 75 % of the pool',
  },
  'query-instance-budget': {
    kind: 'size',
    default: null,
    min: MIB,
    max: 16 * TIB,
    example: '--query-instance-budget 1gb',
    help: 'the same for one engine instance; default the whole query budget',
  },
  'query-read-batch': {
    kind: 'size',
    default: '0',
    min: 0,
    max: 16 * TIB,
    example: '--query-read-batch 32mb',
    help: 'bytes of SSD reads that one query submits at once; 0: everything that it needs',
  },
  'query-read-timeout-ms': {
    kind: 'count',
    default: '0',
    min: 0,
    max: 60_000,
    example: '--query-read-timeout-ms 250',
    help: 'milliseconds after which a query reads nothing more and answers a miss; 0: no bound',
  },
  'query-read-max-batches': {
    kind: 'count',
    default: '0',
    min: 0,
    max: 1_000_000,
    example: '--query-read-max-batches 4',
    help: 'batches after which a query reads nothing more and answers with what it has; 0: no bound',
  },
  'lease-ttl': {
    kind: 'duration',
    default: '30s',
    min: 100_000,
    max: 3_600_000_000,
    example: '--lease-ttl 30s',
    help: 'how long a lease lives unless the engine renews it',
  },
  'ssd-cache-path': {
    kind: 'texts',
    default: null,
    example: '--ssd-cache-path /mnt/nvme/orbitkv/cache.bin',
    help: 'file (one path, one shard) or directory of shards on an SSD (repeatable); unset: no SSD tier',
  },
  'ssd-cache-capacity': {
    kind: 'size',
    default: '512gb',
    min: MIB,
    max: 1024 * TIB,
    example: '--ssd-cache-capacity 100gb',
    help: 'bytes of all shards together',
  },
  'ssd-cache-shards': {
    kind: 'count',
    default: '1',
    min: 1,
    max: 64,
    example: '--ssd-cache-shards 2',
    help: 'shards in each path',
  },
  devices: {
    kind: 'text',
    default: 'all',
    example: '--devices all',
    help: 'CUDA devices whose pages engines may register: all that the driver lists, none, or numbers and UUIDs',
  },
  'ssd-backend': {
    kind: 'choice',
    default: null,
    choices: ['auto', 'uring', 'cufile'],
    example: '--ssd-backend uring',
    help: 'which I/O capability to start; auto, also when unset: native cuFile where it qualifies, else io_uring',
  },
  'ssd-read-path': {
    kind: 'choice',
    default: null,
    choices: ['uring', 'cufile'],
    example: '--ssd-read-path uring',
    help: 'pins the route of demand reads, which then happen during the restore; unset: as the backend reads',
  },
  'ssd-io': {
    kind: 'choice',
    default: 'uring',
    choices: ['uring', 'posix'],
    example: '--ssd-io posix',
    help: 'posix: threads with pread and pwrite, for hosts that forbid io_uring; never chosen by itself',
  },
  'ssd-write-queue': {
    kind: 'size',
    default: null,
    min: 4 * MIB,
    max: 16 * TIB,
    example: '--ssd-write-queue 512mb',
    help: 'bytes that may wait for the SSD before writes are dropped; default a quarter of the pool',
  },
  'ssd-write-inflight': {
    kind: 'size',
    default: '16mb',
    min: MIB,
    max: GIB,
    example: '--ssd-write-inflight 32mb',
    help: 'bytes of SSD writes in flight for each device',
  },
  'ssd-write-policy': {
    kind: 'choice',
    default: 'all',
    choices: ['all', 'reuse'],
    example: '--ssd-write-policy all',
    help: 'which pages go to the SSD; reuse: those that are saved again or that a query was given',
  },
  'enable-lfu-admission': {
    kind: 'choice',
    default: 'false',
    choices: ['true', 'false'],
    example: '--enable-lfu-admission true',
    help: 'keep a page out of DRAM when it is asked for less often than the page that it would displace (TinyLFU)',
  },
  'cache-protected-percent': {
    kind: 'count',
    default: '0',
    min: 0,
    max: 95,
    example: '--cache-protected-percent 80',
    help: 'part of the pool that pages which queries use again may keep from eviction; 0: none',
  },
  'storage-codec': {
    kind: 'choice',
    default: 'none',
    choices: CODEC_NAMES,
    example: '--storage-codec ans',
    help: 'how pages are stored in DRAM and on SSD; ans is exact and needs a GPU with nvCOMP 5.3, fp8 and turboquant lose precision and are experimental',
  },
  'storage-codec-budget': {
    kind: 'size',
    default: '64mb',
    min: CODEC_BUDGET_BYTES_MIN,
    max: CODEC_BUDGET_BYTES_MAX,
    example: '--storage-codec-budget 128mb',
    help: 'device memory that the codec of each worker may keep, for each direction',
  },
  'lane-spin-us': {
    kind: 'count',
    default: null,
    min: 0,
    max: 10_000,
    example: '--lane-spin-us 50',
    help: 'microseconds that a lane looks again before it sleeps; default 200 with more cores than lanes, else 0',
  },
  'metric-hll-windows': {
    kind: 'text',
    default: '15m,1h,1d',
    example: '--metric-hll-windows 15m,1h,1d',
    help: 'spans of time over which reuse is estimated: up to 8 different durations',
  },
  'metric-hll-bucket-bits': {
    kind: 'count',
    default: '16',
    min: 4,
    max: 18,
    example: '--metric-hll-bucket-bits 14',
    help: 'precision of that estimate: 2^bits bytes a slice, 9 slices a window, error about 1.04 / sqrt(2^bits)',
  },
  'http-addr': {
    kind: 'text',
    default: '127.0.0.1:9655',
    example: '--http-addr 127.0.0.1:9655',
    help: 'address of /health, /ready and /metrics (read only); port 0 takes a free one',
  },
  'enable-prometheus': {
    kind: 'choice',
    default: 'true',
    choices: ['true', 'false'],
    example: '--enable-prometheus false',
    help: 'serve /metrics',
  },
  'log-level': {
    kind: 'choice',
    default: 'info',
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    example: '--log-level debug',
    help: 'least severe line that is logged, as JSON on standard output',
  },
  'drain-timeout': {
    kind: 'duration',
    default: '30s',
    min: 100_000,
    max: 3_600_000_000,
    example: '--drain-timeout 60s',
    help: 'how long SIGTERM waits for admitted work before the process ends with code 1',
  },
} as const satisfies Readonly<Record<string, Flag>>

export type FlagName = keyof typeof FLAGS

/** Parsed flags: sizes in bytes, durations in microseconds, null where unset. */
export type FlagValues = {
  readonly [N in FlagName]: (typeof FLAGS)[N]['kind'] extends 'texts'
    ? readonly string[]
    : (typeof FLAGS)[N]['default'] extends null
      ? ((typeof FLAGS)[N]['kind'] extends 'size' | 'duration' | 'count' ? number : string) | null
      : (typeof FLAGS)[N]['kind'] extends 'size' | 'duration' | 'count'
        ? number
        : string
}

function describeRange(flag: Flag): string {
  if (flag.choices !== undefined) return `one of ${flag.choices.join(', ')}`
  const { min, max } = flag
  if (min === undefined || max === undefined) return 'a text'
  if (flag.kind === 'size') return `a size from ${formatSize(min)} to ${formatSize(max)} with kb, mb, gb or tb`
  if (flag.kind === 'duration') return `a duration from ${min / 1000}ms to ${max / 1e6}s with ms, s, m or h`
  return `a whole number from ${min} to ${max}`
}

function refuse(name: string, flag: Flag, text: string): never {
  throw new ConfigError(
    'config_bad_value',
    `Cannot use --${name} '${text}': ${describeRange(flag)} is expected, for example ${flag.example}`,
    { flag: name, value: text },
  )
}

function parseValue(name: string, flag: Flag, text: string): string | number {
  if (flag.kind === 'choice') return flag.choices?.includes(text) === true ? text : refuse(name, flag, text)
  if (flag.kind === 'text' || flag.kind === 'texts') return text.length > 0 ? text : refuse(name, flag, text)
  const value =
    flag.kind === 'size'
      ? text === '0'
        ? 0
        : parseSize(text)
      : flag.kind === 'duration'
        ? parseDuration(text)
        : wholeNumber(text)
  if (value === null || value < (flag.min as number) || value > (flag.max as number)) return refuse(name, flag, text)
  return value
}

function wholeNumber(text: string): number | null {
  return /^\d{1,9}$/.test(text) ? Number(text) : null
}

/**
 * Parses the command line of the Manager. `--name value` and `--name=value` are the same.
 * @throws ConfigError config_unknown_flag or config_bad_value, with the value, the range and an example.
 */
export function parseFlags(argv: readonly string[]): FlagValues {
  const values: Record<string, unknown> = {}
  for (const [name, flag] of Object.entries(FLAGS) as [string, Flag][]) {
    values[name] = flag.kind === 'texts' ? [] : flag.default === null ? null : parseValue(name, flag, flag.default)
  }
  const seen = new Set<string>()
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] as string
    const match = /^--([a-z][a-z0-9-]*)(?:=(.*))?$/.exec(argument)
    const name = match?.[1] ?? argument
    const flag = Object.hasOwn(FLAGS, name) ? (FLAGS as Readonly<Record<string, Flag>>)[name] : undefined
    if (match === null || flag === undefined) {
      const instead = Object.hasOwn(REFUSED_FLAGS, name) ? REFUSED_FLAGS[name] : undefined
      throw new ConfigError(
        'config_unknown_flag',
        `Cannot start with '${argument}': there is no such flag${instead === undefined ? '; --help lists them' : `; ${instead}`}`,
        { flag: argument },
      )
    }
    const text = match[2] ?? argv[++i]
    if (text === undefined) refuse(name, flag, '')
    if (flag.kind === 'texts') {
      const list = values[name] as string[]
      if (list.includes(text)) refuse(name, flag, text)
      list.push(parseValue(name, flag, text) as string)
      continue
    }
    if (seen.has(name)) {
      throw new ConfigError('config_conflict', `Cannot use --${name} twice: '${text}' follows '${values[name]}'`, {
        flag: name,
      })
    }
    seen.add(name)
    values[name] = parseValue(name, flag, text)
  }
  return values as FlagValues
}

/** The text of `--help`. */
export function describeFlags(): string {
  const lines = (Object.entries(FLAGS) as [string, Flag][]).map(([name, flag]) => {
    const values = flag.choices === undefined ? '' : ` (${flag.choices.join('|')})`
    return `  --${name.padEnd(24)}${flag.help}${values}; default ${flag.default ?? 'unset'}`
  })
  return ['Usage: orbitkv-cache-manager [flags]', '', ...lines, ''].join('\n')
}
