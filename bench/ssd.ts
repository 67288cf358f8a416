import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import { HOST_READER_COUNT } from '../src/actors/host-reader/counters.js'
import * as reader from '../src/actors/host-reader/messages.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../src/actors/host-reader/params.js'
import { Wiring } from '../src/actors/runtime/wiring.js'
import { WRITEBACK_COUNT } from '../src/actors/writeback/counters.js'
import * as writeback from '../src/actors/writeback/messages.js'
import { WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../src/actors/writeback/params.js'
import { loadNative } from '../src/binding/load.js'
import { IO_DEPTH } from '../src/control/lane-plan.js'
import { GIB, KIB, MIB } from '../src/shared/base/units.js'
import { NO_CRC, READ, WRITE } from '../src/shared/layout/descriptors.js'
import { CounterReader } from '../src/shared/rings/counter-page.js'
import * as staging from './ssd-staging.js'
import { requireDevice } from './support/device.js'
import { fioRun, fioVersion } from './support/fio.js'
import { IoLoop, type Load, RandomOffsets, type Target } from './support/io-loop.js'
import { keepBusy } from './support/keep-busy.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { freshFolder } from './support/place.js'
import { BenchSeat, type LaneTalk } from './support/seat.js'
import { estimate, ratios, rounded } from './support/statistics.js'

/**
 * Question: does a lane's port reach what the disk gives, and what do rings and messages cost on top? Control: fio with
 * io_uring on the same file, sizes and depths, in turns, ordinary 4 KiB pages on both sides. Beside it the same through
 * the ring to a host-reader or writeback lane, and the port again with the huge pages that the Manager uses.
 * With `--device cuda:N` the pools are page-locked for that device, as the Manager's is; `--route cufile` is ssd-staging.ts.
 * Does not show: latency, checksums, mixed reads and writes, several files.
 */

const SHAPES = [
  { bytes: 4 * KIB, depth: 32 },
  { bytes: 4 * KIB, depth: 128 },
  { bytes: 256 * KIB, depth: 16 },
  { bytes: 4 * MIB, depth: 4 },
] as const
const POOL_BYTES = 16 * MIB

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  if (options.route === 'cufile') return staging.run(options, say)
  if (options.device !== 'host') requireDevice()
  const fio = fioVersion()
  const native = loadNative()
  const probe = native.probe()
  if (!probe.available) throw new Refusal(`io_uring is not available here (${probe.reason})`)
  const folder = freshFolder(options.dir)
  const fileBytes = options.quick ? GIB / 4 : 2 * GIB
  const path = join(folder.path, 'shard.dat')
  const shard = native.openShard(path, fileBytes, true)
  const target: Target = { file: shard.file, fileBytes }
  const ordinary = native.openPool(POOL_BYTES, 'ordinary')
  const huge = native.openPool(POOL_BYTES)
  if (ordinary.hugePageBytes !== 0) throw new Refusal('the ordinary pool got huge pages: memory is not equal')
  const port = new IoLoop(native, ordinary.pool)
  if (options.device !== 'host') port.pageLock(options.device)
  const hugePort = new IoLoop(native, huge.pool)
  if (options.device !== 'host') hugePort.pageLock(options.device)
  say(`${folder.filesystem}; ${fio}; pool ${huge.hugePageBytes / MIB} of ${POOL_BYTES / MIB} MiB in huge pages`)
  say(`port ${JSON.stringify(port.report())}`)
  randomFillSync(native.poolView(ordinary.pool, 0, POOL_BYTES))
  randomFillSync(native.poolView(huge.pool, 0, POOL_BYTES))
  hugePort.fill(target, MIB, () => {})
  const lanes = await openLanes(native, ordinary.pool, target)

  const ms = options.quick ? 150 : 400
  const rows = []
  for (const rw of ['read', 'write'] as const) {
    for (const shape of SHAPES) {
      const load: Load = { ...shape, rw }
      const samples = { fio: [] as number[], port: [] as number[], ring: [] as number[], huge: [] as number[] }
      port.run(load, target, ms / 4)
      for (let pair = 0; pair < options.pairs; pair++) {
        const measures = [
          () => samples.fio.push(fioRun(path, fileBytes, load, ms)),
          () => samples.port.push(port.run(load, target, ms)),
          () => samples.ring.push(lanes.run(load, ms)),
          () => samples.huge.push(hugePort.run(load, target, ms)),
        ]
        // Every second pair runs backwards: no side always follows the same other.
        if (pair % 2 === 1) measures.reverse()
        for (const measure of measures) measure()
      }
      const row = rowOf(load, samples)
      rows.push(row)
      say(lineOf(row))
    }
  }
  const route = lanes.route()
  await lanes.close()
  const report = port.report()
  port.close()
  hugePort.close()
  native.closeShard(shard.file)
  folder.remove()
  const evidence = { port: report, pumps: port.pumps, ...route, hugePageBytes: huge.hugePageBytes }
  return { rows, filesystem: folder.filesystem, device: shard.device, fio, fileBytes, sampleMs: ms, evidence }
}

