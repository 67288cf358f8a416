import { randomFillSync } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { HOST_READER_COUNT } from '../src/actors/host-reader/counters.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../src/actors/host-reader/params.js'
import * as restore from '../src/actors/host-restore/messages.js'
import { HOST_RESTORE_ENTRY, HOST_RESTORE_LAYOUT, type HostRestoreParams } from '../src/actors/host-restore/params.js'
import { Wiring } from '../src/actors/runtime/wiring.js'
import { loadNative } from '../src/binding/load.js'
import type { CudaDevice, DeviceName, Native } from '../src/binding/surface.js'
import { IO_DEPTH, PART_DESCRIPTORS, RESTORE_PARTS } from '../src/control/manager-process.js'
import { spinUsOf } from '../src/control/spin.js'
import { GIB, KIB, MIB } from '../src/shared/base/units.js'
import { COPY, NO_OFFSET, SOURCE, TEMPLATE_ITEM } from '../src/shared/layout/descriptors.js'
import { SLOT_STATE } from '../src/shared/layout/slot-states.js'
import { slotWord } from '../src/shared/layout/wire/slots.js'
import { CounterReader } from '../src/shared/rings/counter-page.js'
import { TimedLane } from './support/device.js'
import { IoLoop, RandomOffsets } from './support/io-loop.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { PingPong } from './support/ping-pong.js'
import { freshFolder } from './support/place.js'
import { compileControl, RawControl } from './support/raw-control.js'
import { BenchSeat, type LaneTalk } from './support/seat.js'
import { estimate, median, quantile, rounded } from './support/statistics.js'

/**
 * Question: how much longer than the disk takes a restore on the explicit route, from the manager's record to the
 * finished slot and the lane's reply? Real host-restore and host-reader lanes as the Manager starts them; the bench
 * sits in the manager's place and sleeps as it does. Control: bench/native/raw_restore.cc, one thread with one
 * io_uring, same file, extents, page sizes, checksums and copies, in turns. The cost of one parked wake-up is measured
 * between them.
 * With `--device cuda:N` the engine's pages are on that device. The controls are then two, in turns with the restore: the
 * same program with reads and checksums alone, and the same copies from page-locked memory on a stream of their own.
 * Does not show: the socket and the manager's turn before, a client's timer after, or restores side by side.
 */

interface Shape {
  readonly name: string
  readonly blocks: number
  readonly layers: number
  readonly layersPerGranule: number
  readonly segmentBytes: number
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
const SENTINEL = 0xa5
const SLOTS = 4
const WAKE_TRIPS = 100
const WAKE_PAUSE_US = 300
/** Of a Manager with one shard. */
const ACTORS = 6

/** One granule of a restore: where it lies and where it goes. */
interface Piece {
  readonly fileOffset: number
  readonly crc: number
  readonly granule: number
  readonly page: number
}

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
  const bed = await Bed.open(native, device, spinUs)
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
    const row = await compare(shape, { bed, engine, control, wake, repeats, pairs: options.pairs, lane })
    rows.push(row)
    say(lineOf(row))
    await control.close()
    engine.close()
  }
  const evidence = bed.evidence()
  lane?.close()
  await wake.close()
  await bed.close()
  native.closeShard(file)
  folder.remove()
  return { rows, filesystem: folder.filesystem, windowBytes: WINDOW_BYTES, depth: IO_DEPTH, spinUs, evidence }
}

interface Sides {
  readonly bed: Bed
  readonly engine: Engine
  readonly control: RawControl
  readonly wake: PingPong
  readonly repeats: number
  readonly pairs: number
  /** Copies to the device alone; null when pages are host memory. */
  readonly lane: TimedLane | null
}

