import { requireDevice, shuffled, TimedLane } from './support/device.js'
import type { BenchOptions } from './support/options.js'
import { type Estimate, estimate, ratios, rounded } from './support/statistics.js'

/**
 * Question: how much of one device-to-device copy does gathering scattered runs into one buffer reach? Control: a copy
 * of as many bytes by the driver, beside every measurement. Both are queued behind others of their stream. 4 MiB is one staging slot, 8 MiB two of them.
 */

const KIB = 1024
const MIB = 1024 * KIB
const SOURCE_BYTES = 256 * MIB
const TARGET_BYTES = 64 * MIB
const RUNS_KIB = [4, 16, 64, 128, 256]
const TOTALS_MIB = [4, 8, 64]
const WARM = 5
const BLOCKS = [132, 264, 528, 1024]
/** Bytes that one warp moves of a tile. */
const SLICES_KIB = [4, 8, 16, 32]

const short = ({ median, low, high }: Estimate): Estimate => ({
  median: rounded(median),
  low: rounded(low),
  high: rounded(high),
})

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const { native, device, driverVersion } = requireDevice()
  const lane = new TimedLane(native, 2 * MIB, { transfer: 'direct' })
  const direct = lane.first
  const source = native.allocateDeviceMemory(device.uuid, SOURCE_BYTES).mapping
  const target = native.allocateDeviceMemory(device.uuid, TARGET_BYTES).mapping
  say(`${device.name}, driver ${driverVersion}, kernels ${lane.kernels}`)
  if (lane.kernels !== 'loaded') throw new Error(`no kernels: ${lane.kernels}`)
  const kernel = lane.stream({ transfer: 'kernel' })

  const gatherList = (runBytes: number, count: number): Float64Array => {
    const list = new Float64Array(5 * count)
    shuffled(count).forEach(
      (page, i) => void list.set([target, i * runBytes, source, 2 * page * runBytes, runBytes], i * 5),
    )
    return list
  }
  const whole = (stream: number, bytes: number) => lane.move(stream, Float64Array.of(target, 0, source, 0, bytes))
  /** Keeps a stream busy for as long as it takes to queue what is measured. */
  const before = (stream: number) => Array.from({ length: 20 }, () => whole(stream, TARGET_BYTES))
  const copyTime = (bytes: number): number => lane.last(...before(direct), whole(direct, bytes))
  const gatherTime = (stream: number, list: Float64Array): number =>
    lane.last(...before(stream), lane.move(stream, list))
  for (let i = 0; i < 20; i++) copyTime(TARGET_BYTES)

  const measured = []
  for (const total of TOTALS_MIB) {
    for (const run of RUNS_KIB) {
      const bytes = total * MIB
      const list = gatherList(run * KIB, bytes / (run * KIB))
      const mine: number[] = []
      const control: number[] = []
      const alone: number[] = []
      for (let pair = -WARM; pair < options.pairs; pair++) {
        const here = bytes / copyTime(bytes)
        const reached = bytes / gatherTime(kernel, list)
        if (pair < 0) continue
        alone.push(bytes / lane.last(lane.move(kernel, list)))
        control.push(here)
        mine.push(reached)
      }
      const entry = {
        totalBytes: bytes,
        runBytes: run * KIB,
        gbps: short(estimate(mine)),
        copyGbps: short(estimate(control)),
        ofCopy: short(ratios(mine, control)),
        aloneGbps: rounded(estimate(alone).median),
      }
      measured.push(entry)
      say(
        `gather ${total} MiB in runs of ${run} KiB: ${entry.gbps.median} GB/s, copy ${entry.copyGbps.median}, ratio ${entry.ofCopy.median} [${entry.ofCopy.low}, ${entry.ofCopy.high}]`,
      )
    }
  }

  const shapes = []
  for (const run of [4, 128]) {
    const list = gatherList(run * KIB, TARGET_BYTES / (run * KIB))
    for (const blocks of BLOCKS) {
      for (const tile of SLICES_KIB) {
        const stream = lane.stream({ transfer: 'kernel', blocks, tileBytes: tile * KIB })
        const times = Array.from({ length: 9 }, () => TARGET_BYTES / gatherTime(stream, list))
        const gbps = rounded(estimate(times.slice(2)).median)
        shapes.push({ runBytes: run * KIB, blocks, sliceBytes: tile * KIB, gbps })
        say(`gather 64 MiB in runs of ${run} KiB, ${blocks} blocks, slices of ${tile} KiB: ${gbps} GB/s`)
      }
    }
  }
  native.releaseMapping(source)
  native.releaseMapping(target)
  lane.close()
  return {
    device: device.name,
    driverVersion,
    gather64OfCopy: Math.min(...measured.filter((m) => m.totalBytes === 64 * MIB).map((m) => m.ofCopy.median)),
    measured,
    shapes,
  }
}
