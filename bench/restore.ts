import { randomFillSync } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { CudaDevice } from '../src/binding/devices.js'
import { loadNative } from '../src/binding/load.js'
import type { Native } from '../src/binding/surface.js'
import { IO_DEPTH } from '../src/control/lane-plan.js'
import { spinUsOf } from '../src/control/spin.js'
import { GIB, KIB, MIB } from '../src/shared/base/units.js'
import { COPY } from '../src/shared/layout/descriptors.js'
import { TimedLane } from './support/device.js'
import { IoLoop } from './support/io-loop.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { PingPong } from './support/ping-pong.js'
import { freshFolder } from './support/place.js'
import { compileControl, RawControl } from './support/raw-control.js'
import { Engine, type Piece, type RestoreShape } from './support/restore-engine.js'
import { RestoreLanes } from './support/restore-lanes.js'
import { estimate, median, quantile, rounded } from './support/statistics.js'

/**
 * Question: how much longer than the disk takes a restore on the explicit route, from the manager's record to the
 * finished slot and the lane's reply? Real host-restore and host-reader lanes as the Manager starts them; the bench
 * sits in the manager's place and sleeps as it does. Control: bench/native/raw_restore.cc, one thread with one
 * io_uring, same file, extents, page sizes, checksums and copies, in turns. The cost of one parked wake-up is measured
 * between them.
 * With `--device cuda:N` the engine's pages are on that device. The controls are then two, in turns with the restore: the
 * same program with reads and checksums alone, and the same copies from page-locked memory on a stream of their own.
 * With `--route cufile` the bytes come through the ssd-worker's staging. What cuFile does in compatibility mode shows that
 * bytes are right and nothing about its speed: the JSON says which mode it was.
 * Does not show: the socket and the manager's turn before, a client's timer after, or restores side by side.
 */

interface Shape extends RestoreShape {
  /** Restores of one pair: the pair's time is their median. */
  readonly repeats: number
}

const SHAPES: readonly Shape[] = [
  { name: '12x4KiB', blocks: 12, layers: 1, layersPerGranule: 1, segmentBytes: 4 * KIB, repeats: 60 },
  { name: '34x4KiB', blocks: 34, layers: 1, layersPerGranule: 1, segmentBytes: 4 * KIB, repeats: 60 },
  { name: '9MiB', blocks: 1, layers: 36, layersPerGranule: 4, segmentBytes: 256 * KIB, repeats: 8 },
  { name: '108MiB', blocks: 12, layers: 36, layersPerGranule: 4, segmentBytes: 256 * KIB, repeats: 2 },
]
/** What the Manager uses by default. */
const WINDOW_BYTES = 64 * MIB
const WAKE_TRIPS = 100
const WAKE_PAUSE_US = 300
/** Of a Manager with one shard. */
const ACTORS = 6

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const native = loadNative()
  const probe = native.probe()
  if (!probe.available) throw new Refusal(`io_uring is not available here (${probe.reason})`)
  const program = compileControl('raw_restore')
  const { device } = options
  const cuda = device === 'host' ? null : cudaDevice(native, device)
  const folder = freshFolder(options.dir)
  const path = join(folder.path, 'shard.dat')
  const content = randomFillSync(Buffer.alloc(options.quick ? GIB / 4 : GIB))
  const file = writeContent(native, path, content)
  say(folder.filesystem)
  const spinUs = spinUsOf(options.spinUs, availableParallelism(), ACTORS)
  const { route } = options
  const lanes =
    route === 'uring'
      ? await RestoreLanes.uring(native, device, spinUs, WINDOW_BYTES)
      : await RestoreLanes.cufile(native, device, spinUs, file)
  const lane = cuda === null ? null : new TimedLane(native, WINDOW_BYTES, {})
  if (lane !== null)
    say(`${cuda?.name}: kernels ${lane.kernels}, ${WINDOW_BYTES / MIB} MiB page-locked in ${lane.registerMs} ms`)
  const wake = await PingPong.open(native, 'park-native')
  wake.wakeUps(WAKE_TRIPS, WAKE_PAUSE_US)

  const rows = []
  for (const shape of SHAPES) {
    const engine = new Engine(native, shape, content, file, cuda)
    const control = new RawControl(program, [
      path,
      WINDOW_BYTES,
      shape.layers,
      shape.layersPerGranule,
      shape.segmentBytes,
      engine.pages,
      ...(lane === null ? [] : ['reads-only']),
    ])
    const repeats = options.quick ? Math.ceil(shape.repeats / 6) : shape.repeats
    const row = await compare(shape, { lanes, engine, control, wake, repeats, pairs: options.pairs, lane })
    rows.push(row)
    say(lineOf(row))
    await control.close()
    engine.close()
  }
  const evidence = lanes.evidence()
  lane?.close()
  await wake.close()
  await lanes.close()
  native.closeShard(file)
  folder.remove()
  return { rows, route, filesystem: folder.filesystem, windowBytes: WINDOW_BYTES, depth: IO_DEPTH, spinUs, evidence }
}

