import { randomFillSync } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { JOIN_BYTES_MAX } from '../src/actors/writeback/params.js'
import { loadNative } from '../src/binding/load.js'
import { GIB, KIB, MIB } from '../src/shared/base/units.js'
import { IoLoop } from './support/io-loop.js'
import { Neighbours } from './support/neighbours.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { freshFolder } from './support/place.js'
import { estimate, median, ratios, rounded } from './support/statistics.js'
import { BlockLoad, type BlockShape, type Sample, WINDOW_BYTES, WritebackSeat } from './support/writeback-seat.js'

/**
 * Question: what does it bring to join the small granules of a block to few writes, as writeback does under a codec?
 * Control: a lane beside it that writes each granule by itself, with the same blocks from the same pool to the same file, in
 * turns; on a host that is otherwise idle, and with as many busy threads as cores. A block of one large granule is written
 * alike by both: that row says how much of a ratio is noise.
 * Does not show: codecs, publications, reads beside the writes, several devices.
 */

const SHAPES: readonly BlockShape[] = [
  { granules: 8, bytes: 34 * KIB, apart: true },
  { granules: 128, bytes: 8 * KIB, apart: true },
  { granules: 128, bytes: 8 * KIB, apart: false },
  { granules: 1, bytes: MIB, apart: false },
]

const POOL_BYTES = 64 * MIB

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const native = loadNative()
  const probe = native.probe()
  if (!probe.available) throw new Refusal(`io_uring is not available here (${probe.reason})`)
  const folder = freshFolder(options.dir)
  const fileBytes = options.quick ? GIB / 4 : GIB
  const path = join(folder.path, 'shard.dat')
  const shard = native.openShard(path, fileBytes, true)
  const { pool } = native.openPool(POOL_BYTES)
  const memory = native.poolView(pool, 0, POOL_BYTES)
  randomFillSync(memory)
  const whole = new IoLoop(native, pool)
  whole.fill({ file: shard.file, fileBytes }, MIB, () => {})
  whole.close()
  const lanes = { joined: await WritebackSeat.start(pool, JOIN_BYTES_MAX), alone: await WritebackSeat.start(pool, 0) }
  say(`${folder.filesystem}; window ${WINDOW_BYTES / MIB} MiB`)

  const ms = options.quick ? 150 : 400
  const rows = []
  for (const busy of [0, availableParallelism()]) {
    const neighbours = new Neighbours(busy)
    for (const shape of SHAPES) {
      const load = new BlockLoad(shape, shard.file, fileBytes)
      for (const lane of Object.values(lanes)) lane.proves(load, path, memory)
      const samples = { joined: [] as Sample[], alone: [] as Sample[] }
      for (let pair = 0; pair < options.pairs; pair++) {
        const sides = pair % 2 === 0 ? (['joined', 'alone'] as const) : (['alone', 'joined'] as const)
        for (const side of sides) samples[side].push(lanes[side].run(load, ms))
      }
      const row = rowOf(shape, busy, samples)
      rows.push(row)
      say(lineOf(row))
    }
    neighbours.stop()
  }
  for (const lane of Object.values(lanes)) await lane.close()
  native.closeShard(shard.file)
  folder.remove()
  return { rows, filesystem: folder.filesystem, device: shard.device, fileBytes, sampleMs: ms }
}

function rowOf(shape: BlockShape, busy: number, { joined, alone }: Record<'joined' | 'alone', readonly Sample[]>) {
  const of = (samples: readonly Sample[], key: keyof Sample) => samples.map((sample) => sample[key])
  const rate = ratios(of(joined, 'blocksPerSecond'), of(alone, 'blocksPerSecond'))
  const cpu = ratios(of(joined, 'cpuUsPerBlock'), of(alone, 'cpuUsPerBlock'))
  return {
    ...shape,
    busy,
    ratio: rounded(rate.median),
    ratioLow: rounded(rate.low),
    ratioHigh: rounded(rate.high),
    cpuRatio: rounded(cpu.median),
    cpuRatioLow: rounded(cpu.low),
    cpuRatioHigh: rounded(cpu.high),
    blocksPerSecond: rounded(estimate(of(joined, 'blocksPerSecond')).median),
    cpuUsPerBlock: rounded(estimate(of(joined, 'cpuUsPerBlock')).median),
    writesPerBlock: rounded(median(of(joined, 'writesPerBlock'))),
    writesPerBlockAlone: rounded(median(of(alone, 'writesPerBlock'))),
  }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  return [
    `${row.granules} x ${row.bytes / KIB} KiB ${row.apart ? 'apart' : 'adjoining'}, ${row.busy} busy:`,
    `${row.writesPerBlock} writes a block for ${row.writesPerBlockAlone},`,
    `blocks a second ${row.ratio} [${row.ratioLow}..${row.ratioHigh}] (${row.blocksPerSecond}/s),`,
    `processor ${row.cpuRatio} [${row.cpuRatioLow}..${row.cpuRatioHigh}] (${row.cpuUsPerBlock} us)`,
  ].join(' ')
}
