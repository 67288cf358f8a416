import type { StreamOptions } from '../src/binding/streams.js'
import { requireDevice, shuffled, TimedLane } from './support/device.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { type Estimate, estimate, ratios, rounded } from './support/statistics.js'

/**
 * Question: how much of one device-to-device copy does gathering scattered runs into one buffer reach? Control: a copy
 * of as many bytes by the driver, beside every measurement. Both are queued behind others of their stream. 4 MiB is one
 * staging slot, 8 MiB two of them. Every way to gather is a row; ORBITKV_BENCH_GATHER names some of them, such as
 * `rounds-mapped,warps-fed`.
 */

const KIB = 1024
const MIB = 1024 * KIB
const SOURCE_BYTES = 256 * MIB
const TARGET_BYTES = 64 * MIB
const RUNS_KIB = [4, 16, 64, 128, 256]
const TOTALS_MIB = [4, 8, 64]
const WARM = 5
/** Jobs before the one that is measured, and by how much they outlast its queuing. */
const JOBS_BEFORE = 20
const AHEAD = 4
/** A copy of TARGET_BYTES takes no less on any device: 3.2 TB/s. */
const COPY_MS = 0.02
const BLOCKS = [132, 264, 528, 1024]
const WAYS = {
  'rounds-mapped': {},
  'rounds-fed': { descriptors: 'fed' },
  'warps-mapped': { gather: 'warps' },
  'warps-fed': { gather: 'warps', descriptors: 'fed' },
} as const satisfies Readonly<Record<string, StreamOptions>>
type Way = keyof typeof WAYS
/** Bytes that one warp moves of a tile. */
const SLICES_KIB = [4, 8, 16, 32]

const short = ({ median, low, high }: Estimate): Estimate => ({
  median: rounded(median),
  low: rounded(low),
  high: rounded(high),
})

interface Row {
  readonly way: Way
  readonly totalBytes: number
  readonly runBytes: number
  readonly gbps: Estimate
  readonly copyGbps: Estimate
  readonly ofCopy: Estimate
  /** On a stream that is idle. */
  readonly aloneGbps: number
  /** Longest that the processor took to queue one. */
  readonly queueMs: number
}

