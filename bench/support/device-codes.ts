import { GIB, KIB, MIB } from '../../src/shared/base/units.js'
import { CODEC_BUDGET_BYTES } from '../../src/shared/codec/setting.js'
import { requireDevice } from './device.js'
import type { BenchOptions } from './options.js'
import { linkControl, RawControl } from './raw-control.js'
import { type Estimate, estimate, median, ratios, rounded } from './statistics.js'

/**
 * Question: what part of a copy of as many bytes do codecs and checksums of a GPU reach, and how much does ANS lose against
 * nvCOMP called bare? The product's own stream codes pages of bf16 values of a normal distribution, in jobs of 256 items,
 * on a stream that is idle, or busy with copies until the job is written down, as it is behind a read or other jobs
 * (bench/native/device_codes.cc). Controls of the same pair, sample by sample in
 * turns: the driver's copy of all pages to the pool or back, and for ANS nvCOMP's own call on the same pages with its
 * arrays on the device. A pool on the device shows the codec; one in pinned memory what a lane gets, with the bus in it.
 * Does not show: an engine that works beside it, or jobs that follow one another.
 */

interface Shape {
  readonly items: number
  readonly itemBytes: number
  readonly budgetBytes: number
  readonly pool: 'device' | 'host'
  /** What the stream does when a job comes. */
  readonly stream: 'idle' | 'busy'
}

const DEVICE_POOL = { budgetBytes: GIB, pool: 'device' } as const
const HOST_POOL = { budgetBytes: CODEC_BUDGET_BYTES, pool: 'host' } as const
const LARGE = { items: 256, itemBytes: MIB } as const
const SMALL = { items: 64, itemBytes: 256 * KIB } as const
const SHAPES: readonly Shape[] = [
  ...[LARGE, SMALL].flatMap((size) =>
    (['busy', 'idle'] as const).map((stream) => ({ ...size, ...DEVICE_POOL, stream })),
  ),
  { ...LARGE, ...DEVICE_POOL, budgetBytes: CODEC_BUDGET_BYTES, stream: 'busy' },
  { ...LARGE, ...HOST_POOL, stream: 'idle' },
  { ...SMALL, ...HOST_POOL, stream: 'idle' },
]
const DIRECTIONS = ['encode', 'decode'] as const
const CODECS = ['fp8', 'turboquant-4', 'turboquant-3', 'ans'] as const
const WARM = 3

type Direction = (typeof DIRECTIONS)[number]

/** Nanoseconds of every pair, by what was done. */
type Times = Map<string, number[]>

export async function deviceCodes(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const { device, driverVersion } = requireDevice()
  const nvcomp = process.env['ORBITKV_NVCOMP_LIBRARY'] ?? ''
  say(`${device.name}, driver ${driverVersion}, nvCOMP ${nvcomp === '' ? 'not named: no ANS' : nvcomp}`)
  const program = linkControl('device_codes')
  const rows = []
  for (const shape of SHAPES) {
    const { items, itemBytes, budgetBytes, pool, stream } = shape
    const ordinal = options.device.slice('cuda:'.length)
    const control = new RawControl(program, [ordinal, items, itemBytes, budgetBytes, pool, stream])
    const { times, stored } = await sample(control, options.pairs)
    await control.close()
    for (const direction of DIRECTIONS) {
      for (const codec of ['crc', ...CODECS]) {
        const mine = times.get(`${codec} ${direction}`)
        if (mine === undefined) continue
        const row = rowOf(shape, { codec, direction, mine, times, stored: stored.get(codec) ?? 0 })
        rows.push(row)
        say(lineOf(row))
      }
    }
  }
  return { device: device.name, driverVersion, rows }
}

/** All that is compared, once a pair; decoding follows encoding, and copies are the first of each direction. */
async function sample(control: RawControl, pairs: number): Promise<{ times: Times; stored: Map<string, number> }> {
  const times: Times = new Map()
  const stored = new Map<string, number>()
  for (let pair = -WARM; pair < pairs; pair++) {
    const take = async (what: string, direction: Direction) => {
      const [nanoseconds = Number.NaN, bytes = 0] = await control.ask(`${what} ${direction}`)
      if (Number.isNaN(nanoseconds)) return
      stored.set(what, bytes)
      const key = `${what} ${direction}`
      if (pair >= 0) times.set(key, [...(times.get(key) ?? []), nanoseconds])
    }
    await take('copy', 'encode')
    await take('copy', 'decode')
    await take('crc', 'encode')
    for (const codec of CODECS) for (const direction of DIRECTIONS) await take(codec, direction)
    for (const direction of DIRECTIONS) await take('bare', direction)
  }
  return { times, stored }
}

interface Sampled {
  readonly codec: string
  readonly direction: Direction
  readonly mine: readonly number[]
  readonly times: Times
  readonly stored: number
}

function rowOf(shape: Shape, { codec, direction, mine, times, stored }: Sampled) {
  const bytes = shape.items * shape.itemBytes
  const copies = times.get(`copy ${direction}`) ?? []
  const bare = codec === 'ans' ? times.get(`bare ${direction}`) : undefined
  return {
    ...shape,
    codec,
    direction: codec === 'crc' ? 'check' : direction,
    us: rounded(median(mine) / 1000),
    gbps: rounded(estimate(mine.map((nanoseconds) => bytes / nanoseconds)).median),
    copyGbps: rounded(estimate(copies.map((nanoseconds) => bytes / nanoseconds)).median),
    ofCopy: short(ratios(copies, mine)),
    ...(bare === undefined ? {} : { bareUs: rounded(median(bare) / 1000), ofBare: short(ratios(bare, mine)) }),
    ofLogicalBytes: rounded(stored / bytes),
  }
}

function short({ median: middle, low, high }: Estimate): Estimate {
  return { median: rounded(middle), low: rounded(low), high: rounded(high) }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const size = row.itemBytes >= MIB ? `${row.itemBytes / MIB} MiB` : `${row.itemBytes / KIB} KiB`
  const where = `${row.items} x ${size}, ${row.pool} pool, ${row.budgetBytes / MIB} MiB, ${row.stream}`
  const { ofCopy } = row
  const copy = `${ofCopy.median} of a copy [${ofCopy.low}..${ofCopy.high}]`
  const bare =
    row.ofBare === undefined
      ? ''
      : `, ${row.ofBare.median} of nvCOMP bare (${row.bareUs} us) [${row.ofBare.low}..${row.ofBare.high}]`
  return `${where}: ${row.codec} ${row.direction} ${row.us} us, ${row.gbps} GB/s, ${copy}${bare}`
}