async function compare(shape: Shape, { bed, engine, control, wake, repeats, pairs, lane }: Sides) {
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
        const { us, bytes } = bed.restore(engine, plan)
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

/** Pages of an engine with one shape, and what is to be in them. */
class Engine {
  readonly shape: Shape
  readonly pages: number
  readonly template: number
  readonly bytes: number
  readonly file: number
  readonly #native: Native
  readonly #content: Buffer
  readonly #mapping: number
  readonly #memory: Buffer
  /** Pages on a device are looked at through a copy. */
  readonly #onDevice: boolean
  readonly #offsets: RandomOffsets

  constructor(native: Native, shape: Shape, content: Buffer, file: number, cuda: CudaDevice | null) {
    const { blocks, layers, layersPerGranule, segmentBytes } = shape
    this.shape = shape
    this.file = file
    this.pages = 2 * blocks
    this.bytes = blocks * layers * segmentBytes
    this.#native = native
    this.#content = content
    // Any 4 KiB boundary from which a whole block follows.
    this.#offsets = new RandomOffsets(4 * KIB, content.length - layers * segmentBytes)
    const pagesBytes = layers * this.pages * segmentBytes
    this.#onDevice = cuda !== null
    const mapping =
      cuda === null ? hostMapping(native, pagesBytes) : native.allocateDeviceMemory(cuda.uuid, pagesBytes).mapping
    this.#mapping = mapping
    const view = cuda === null ? native.mappingView(mapping, 0, pagesBytes) : new Uint8Array(pagesBytes)
    this.#memory = Buffer.from(view.buffer, view.byteOffset, pagesBytes)
    const items = new Float64Array(layers * TEMPLATE_ITEM.doubles)
    for (let layer = 0; layer < layers; layer++) {
      const at = layer * TEMPLATE_ITEM.doubles
      items[at + TEMPLATE_ITEM.mapping] = mapping
      items[at + TEMPLATE_ITEM.baseBytes] = layer * this.pages * segmentBytes
      items[at + TEMPLATE_ITEM.pageStrideBytes] = segmentBytes
      items[at + TEMPLATE_ITEM.pageCount] = this.pages
      items[at + TEMPLATE_ITEM.granuleOffsetBytes] = (layer % layersPerGranule) * segmentBytes
      items[at + TEMPLATE_ITEM.bytes] = segmentBytes
      items[at + TEMPLATE_ITEM.paddedBytes] = segmentBytes
    }
    const firsts = Float64Array.from(
      { length: layers / layersPerGranule + 1 },
      (_, granule) => granule * layersPerGranule,
    )
    this.template = native.defineTemplate(items, firsts)
  }

  get granuleBytes(): number {
    return this.shape.layersPerGranule * this.shape.segmentBytes
  }

  /** Every block from an extent anywhere into every second page. */
  plan(): Piece[] {
    const { blocks, layers, layersPerGranule } = this.shape
    const plan: Piece[] = []
    for (let block = 0; block < blocks; block++) {
      const extent = this.#offsets.next()
      for (let granule = 0; granule < layers / layersPerGranule; granule++) {
        const fileOffset = extent + granule * this.granuleBytes
        const crc = this.#native.crc32(this.#stored(fileOffset), 0, 'auto')
        plan.push({ fileOffset, crc, granule, page: 2 * block })
      }
    }
    return plan
  }

  poison(): void {
    this.#memory.fill(SENTINEL)
    if (this.#onDevice) this.#native.writeMapping(this.#mapping, 0, this.#memory)
  }

  /** Compares every restored byte with what was stored, and every other byte with the sentinel; returns the bytes restored. */
  verify(plan: readonly Piece[]): number {
    const { layersPerGranule, segmentBytes } = this.shape
    const sentinel = Buffer.alloc(segmentBytes, SENTINEL)
    let verified = 0
    if (this.#onDevice) this.#native.readMapping(this.#mapping, 0, this.#memory)
    for (const { fileOffset, granule, page } of plan) {
      const stored = this.#stored(fileOffset)
      for (let layer = 0; layer < layersPerGranule; layer++) {
        const row = granule * layersPerGranule + layer
        const expected = stored.subarray(layer * segmentBytes, (layer + 1) * segmentBytes)
        if (!expected.equals(this.#segment(row, page))) throw new Error(`page ${page} of layer ${row} has wrong bytes`)
        if (!sentinel.equals(this.#segment(row, page + 1))) throw new Error(`page ${page + 1} was touched`)
        verified += segmentBytes
      }
    }
    return verified
  }

  #stored(fileOffset: number): Buffer {
    return this.#content.subarray(fileOffset, fileOffset + this.granuleBytes)
  }

  #segment(row: number, page: number): Buffer {
    const at = (row * this.pages + page) * this.shape.segmentBytes
    return this.#memory.subarray(at, at + this.shape.segmentBytes)
  }

  close(): void {
    this.#native.releaseTemplate(this.template)
    this.#native.releaseMapping(this.#mapping)
  }
}

function hostMapping(native: Native, bytes: number): number {
  const fd = native.createMemory(bytes)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  return mapping
}

type Restores = LaneTalk<restore.HostRestoreRequest, restore.HostRestoreReply>

/** The lanes of the explicit route and a client's slots. */
class Bed {
  readonly #native: Native
  readonly #seat: BenchSeat
  readonly #wiring: Wiring
  readonly #talk: Restores
  readonly #slots: ReturnType<Native['createSlots']>
  readonly #client: number
  readonly #result = new Float64Array(7)
  #jobs = 0

  private constructor(native: Native, seat: BenchSeat, wiring: Wiring, talk: Restores) {
    this.#native = native
    this.#seat = seat
    this.#wiring = wiring
    this.#talk = talk
    this.#slots = native.createSlots(SLOTS)
    this.#client = native.openSlots(this.#slots.clientFd, this.#slots.managerFd, SLOTS)
  }

  static async open(native: Native, device: DeviceName, spinUs: number): Promise<Bed> {
    const wiring = new Wiring(spinUs)
    wiring.actor('manager', { series: [], histograms: [] })
    wiring.actor('host-reader', HOST_READER_LAYOUT)
    wiring.actor('host-restore', HOST_RESTORE_LAYOUT)
    wiring.connectPair('manager', 'host-restore')
    wiring.connectPair('manager', 'host-reader')
    wiring.connectPair('host-restore', 'host-reader')
    const { pool } = native.openPool(WINDOW_BYTES)
    const seat = new BenchSeat(native, wiring, 'manager')
    const restoreParams: HostRestoreParams = {
      ...{
        client: 'manager',
        device,
        readers: ['host-reader'],
        pool,
        windowOffsetBytes: 0,
        windowBytes: WINDOW_BYTES,
      },
      ...{ storeReads: IO_DEPTH, parts: RESTORE_PARTS, partDescriptors: PART_DESCRIPTORS, io: 'uring' },
    }
    const clients = ['manager', 'host-restore']
    const readerParams: HostReaderParams = { clients, pool, depth: IO_DEPTH, io: 'uring', register: true }
    const talk = await seat.lane('host-restore', HOST_RESTORE_ENTRY, restoreParams, restore)
    await seat.lane(
      'host-reader',
      HOST_READER_ENTRY,
      readerParams,
      await import('../src/actors/host-reader/messages.js'),
    )
    return new Bed(native, seat, wiring, talk)
  }

  /** One restore from the record to the reply; the slot is then done. */
  restore(engine: Engine, plan: readonly Piece[]): { readonly us: number; readonly bytes: number } {
    const job = ++this.#jobs
    const slot = job % SLOTS
    this.#native.slotSubmit(this.#client, slot, job, job, 0)
    const list = { doubles: sourcesOf(engine, plan), offset: 0, length: plan.length * SOURCE.doubles }
    const finish = { slots: this.#slots.slots, slot, slotGeneration: job, fence: 0 }
    const admitUs = this.#native.monotonicUs()
    const startMs = performance.now()
    this.#talk.requests.send({ kind: 'restore', job, more: 0, bytes: engine.bytes, admitUs, list, ...finish })
    let bytes = -1
    this.#seat.await(
      this.#talk,
      (reply) => {
        if (reply.kind !== 'restore-done' || reply.job !== job || reply.status !== 0) {
          throw new Error(`restore ${job} ended: ${JSON.stringify(reply)}`)
        }
        bytes = reply.ssdBytes
      },
      () => bytes >= 0,
    )
    const us = (performance.now() - startMs) * 1000
    const word = this.#native.slotPoll(this.#client, slot, this.#result)
    if (word !== slotWord(job, SLOT_STATE.done)) throw new Error(`slot ${slot} says ${word}`)
    this.#native.slotFree(this.#client, slot, job)
    return { us, bytes }
  }

  evidence(): object {
    const counts = new CounterReader(this.#wiring.seat('host-reader').counters, HOST_READER_LAYOUT)
    return {
      restores: this.#jobs,
      reads: counts.series(HOST_READER_COUNT.readOperations),
      readBytes: counts.series(HOST_READER_COUNT.readBytes),
      checksumMismatches: counts.series(HOST_READER_COUNT.checksumMismatches),
    }
  }

  async close(): Promise<void> {
    await this.#seat.close()
    this.#native.closeSlots(this.#client)
    this.#native.releaseSlots(this.#slots.slots)
  }
}

function sourcesOf(engine: Engine, plan: readonly Piece[]): Float64Array {
  const doubles = new Float64Array(plan.length * SOURCE.doubles)
  for (const [index, { fileOffset, crc, granule, page }] of plan.entries()) {
    const at = index * SOURCE.doubles
    doubles[at + SOURCE.template] = engine.template
    doubles[at + SOURCE.granule] = granule
    doubles[at + SOURCE.page] = page
    doubles[at + SOURCE.poolOffsetBytes] = NO_OFFSET
    doubles[at + SOURCE.file] = engine.file
    doubles[at + SOURCE.fileOffsetBytes] = fileOffset
    doubles[at + SOURCE.bytes] = engine.granuleBytes
    doubles[at + SOURCE.segmentBytes] = engine.granuleBytes / engine.shape.layersPerGranule
    doubles[at + SOURCE.segmentStrideBytes] = engine.granuleBytes / engine.shape.layersPerGranule
    doubles[at + SOURCE.crc32] = crc
    doubles[at + SOURCE.generation] = 1 + page
    doubles[at + SOURCE.itemCount] = engine.shape.layersPerGranule
    doubles[at + SOURCE.pair] = page / 2
    doubles[at + SOURCE.key] = 1 + page
  }
  return doubles
}
