import { join } from 'node:path'
import { STAGING_SLOT_BYTES } from '../src/actors/ssd-worker/params.js'
import { loadNative } from '../src/binding/load.js'
import { GIB, KIB, MIB } from '../src/shared/base/units.js'
import { openCufile } from './support/cufile.js'
import { fioRun, fioVersion } from './support/fio.js'
import { IoLoop, type Load } from './support/io-loop.js'
import type { BenchOptions } from './support/options.js'
import { freshFolder } from './support/place.js'
import { StagingLoop } from './support/staging-loop.js'
import { estimate, ratios, rounded } from './support/statistics.js'

/**
 * Question (`ssd --route cufile`): do two registered slots on a device reach what the disk gives at that depth? Control:
 * fio with io_uring on the same file and sizes at depth 2. In compatibility mode, which the output names, the ratio says
 * what the library's detour costs on this machine and nothing about cuFile elsewhere.
 * Does not show: checksums, gather and scatter, the lane and its messages.
 */

const SHAPES = [
  { bytes: 64 * KIB, depth: 2 },
  { bytes: 256 * KIB, depth: 2 },
  { bytes: 4 * MIB, depth: 2 },
] as const
const POOL_BYTES = 16 * MIB

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const fio = fioVersion()
  const native = loadNative()
  const folder = freshFolder(options.dir)
  const fileBytes = options.quick ? GIB / 4 : 2 * GIB
  const path = join(folder.path, 'shard.dat')
  const shard = native.openShard(path, fileBytes, true)
  const target = { file: shard.file, fileBytes }
  const { pool } = native.openPool(POOL_BYTES)
  const writer = new IoLoop(native, pool)
  writer.fill(target, MIB, () => {})
  writer.close()
  const cufile = openCufile(native, shard.file)
  const { version, compatibilityMode } = cufile
  say(`${folder.filesystem}; ${fio}; cuFile ${version}${compatibilityMode ? ' in compatibility mode' : ''}`)
  const slots = new StagingLoop(native, pool, options.device, STAGING_SLOT_BYTES)
  const ms = options.quick ? 150 : 400
  const rows = []
  for (const rw of ['read', 'write'] as const) {
    for (const shape of SHAPES) {
      const load: Load = { ...shape, rw }
      const samples = { fio: [] as number[], staging: [] as number[] }
      slots.run(load, target, ms / 4)
      for (let pair = 0; pair < options.pairs; pair++) {
        const measures = [
          () => samples.fio.push(fioRun(path, fileBytes, load, ms)),
          () => samples.staging.push(slots.run(load, target, ms)),
        ]
        if (pair % 2 === 1) measures.reverse()
        for (const measure of measures) measure()
      }
      const ratio = ratios(samples.staging, samples.fio)
      const row = {
        ...load,
        ratio: rounded(ratio.median),
        ratioLow: rounded(ratio.low),
        ratioHigh: rounded(ratio.high),
        fioPerSecond: rounded(estimate(samples.fio).median),
        stagingPerSecond: rounded(estimate(samples.staging).median),
      }
      rows.push(row)
      const size = `${row.bytes / KIB} KiB`.padStart(8)
      say(`${rw.padEnd(5)} ${size} fio ${row.fioPerSecond}/s, staging ${row.ratio} [${row.ratioLow}..${row.ratioHigh}]`)
    }
  }
  slots.close()
  cufile.close()
  native.closePool(pool)
  native.closeShard(shard.file)
  folder.remove()
  const evidence = { cufile: { version, compatibilityMode } }
  return { rows, route: 'cufile', filesystem: folder.filesystem, fio, fileBytes, sampleMs: ms, evidence }
}