interface Sides {
  readonly lanes: RestoreLanes
  readonly engine: Engine
  readonly control: RawControl
  readonly wake: PingPong
  readonly repeats: number
  readonly pairs: number
  /** Copies to the device alone; null when pages are host memory. */
  readonly lane: TimedLane | null
}

async function compare(shape: Shape, { lanes, engine, control, wake, repeats, pairs, lane }: Sides) {
  const mine: number[] = []
  const raw: number[] = []
  const wakes: number[] = []
  const copies: number[] = []
  const copiesOnDevice: number[] = []
  const p99: number[] = []
  let verifiedBytes = 0
  let ssdBytes = 0
  let enters = 0
  for (let pair = -1; pair < pairs; pair++) {
    const plans = Array.from({ length: repeats }, () => engine.plan())
    const ours = () => {
      const times = plans.map((plan) => {
        engine.poison()
        const { us, bytes } = lanes.restore(engine, plan)
        ssdBytes += bytes
        verifiedBytes += engine.verify(plan)
        return us
      })
      if (pair >= 0) {
        mine.push(median(times))
        p99.push(quantile(times, 0.99))
      }
    }
    const theirs = async () => {
      const times: number[] = []
      for (const plan of plans) {
        const words = plan.map(({ fileOffset, crc, granule, page }) => `${fileOffset} ${crc} ${granule} ${page}`)
        const [us = Number.NaN, bytes, entered = 0] = await control.ask(`${plan.length} ${words.join(' ')}`)
        if (bytes !== engine.bytes) throw new Error(`the raw control verified ${bytes} of ${engine.bytes} bytes`)
        times.push(us)
        enters += entered
      }
      if (pair >= 0) raw.push(median(times))
    }
    const alone = () => {
      if (lane === null) return
      const times = plans.map((plan) => copyAlone(lane, engine, plan))
      if (pair < 0) return
      copies.push(median(times.map(({ us }) => us)))
      copiesOnDevice.push(median(times.map(({ deviceUs }) => deviceUs)))
    }
    if (pair % 2 === 0) ours()
    await theirs()
    alone()
    if (pair % 2 !== 0) ours()
    wakes.push(median([...wake.wakeUps(WAKE_TRIPS, WAKE_PAUSE_US)]))
  }
  if (ssdBytes !== verifiedBytes) throw new Error(`${ssdBytes} bytes came from SSD, ${verifiedBytes} were restored`)
  // Against a device: the slower of the two alone for what streams, their sum for what is over before it streams.
  const slower = raw.map((us, pair) => Math.max(us, copiesOnDevice[pair] ?? 0))
  const sum = raw.map((us, pair) => us + (copies[pair] ?? 0))
  const ratio = estimate(mine.map((us, pair) => us / (slower[pair] as number)))
  const gap = estimate(mine.map((us, pair) => (us - (sum[pair] as number)) / (wakes[pair + 1] as number)))
  const times = estimate(mine)
  return {
    shape: shape.name,
    p50Us: rounded(times.median),
    p50UsLow: rounded(times.low),
    p50UsHigh: rounded(times.high),
    p99Us: rounded(estimate(p99).median),
    rawUs: rounded(estimate(raw).median),
    ...(lane === null
      ? {}
      : { copyUs: rounded(estimate(copies).median), copyOnDeviceUs: rounded(estimate(copiesOnDevice).median) }),
    wakeUs: rounded(estimate(wakes).median),
    ratioToRaw: rounded(ratio.median),
    ratioToRawLow: rounded(ratio.low),
    ratioToRawHigh: rounded(ratio.high),
    wakesAboveRaw: rounded(gap.median),
    wakesAboveRawLow: rounded(gap.low),
    wakesAboveRawHigh: rounded(gap.high),
    verifiedBytes,
    ssdBytes,
    rawEnters: enters,
  }
}

