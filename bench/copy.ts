import { COPY } from '../src/shared/layout/descriptors.js'
import { requireDevice, shuffled, TimedLane } from './support/device.js'
import type { BenchOptions } from './support/options.js'
import { type Estimate, estimate, ratios, rounded } from './support/statistics.js'

/**
 * Question: how much of what one large pinned copy reaches do copies between pool and engine pages reach, by shape and
 * by backend? Control: one contiguous copy of 256 MiB by the copy engine, beside every measurement. Every job is
 * queued behind a large one of its stream, as in a lane that is busy; `aloneGbps` is of a job that found its stream idle,
 * and so counts 10 us and more of submission. Does not show what a restore takes, nor what the copies cost the engine's own work.
 */

const KIB = 1024
const MIB = 1024 * KIB
const PEAK_BYTES = 256 * MIB
const RUNS_KIB = [4, 8, 16, 28, 64, 128, 256]
const TOTALS_MIB = [9, 108]
const CONTIGUOUS_MIB = [4, 16, 108]
const BACKENDS = ['auto', 'kernel', 'direct'] as const
const DIRECTIONS = [
  ['h2d', 0],
  ['d2h', 1],
] as const
const WARM = 3
/** Shapes of the kernel that are compared: blocks, bytes of a tile. */
const BLOCKS = [8, 16, 32]
const TILES_KIB = [8, 16]

interface Measured {
  readonly direction: string
  readonly backend: string
  readonly runBytes: number
  readonly totalBytes: number
  readonly gbps: Estimate
  readonly ofPeak: Estimate
  readonly aloneGbps: number
}

const gbps = (bytes: number, nanoseconds: number): number => bytes / nanoseconds