/** The ways to measure; the first is the one that streams use. */
function chosenWays(): Way[] {
  const all = Object.keys(WAYS) as Way[]
  const given = process.env['ORBITKV_BENCH_GATHER']
  if (given === undefined || given === '') return all
  const names = given.split(',')
  const unknown = names.find((name) => !all.some((way) => way === name))
  if (unknown !== undefined) {
    throw new Refusal(`Cannot measure ORBITKV_BENCH_GATHER=${given}: ${unknown} is none of ${all.join(', ')}`)
  }
  return names as Way[]
}

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const ways = chosenWays()
  const { native, device, driverVersion } = requireDevice()
  const lane = new TimedLane(native, 2 * MIB, { transfer: 'direct' })
  const direct = lane.first
  const source = native.allocateDeviceMemory(device.uuid, SOURCE_BYTES).mapping
  const target = native.allocateDeviceMemory(device.uuid, TARGET_BYTES).mapping
  say(`${device.name}, driver ${driverVersion}, kernels ${lane.kernels}`)
  if (lane.kernels !== 'loaded') throw new Error(`no kernels: ${lane.kernels}`)
  const kernels = ways.map((way) => ({ way, stream: lane.stream({ transfer: 'kernel', ...WAYS[way] }) }))

  const gatherList = (runBytes: number, count: number): Float64Array => {
    const list = new Float64Array(5 * count)
    shuffled(count).forEach(
      (page, i) => void list.set([target, i * runBytes, source, 2 * page * runBytes, runBytes], i * 5),
    )
    return list
  }
  const whole = (stream: number, bytes: number) => lane.move(stream, Float64Array.of(target, 0, source, 0, bytes))
  /** Keeps a stream busy for at least `ms`, in which the processor queues what is measured behind it. */
  const before = (stream: number, ms: number) => {
    const copies = Math.ceil((AHEAD * ms) / (JOBS_BEFORE * COPY_MS))
    const list = new Float64Array(5 * Math.max(1, copies))
    for (let at = 0; at < list.length; at += 5) list.set([target, 0, source, 0, TARGET_BYTES], at)
    return Array.from({ length: JOBS_BEFORE }, () => lane.move(stream, list))
  }
  const copyTime = (bytes: number): number => lane.last(...before(direct, 0), whole(direct, bytes))
  const gatherTime = (stream: number, list: Float64Array, queueMs: number): number =>
    lane.last(...before(stream, queueMs), lane.move(stream, list))
  /** What a gather takes on an idle stream, and for how long the processor is busy with it: a thousand runs take a while. */
  const idleTime = (stream: number, list: Float64Array): { nanoseconds: number; queueMs: number } => {
    const job = lane.move(stream, list)
    let queueMs = 0
    const nanoseconds = lane.last(() => {
      const startMs = performance.now()
      const accepted = job()
      queueMs = performance.now() - startMs
      return accepted
    })
    return { nanoseconds, queueMs }
  }
  for (let i = 0; i < 20; i++) copyTime(TARGET_BYTES)

  const measured: Row[] = []
  for (const total of TOTALS_MIB) {
    for (const run of RUNS_KIB) {
      const bytes = total * MIB
      const list = gatherList(run * KIB, bytes / (run * KIB))
      const control: number[] = []
      const rows = kernels.map(({ way, stream }) => ({
        way,
        stream,
        mine: [] as number[],
        alone: [] as number[],
        queueMs: 0,
      }))
      for (let pair = -WARM; pair < options.pairs; pair++) {
        const here = bytes / copyTime(bytes)
        if (pair >= 0) control.push(here)
        for (const row of rows) {
          const idle = idleTime(row.stream, list)
          row.queueMs = Math.max(row.queueMs, idle.queueMs)
          const reached = bytes / gatherTime(row.stream, list, row.queueMs)
          if (pair < 0) continue
          row.mine.push(reached)
          row.alone.push(bytes / idle.nanoseconds)
        }
      }
      for (const { way, mine, alone, queueMs } of rows) {
        const entry = {
          way,
          totalBytes: bytes,
          runBytes: run * KIB,
          gbps: short(estimate(mine)),
          copyGbps: short(estimate(control)),
          ofCopy: short(ratios(mine, control)),
          aloneGbps: rounded(estimate(alone).median),
          queueMs: rounded(queueMs),
        }
        measured.push(entry)
        say(
          `gather ${total} MiB in runs of ${run} KiB, ${way}: ${entry.gbps.median} GB/s, copy ${entry.copyGbps.median}, ratio ${entry.ofCopy.median} [${entry.ofCopy.low}, ${entry.ofCopy.high}], alone ${entry.aloneGbps} GB/s`,
        )
      }
    }
  }

  const shapes = []
  for (const way of ways) {
    for (const run of [4, 128]) {
      const list = gatherList(run * KIB, TARGET_BYTES / (run * KIB))
      for (const blocks of BLOCKS) {
        for (const tile of SLICES_KIB) {
          const stream = lane.stream({ transfer: 'kernel', blocks, tileBytes: tile * KIB, ...WAYS[way] })
          const { queueMs } = idleTime(stream, list)
          const times = Array.from({ length: 9 }, () => TARGET_BYTES / gatherTime(stream, list, queueMs))
          lane.end(stream)
          const gbps = rounded(estimate(times.slice(2)).median)
          shapes.push({ way, runBytes: run * KIB, blocks, sliceBytes: tile * KIB, gbps })
          say(`gather 64 MiB in runs of ${run} KiB, ${way}, ${blocks} blocks, slices of ${tile} KiB: ${gbps} GB/s`)
        }
      }
    }
  }
  native.releaseMapping(source)
  native.releaseMapping(target)
  lane.close()
  return {
    device: device.name,
    driverVersion,
    /** The worst size of 64 MiB, by way. */
    gather64OfCopy: Object.fromEntries(
      ways.map((name) => [
        name,
        Math.min(
          ...measured
            .filter(({ way, totalBytes }) => way === name && totalBytes === 64 * MIB)
            .map((m) => m.ofCopy.median),
        ),
      ]),
    ),
    measured,
    shapes,
  }
}