function lineOf(row: Awaited<ReturnType<typeof compare>>): string {
  return [
    `${row.shape.padStart(8)}: ${row.p50Us} us [${row.p50UsLow}..${row.p50UsHigh}], ${row.copyUs === undefined ? 'raw' : `copy ${row.copyUs} us (device ${row.copyOnDeviceUs}), reads`} ${row.rawUs} us,`,
    `ratio ${row.ratioToRaw} [${row.ratioToRawLow}..${row.ratioToRawHigh}];`,
    `${row.wakesAboveRaw} [${row.wakesAboveRawLow}..${row.wakesAboveRawHigh}] wake-ups of ${row.wakeUs} us above raw;`,
    `${(row.verifiedBytes / MIB).toFixed(1)} MiB verified`,
  ].join(' ')
}

/** The copies of a plan by themselves, from places of the window one after the other, as the lane's would be. */
function copyAlone(lane: TimedLane, engine: Engine, plan: readonly Piece[]): { us: number; deviceUs: number } {
  const places = Math.floor(WINDOW_BYTES / engine.granuleBytes)
  const list = new Float64Array(plan.length * COPY.doubles)
  for (const [i, { granule, page }] of plan.entries()) {
    const at = i * COPY.doubles
    list[at + COPY.template] = engine.template
    list[at + COPY.granule] = granule
    list[at + COPY.page] = page
    list[at + COPY.poolOffsetBytes] = (i % places) * engine.granuleBytes
    list[at + COPY.itemCount] = engine.shape.layersPerGranule
  }
  const copies = lane.copy(lane.first, 0, list)
  const startMs = performance.now()
  lane.last(copies)
  const us = (performance.now() - startMs) * 1000
  // Behind another, so that the device's time has no submission in it.
  return { us, deviceUs: lane.last(copies, copies) / 1000 }
}

function cudaDevice(native: Native, name: string): CudaDevice {
  const { devices, reason } = native.cudaProbe()
  const found = devices.find(({ ordinal }) => name === `cuda:${ordinal}`)
  if (found === undefined)
    throw new Refusal(`Cannot measure ${name}: ${reason === '' ? 'there is no such device' : reason}`)
  if (name !== 'cuda:0') throw new Refusal(`Cannot measure ${name}: the copies alone are measured on cuda:0`)
  return found
}

function writeContent(native: Native, path: string, content: Buffer): number {
  const { file } = native.openShard(path, content.length, true)
  const { pool } = native.openPool(16 * MIB)
  const memory = native.poolView(pool, 0, 16 * MIB)
  const writer = new IoLoop(native, pool)
  writer.fill({ file, fileBytes: content.length }, MIB, (poolOffset, fileOffset) => {
    memory.set(content.subarray(fileOffset, fileOffset + MIB), poolOffset)
  })
  writer.close()
  native.closePool(pool)
  return file
}