const roundedEstimate = ({ median, low, high }: Estimate): Estimate => ({
  median: rounded(median),
  low: rounded(low),
  high: rounded(high),
})

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const { native, device, driverVersion } = requireDevice()
  const lane = new TimedLane(native, PEAK_BYTES, { transfer: 'auto' })
  const { mapping } = native.allocateDeviceMemory(device.uuid, PEAK_BYTES)
  const streams = { auto: lane.first, kernel: lane.first, direct: lane.stream({ transfer: 'direct' }) }
  if (lane.kernels === 'loaded') streams.kernel = lane.stream({ transfer: 'kernel' })
  say(`${device.name}, driver ${driverVersion}, kernels ${lane.kernels}, pool registered in ${lane.registerMs} ms`)

  const template = (stride: number, pages: number, bytes: number): number =>
    native.defineTemplate(Float64Array.of(mapping, 0, stride, pages, 0, bytes, bytes), Float64Array.of(0, 1))
  const whole = template(0, 1, PEAK_BYTES)
  const peakList = Float64Array.of(whole, 0, 0, 0, 0, 1, 0)
  const peak = (direction: 0 | 1): number => gbps(PEAK_BYTES, lane.last(lane.copy(streams.direct, direction, peakList)))

  /** `count` runs that adjoin on neither side, in no order. */
  function scatteredList(runBytes: number, count: number): Float64Array {
    const number = template(2 * runBytes, count, runBytes)
    const list = new Float64Array(COPY.doubles * count)
    const order = shuffled(count)
    order.forEach((page, i) => void list.set([number, 0, page, i * runBytes, 0, 1, 0], i * COPY.doubles))
    return list
  }

  function compare(direction: 0 | 1, stream: number, list: Float64Array, bytes: number): [Estimate, Estimate, number] {
    const large = lane.copy(stream, direction, peakList)
    const job = lane.copy(stream, direction, list)
    const alone: number[] = []
    const mine: number[] = []
    const control: number[] = []
    for (let pair = -WARM; pair < options.pairs; pair++) {
      const here = peak(direction)
      const reached = gbps(bytes, lane.last(large, job))
      const idle = gbps(bytes, lane.last(job))
      if (pair < 0) continue
      alone.push(idle)
      control.push(here)
      mine.push(reached)
    }
    return [roundedEstimate(estimate(mine)), roundedEstimate(ratios(mine, control)), rounded(estimate(alone).median)]
  }

  const measured: Measured[] = []
  function measure(
    direction: (typeof DIRECTIONS)[number],
    backend: keyof typeof streams,
    runBytes: number,
    list: Float64Array,
  ): void {
    const totalBytes = (list.length / COPY.doubles) * runBytes
    const [rate, ofPeak, aloneGbps] = compare(direction[1], streams[backend], list, totalBytes)
    measured.push({ direction: direction[0], backend, runBytes, totalBytes, gbps: rate, ofPeak, aloneGbps })
    const shape = `${Math.round(totalBytes / MIB)} MiB in runs of ${runBytes / KIB} KiB`
    say(
      `${direction[0]} ${backend.padEnd(6)} ${shape.padEnd(32)} ${rate.median} GB/s, ${ofPeak.median} of the peak [${ofPeak.low}, ${ofPeak.high}], alone ${aloneGbps} GB/s`,
    )
  }

  for (let i = 0; i < 40; i++) peak(0)
  const peaks = Object.fromEntries(
    DIRECTIONS.map(([name, direction]) => [
      name,
      roundedEstimate(estimate(Array.from({ length: 15 }, () => peak(direction)))),
    ]),
  )
  say(`peak: h2d ${peaks['h2d']?.median} GB/s, d2h ${peaks['d2h']?.median} GB/s`)
  for (const direction of DIRECTIONS) {
    for (const size of CONTIGUOUS_MIB) {
      const list = Float64Array.of(template(0, 1, size * MIB), 0, 0, 0, 0, 1, 0)
      for (const backend of BACKENDS) measure(direction, backend, size * MIB, list)
    }
    for (const total of TOTALS_MIB) {
      for (const run of RUNS_KIB) {
        const list = scatteredList(run * KIB, Math.floor((total * MIB) / (run * KIB)))
        for (const backend of BACKENDS) measure(direction, backend, run * KIB, list)
      }
    }
  }

  const shapes = []
  if (lane.kernels === 'loaded') {
    for (const [name, direction] of DIRECTIONS) {
      for (const run of [4, 256]) {
        const list = scatteredList(run * KIB, Math.floor((108 * MIB) / (run * KIB)))
        const small = scatteredList(run * KIB, Math.floor((9 * MIB) / (run * KIB)))
        for (const blocks of BLOCKS) {
          for (const tile of TILES_KIB) {
            const stream = lane.stream({ transfer: 'kernel', blocks, tileBytes: tile * KIB })
            const rate = (of: Float64Array) => {
              const bytes = (of.length / COPY.doubles) * run * KIB
              const times = Array.from({ length: 7 }, () =>
                gbps(bytes, lane.last(lane.copy(stream, direction, peakList), lane.copy(stream, direction, of))),
              )
              return rounded(estimate(times.slice(2)).median)
            }
            const [large, little] = [rate(list), rate(small)]
            shapes.push({
              direction: name,
              runBytes: run * KIB,
              blocks,
              tileBytes: tile * KIB,
              gbps108: large,
              gbps9: little,
            })
            say(
              `${name} runs of ${run} KiB, ${blocks} blocks, tiles of ${tile} KiB: ${large} GB/s for 108 MiB, ${little} for 9`,
            )
          }
        }
      }
    }
  }
  native.releaseMapping(mapping)
  lane.close()

  const least = (select: (m: Measured) => boolean): number =>
    Math.min(...measured.filter((m) => m.backend === 'auto' && select(m)).map((m) => m.ofPeak.median))
  const scattered = (m: Measured) => m.runBytes <= 256 * KIB
  return {
    device: device.name,
    driverVersion,
    peaks,
    contiguousOfPeak: least((m) => m.runBytes >= 4 * MIB),
    scattered108OfPeak: least((m) => scattered(m) && m.totalBytes > 50 * MIB),
    scattered9OfPeak: least((m) => scattered(m) && m.totalBytes < 50 * MIB),
    measured,
    shapes,
  }
}
