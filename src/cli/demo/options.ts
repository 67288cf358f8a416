import { ConfigError } from '../../shared/base/errors.js'
import { CODEC_NAMES, type CodecName } from '../../shared/codec/setting.js'
import { parseSize } from '../sizes.js'
import { type BlockShape, shapeOf } from './content.js'

export const HELP = `Usage: npm run demo -- [flags]

Starts a real Manager and two engine processes, replays a workload whose pages mostly come back from the SSD, kills an
engine in the middle of a restore, holds every restored byte to what it must be, and prints a table.

  --json               end with one line of JSON
  --storage-codec NAME how the Manager stores pages: ${CODEC_NAMES.join(', ')} (default none)
  --device host|gpu    where engine pages lie: in shared memory, or on the first CUDA device (default host)
  --trace FILE         replay a trace of the Mooncake format instead of the demo's own workload
  --limit N            at most N requests of the trace (default: all)
  --block-bytes SIZE   bytes of one block (default 256kb; 64kb with --trace)
  --route dram|uring   how SSD pages travel: into DRAM during the query, or during the restore (default uring)
  --pool SIZE          DRAM of the Manager (default 256mb)
  --ssd SIZE           SSD capacity of the Manager (default 4gb)
  --dir FOLDER         where the SSD file lies (default: a new folder in TMPDIR)
`

export interface DemoOptions {
  readonly json: boolean
  readonly codec: CodecName
  readonly device: 'host' | 'gpu'
  readonly trace: string | null
  readonly limit: number
  readonly shape: BlockShape
  readonly route: 'dram' | 'uring'
  readonly pool: string
  readonly ssd: string
  readonly dir: string | null
}

const FLAGS = /^--(storage-codec|device|trace|limit|block-bytes|route|pool|ssd|dir)$/

/** Parses the demo's command line; null when it asks for help. @throws ConfigError */
export function parseDemo(argv: readonly string[]): DemoOptions | null {
  const values = new Map<string, string>()
  for (let i = 0; i < argv.length; i++) {
    const name = argv[i] as string
    if (name === '--help') return null
    if (name === '--json') values.set(name, 'true')
    else if (FLAGS.test(name) && argv[i + 1] !== undefined) values.set(name, argv[++i] as string)
    else throw new ConfigError('config_unknown_flag', `Cannot run the demo with '${name}': --help lists the flags`)
  }
  const trace = values.get('--trace') ?? null
  const limit = Number(values.get('--limit') ?? Number.MAX_SAFE_INTEGER)
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new ConfigError('config_bad_value', `Cannot use --limit '${values.get('--limit')}': a number from 1`)
  }
  const codec = oneOf(values, 'storage-codec', CODEC_NAMES)
  return {
    json: values.has('--json'),
    codec,
    device: oneOf(values, 'device', ['host', 'gpu']),
    trace,
    limit,
    shape: shapeFor(values.get('--block-bytes') ?? (trace === null ? '256kb' : '64kb'), codec),
    route: oneOf(values, 'route', ['uring', 'dram']),
    pool: values.get('--pool') ?? '256mb',
    ssd: values.get('--ssd') ?? '4gb',
    dir: values.get('--dir') ?? null,
  }
}

/** One of the choices of a flag; the first is the default. */
function oneOf<T extends string>(values: ReadonlyMap<string, string>, flag: string, choices: readonly [T, ...T[]]): T {
  const text = values.get(`--${flag}`) ?? choices[0]
  const choice = choices.find((each) => each === text)
  if (choice !== undefined) return choice
  throw new ConfigError(
    'config_bad_value',
    `Cannot use --${flag} '${text}': one of ${choices.join(', ')} is expected`,
    { flag, value: text },
  )
}

const BLOCK_BYTES_MAX = 64 << 20

function shapeFor(text: string, codec: CodecName): BlockShape {
  const bytes = parseSize(text)
  const shape = bytes === null || bytes > BLOCK_BYTES_MAX ? null : shapeOf(bytes, codec)
  if (shape !== null) return shape
  const unit = codec === 'none' ? '4kb' : codec.startsWith('turboquant') ? '32kb' : '16kb'
  throw new ConfigError(
    'config_bad_value',
    `Cannot use blocks of '${text}': a multiple of ${unit} up to 64mb is expected, for example --block-bytes 256kb`,
    { value: text },
  )
}
