import { KIB, MIB } from '../src/shared/base/units.js'
import { deviceCodes } from './support/device-codes.js'
import type { BenchOptions } from './support/options.js'
import { compileControl, RawControl } from './support/raw-control.js'
import { estimate, median, ratios, rounded } from './support/statistics.js'

/**
 * Question: how fast does one core encode and decode FP8 and TurboQuant (heads of 128 bfloat16 values), and how fast does
 * it check, beside what it copies?
 * Every backend of this processor at 16 MiB, 256 KiB and 4 KiB of 16-bit values. Control: memcpy of as many bytes on the
 * same core, sample by sample in turns (bench/native/codec_rates.cc).
 * Does not show: the lanes, several cores at once, or data out of caches for the small sizes.
 * With `--device cuda:N` the question is that of a GPU: see support/device-codes.ts.
 */

const SIZES = [16 * MIB, 256 * KIB, 4 * KIB]
const SAMPLE_MS = 100
const SAMPLE_MS_QUICK = 10
const FP8_BACKENDS = ['portable', 'avx2', 'avx512', 'avx512vbmi']
const TURBOQUANT_BACKENDS = ['portable', 'avx2', 'avx512']
const CRC_BACKENDS = ['portable', 'pclmul', 'vpclmul', 'vpclmul512']

interface Load {
  readonly codec: string
  readonly direction: 'encode' | 'decode' | 'check'
  readonly backends: readonly string[]
}

const LOADS: readonly Load[] = [
  { codec: 'fp8-bf16', direction: 'encode', backends: FP8_BACKENDS },
  { codec: 'fp8-bf16', direction: 'decode', backends: FP8_BACKENDS },
  { codec: 'fp8-fp16', direction: 'encode', backends: FP8_BACKENDS },
  { codec: 'fp8-fp16', direction: 'decode', backends: FP8_BACKENDS },
  ...['turboquant-k4', 'turboquant-v4', 'turboquant-k3', 'turboquant-v3'].flatMap((codec) =>
    (['encode', 'decode'] as const).map((direction) => ({ codec, direction, backends: TURBOQUANT_BACKENDS })),
  ),
  { codec: 'crc32', direction: 'check', backends: CRC_BACKENDS },
]

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  if (options.device !== 'host') return deviceCodes(options, say)
  const rates = new RawControl(compileControl('codec_rates'), [])
  const rows = []
  const absent = new Set<string>()
  for (const { codec, direction, backends } of LOADS) {
    for (const backend of backends) {
      for (const bytes of SIZES) {
        const sampleMs = options.quick ? SAMPLE_MS_QUICK : SAMPLE_MS
        const mine: number[] = []
        const copies: number[] = []
        for (let pair = 0; pair < options.pairs; pair++) {
          const [rate, copy] = await rates.ask(`${codec} ${direction} ${backend} ${bytes} ${sampleMs}`)
          if (rate === undefined || copy === undefined || Number.isNaN(rate)) break
          mine.push(rate)
          copies.push(copy)
        }
        if (mine.length < options.pairs) {
          absent.add(backend)
          continue
        }
        const row = rowOf({ codec, direction, backend, bytes }, mine, copies)
        rows.push(row)
        say(lineOf(row))
      }
    }
  }
  await rates.close()
  for (const backend of absent) say(`${backend}: not on this processor`)
  return { rows, absentBackends: [...absent] }
}

function rowOf(
  load: { readonly codec: string; readonly direction: string; readonly backend: string; readonly bytes: number },
  mine: readonly number[],
  copies: readonly number[],
) {
  const { median: gibPerSecond, low, high } = estimate(mine)
  const ratio = ratios(mine, copies)
  return {
    ...load,
    gibPerSecond: rounded(gibPerSecond),
    gibPerSecondLow: rounded(low),
    gibPerSecondHigh: rounded(high),
    memcpyGibPerSecond: rounded(median(copies)),
    ratioToMemcpy: rounded(ratio.median),
    ratioToMemcpyLow: rounded(ratio.low),
    ratioToMemcpyHigh: rounded(ratio.high),
  }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const size = row.bytes >= MIB ? `${row.bytes / MIB} MiB` : `${row.bytes / KIB} KiB`
  const name = `${row.codec} ${row.direction} ${row.backend}`
  return `${name.padEnd(28)} ${size.padStart(7)}: ${row.gibPerSecond} GiB/s, ${row.ratioToMemcpy} of memcpy [${row.ratioToMemcpyLow}..${row.ratioToMemcpyHigh}]`
}