function rowOf({ bytes, depth, rw }: Load, samples: Record<'fio' | 'port' | 'ring' | 'huge', number[]>) {
  const ratio = ratios(samples.port, samples.fio)
  const ring = ratios(samples.ring, samples.fio)
  const huge = ratios(samples.huge, samples.fio)
  return {
    bytes,
    depth,
    rw,
    ratio: rounded(ratio.median),
    ratioLow: rounded(ratio.low),
    ratioHigh: rounded(ratio.high),
    ringRatio: rounded(ring.median),
    ringRatioLow: rounded(ring.low),
    hugeRatio: rounded(huge.median),
    hugeRatioLow: rounded(huge.low),
    fioPerSecond: rounded(estimate(samples.fio).median),
    portPerSecond: rounded(estimate(samples.port).median),
  }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const size = row.bytes >= MIB ? `${row.bytes / MIB} MiB` : `${row.bytes / KIB} KiB`
  const gib = (row.fioPerSecond * row.bytes) / GIB
  return [
    `${row.rw.padEnd(5)} ${size.padStart(7)} QD${String(row.depth).padEnd(3)}`,
    `fio ${row.fioPerSecond}/s (${gib.toFixed(2)} GiB/s),`,
    `port ${row.ratio} [${row.ratioLow}..${row.ratioHigh}],`,
    `ring ${row.ringRatio} [${row.ringRatioLow}..], huge pages ${row.hugeRatio} [${row.hugeRatioLow}..]`,
  ].join(' ')
}

/** A host-reader and a writeback lane as the Manager starts them, over the ordinary pool. */
async function openLanes(native: ReturnType<typeof loadNative>, pool: number, target: Target) {
  const wiring = new Wiring()
  wiring.actor('manager', { series: [], histograms: [] })
  wiring.actor('host-reader', HOST_READER_LAYOUT)
  wiring.actor('writeback', WRITEBACK_LAYOUT)
  wiring.connectPair('manager', 'host-reader')
  wiring.connectPair('manager', 'writeback')
  const seat = new BenchSeat(native, wiring, 'manager')
  const common = { pool, depth: IO_DEPTH, io: 'uring', register: true } as const
  const readerParams: HostReaderParams = { ...common, clients: ['manager'] }
  const writerParams: WritebackParams = { ...common, client: 'manager', windowBytes: POOL_BYTES, joinBytes: 0 }
  const reads = await seat.lane('host-reader', HOST_READER_ENTRY, readerParams, reader)
  const writes = await seat.lane('writeback', WRITEBACK_ENTRY, writerParams, writeback)
  const readCounts = new CounterReader(wiring.seat('host-reader').counters, HOST_READER_LAYOUT)
  const writeCounts = new CounterReader(wiring.seat('writeback').counters, WRITEBACK_LAYOUT)
  return {
    run: (load: Load, ms: number) =>
      load.rw === 'read' ? readThrough(seat, reads, load, target, ms) : writeThrough(seat, writes, load, target, ms),
    route: () => ({
      laneReads: readCounts.series(HOST_READER_COUNT.readOperations),
      laneReadFailures: readCounts.series(HOST_READER_COUNT.readFailures),
      laneWrites: writeCounts.series(WRITEBACK_COUNT.writeOperations),
    }),
    close: () => seat.close(),
  }
}

type Reads = LaneTalk<reader.HostReaderRequest, reader.HostReaderReply>
type Writes = LaneTalk<writeback.WritebackRequest, writeback.WritebackReply>

/** Random reads at one depth: what completed in one turn is asked for again as one batch. */
function readThrough(seat: BenchSeat, talk: Reads, { bytes, depth }: Load, target: Target, ms: number): number {
  const offsets = new RandomOffsets(bytes, target.fileBytes)
  const doubles = new Float64Array(depth * READ.doubles)
  let batch = 0
  const ask = (indices: readonly number[]) => {
    for (const [place, index] of indices.entries()) {
      doubles.set(
        [index, target.file, offsets.next(), index * bytes, bytes, bytes, bytes, NO_CRC],
        place * READ.doubles,
      )
    }
    const list = { doubles, offset: 0, length: indices.length * READ.doubles }
    talk.requests.send({ kind: 'read-batch', batch: ++batch, list })
  }
  return keepBusy(depth, ms, ask, (ended) => {
    seat.await(
      talk,
      (reply) => {
        if (reply.kind !== 'read-done' || reply.status !== 0) throw new Error(`a read ended: ${JSON.stringify(reply)}`)
        ended.push(reply.index)
      },
      () => ended.length > 0,
    )
  })
}

/** Random writes at one depth, one job each. */
function writeThrough(seat: BenchSeat, talk: Writes, { bytes, depth }: Load, target: Target, ms: number): number {
  const offsets = new RandomOffsets(bytes, target.fileBytes)
  const doubles = new Float64Array(WRITE.doubles)
  const list = { doubles, offset: 0, length: WRITE.doubles }
  const ask = (jobs: readonly number[]) => {
    for (const job of jobs) {
      doubles[WRITE.poolOffsetBytes] = job * bytes
      doubles[WRITE.bytes] = bytes
      talk.requests.send({ kind: 'write', job, file: target.file, fileOffsetBytes: offsets.next(), list })
    }
  }
  return keepBusy(depth, ms, ask, (ended) => {
    seat.await(
      talk,
      (reply) => {
        if (reply.kind !== 'write-done' || reply.status !== 0)
          throw new Error(`a write ended: ${JSON.stringify(reply)}`)
        ended.push(reply.job)
      },
      () => ended.length > 0,
    )
  })
}
