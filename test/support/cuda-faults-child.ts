import { strictEqual as is, match, ok, deepStrictEqual as same, throws } from 'node:assert'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadNative } from '../../src/binding/load.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import { firstDifference } from './cuda-claims.js'
import { codeScenarios } from './cuda-code-faults.js'
import { CudaLane } from './cuda-lane.js'
import { cudaFaults, prepareCudaFaults } from './shims.js'

/**
 * One fault of a CUDA driver, in a process of its own, because a lost device is lost to its process. Usage:
 * cuda-faults-child.js SCENARIO, with the shims in the environment. Ends with 0 when everything held.
 */

const EIO = -5
const ENOMEM = -12
const ENODEV = -19
const EOPNOTSUPP = -95
const BYTES = 256 * 1024
const PAGE = 4096

prepareCudaFaults()
const native = loadNative()
const uuid = (): string => native.cudaProbe().devices[0]?.uuid ?? ''

class Bed {
  readonly lane: CudaLane
  readonly mapping: number
  readonly list: number[]

  constructor(options: StreamOptions = {}) {
    this.lane = new CudaLane(native, BYTES, options)
    this.mapping = native.allocateDeviceMemory(uuid(), 2 * BYTES).mapping
    const template = native.defineTemplate(
      Float64Array.of(this.mapping, 0, 2 * PAGE, BYTES / PAGE, 0, PAGE, PAGE),
      Float64Array.of(0, 1),
    )
    this.list = Array.from({ length: BYTES / PAGE }, (_, page) => [template, 0, page, page * PAGE, 0, 1, 0]).flat()
  }

  /** Bytes that went to the device and back are the same. */
  roundTrip(): void {
    const content = Uint8Array.from({ length: BYTES }, (_, i) => (i * 7 + (i >> 9)) & 255)
    this.lane.poolBytes.set(content)
    is(this.lane.copy(1, 0, this.list), 0)
    same(this.lane.reap(1), [{ tag: 1, result: 0, nanoseconds: 0 }])
    this.lane.poolBytes.fill(0)
    is(this.lane.copy(2, 1, this.list), 0)
    same(this.lane.reap(1), [{ tag: 2, result: 0, nanoseconds: 0 }])
    is(firstDifference(this.lane.poolBytes.subarray(0, BYTES), content), -1)
  }

  results(count: number): [number, number][] {
    return this.lane.reap(count).map(({ tag, result }) => [tag, result])
  }
}

const unavailable = (reason: RegExp): void => {
  const probe = native.cudaProbe()
  is(probe.available, false)
  match(probe.reason, reason)
  same(probe.devices, [])
  throws(() => new CudaLane(native, BYTES), { code: 'ENODEV', message: reason })
  throws(() => native.allocateDeviceMemory('GPU-any', PAGE), { code: 'ENODEV', message: reason })
}

/** The device is lost: nothing is accepted, everything says why, and releasing what was held harms nothing. */
function lost(bed: Bed, name: RegExp): void {
  is(bed.lane.copy(9, 0, bed.list), ENODEV)
  is(bed.lane.checksum(9, [0, PAGE, PAGE, PAGE]), ENODEV)
  match(native.cudaProbe().devices[0]?.failure ?? '', name)
  throws(() => bed.lane.port.openStream('cuda:0'), { code: 'ENODEV', message: name })
  throws(() => native.allocateDeviceMemory(uuid(), PAGE), { code: 'ENODEV' })
  throws(() => native.readMapping(bed.mapping, 0, new Uint8Array(4)), { code: 'ENODEV' })
  is(bed.lane.port.drain(0), 0)
  native.releaseMapping(bed.mapping)
  bed.lane.close()
}

const SCENARIOS: Readonly<Record<string, () => void>> = {
  'no-device': () => unavailable(/cuDeviceGetCount answered .*\(100\)/),
  'old-driver': () => unavailable(/has no cuInit of version 2000/),
  'no-library': () => unavailable(/cannot open shared object file/),
  'relative-library': () => unavailable(/ORBITKV_LIBCUDA is no absolute path/),

  'no-compiler': () => {
    const bed = new Bed()
    const report = bed.lane.port.streamReport(bed.lane.stream)
    is(report.kernels, false)
    match(report.kernelsReason, /Cannot compile kernel orbitkv_move .*told to fail/)
    bed.roundTrip()
    is(bed.lane.port.streamReport(bed.lane.stream).kernelJobs, 0)
    is(bed.lane.checksumMapped(3, [bed.mapping, 0, PAGE, PAGE, PAGE]), EOPNOTSUPP)
    is(bed.lane.move(4, [bed.mapping, 0, bed.mapping, PAGE, 64]), 0)
    same(bed.results(1), [[4, 0]])
    throws(() => bed.lane.port.openStream('cuda:0', { transfer: 'kernel' }), { code: 'ENODEV' })
    bed.lane.close()
  },
  'no-image': () => {
    const bed = new Bed()
    const report = bed.lane.port.streamReport(bed.lane.stream)
    is(report.kernels, false)
    match(report.kernelsReason, /Cannot take the code of kernel orbitkv_move .*result 11/)
    same(readdirSync(process.env['ORBITKV_KERNEL_CACHE'] ?? ''), [], 'and keeps nothing')
    bed.roundTrip()
    bed.lane.close()
  },
  'no-compiler-version': () => {
    const { compiler } = native.cudaProbe()
    is(compiler.available, false)
    match(compiler.reason, /does not say its version/)
  },
  'no-uuid': () => {
    const [device] = native.cudaProbe().devices
    match(device?.failure ?? '', /\(3\)/)
    throws(() => new CudaLane(native, BYTES), { code: 'ENODEV', message: /is lost to this process since/ })
  },
  'later-device': () => {
    const bed = new Bed()
    is(bed.lane.port.streamReport(bed.lane.stream).kernels, true)
    bed.roundTrip()
    bed.lane.close()
  },
  'no-memops': () => {
    const bed = new Bed()
    bed.roundTrip()
    bed.lane.close()
  },
  'no-batch': () => {
    const bed = new Bed({ transfer: 'direct' })
    bed.roundTrip()
    bed.lane.close()
  },

  'refused-launch': () => {
    const bed = new Bed()
    cudaFaults('launch=701')
    is(bed.lane.copy(1, 0, bed.list), 0)
    is(bed.lane.copy(2, 0, bed.list), 0)
    same(bed.results(2), [
      [1, EIO],
      [2, EIO],
    ])
    cudaFaults('')
    bed.roundTrip()
    is(native.cudaProbe().devices[0]?.failure, null)
    bed.lane.close()
  },
  'refused-copy': () => {
    const bed = new Bed({ transfer: 'direct' })
    cudaFaults('copy=2')
    is(bed.lane.copy(1, 0, bed.list), 0)
    same(bed.results(1), [[1, ENOMEM]])
    cudaFaults('no-batch,copy=1')
    is(bed.lane.copy(2, 1, bed.list), 0)
    same(bed.results(1), [[2, EIO]])
    cudaFaults('')
    bed.roundTrip()
    bed.lane.close()
  },
  // What does not come beside the stream is read where it is, whatever was fed there before.
  'refused-feed': () => {
    const bed = new Bed({ transfer: 'kernel', gather: 'warps', descriptors: 'fed' })
    const beside = native.defineTemplate(
      Float64Array.of(bed.mapping, PAGE, 2 * PAGE, BYTES / PAGE, 0, PAGE, PAGE),
      Float64Array.of(0, 1),
    )
    const list = bed.list.map((value, i) => (i % 7 === 0 ? beside : value))
    for (const refused of ['', 'copy=1', '']) {
      bed.roundTrip()
      const content = bed.lane.poolBytes.slice(0, BYTES)
      for (let page = 0; page < BYTES / PAGE; page++) {
        const at = 2 * PAGE * page
        cudaFaults(refused)
        is(bed.lane.move(1, [bed.mapping, at + PAGE, bed.mapping, at, PAGE]), 0)
        cudaFaults('')
      }
      ok(bed.results(BYTES / PAGE).every(([, result]) => result === 0))
      bed.lane.poolBytes.fill(0)
      is(bed.lane.copy(2, 1, list), 0)
      same(bed.results(1), [[2, 0]])
      is(firstDifference(bed.lane.poolBytes.subarray(0, BYTES), content), -1, refused)
      bed.lane.poolBytes.fill(255)
      is(bed.lane.copy(3, 0, list), 0)
      same(bed.results(1), [[3, 0]])
    }
    bed.lane.close()
  },
  // What the device was given goes on: pages and the pool stay the job's until it has ended.
  'refused-fence': () => {
    const bed = new Bed()
    for (const refused of ['write=1,event=2', 'event=2', 'record=1', 'write=1', 'write=1,record=1']) {
      cudaFaults(`${refused},hang`)
      is(bed.lane.copy(1, 0, bed.list), 0, refused)
      is(bed.lane.copy(2, 1, bed.list), 0)
      is(bed.lane.checksumMapped(3, [bed.mapping, 0, PAGE, PAGE, PAGE]), 0)
      is(bed.lane.port.drain(20), 3, `${refused}: nothing ends before the device has done`)
      cudaFaults(refused)
      same(
        bed.results(3),
        [1, 2, 3].map((tag) => [tag, 0]),
        refused,
      )
      cudaFaults('')
      bed.roundTrip()
    }
    is(native.cudaProbe().devices[0]?.failure, null)
    bed.lane.close()
  },
  'refused-memory': () => {
    cudaFaults('register=2')
    throws(() => new CudaLane(native, BYTES), { code: 'ENOMEM', message: /Cannot register a pool/ })
    cudaFaults('alloc=2')
    throws(() => native.allocateDeviceMemory(uuid(), PAGE), { code: 'ENOMEM' })
    cudaFaults('')
    new Bed().roundTrip()
  },
  'virtual-memory': () => {
    const bed = new Bed()
    cudaFaults('vmm')
    const named = /PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False/
    throws(() => native.exportDeviceMemory(bed.mapping), { code: 'EOPNOTSUPP', message: named })
    throws(() => native.importDeviceMemory(uuid(), new Uint8Array(64), 0, PAGE), { message: named })
    bed.lane.close()
  },

  'lost-at-launch': () => {
    const bed = new Bed()
    cudaFaults('launch=719')
    is(bed.lane.copy(1, 0, bed.list), 0)
    same(bed.results(1), [[1, ENODEV]])
    lost(bed, /CUDA_ERROR_LAUNCH_FAILED \(719\)/)
  },
  'lost-in-flight': () => {
    const bed = new Bed()
    const other = new Bed({ transfer: 'direct' })
    cudaFaults('hang')
    is(bed.lane.copy(1, 0, bed.list), 0)
    is(bed.lane.copy(2, 1, bed.list), 0)
    is(bed.lane.checksum(3, [0, PAGE, PAGE, PAGE]), 0)
    is(bed.lane.checksumMapped(4, [bed.mapping, 0, PAGE, PAGE, PAGE]), 0)
    cudaFaults('sticky=700')
    same(
      bed.results(4),
      [1, 2, 3, 4].map((tag) => [tag, ENODEV]),
    )
    is(other.lane.copy(5, 0, other.list), ENODEV)
    lost(bed, /CUDA_ERROR_ILLEGAL_ADDRESS \(700\)/)
    other.lane.close()
  },
  'lost-asleep': () => {
    const bed = new Bed()
    cudaFaults('sticky=700')
    is(bed.lane.copy(1, 0, bed.list), 0)
    same(
      bed.lane.reap(1, 'park').map(({ result }) => result),
      [ENODEV],
    )
    lost(bed, /\(700\)/)
  },
  'lost-elsewhere': () => {
    const bed = new Bed()
    const other = new Bed()
    cudaFaults('hang')
    is(other.lane.copy(7, 0, other.list), 0)
    cudaFaults('launch=719')
    is(bed.lane.copy(1, 0, bed.list), 0)
    same(bed.results(1), [[1, ENODEV]])
    same(other.results(1), [[7, ENODEV]], 'a stream learns of it from another')
    cudaFaults('')
    lost(bed, /\(719\)/)
    other.lane.close()
  },

  'never-ending': () => {
    const bed = new Bed()
    cudaFaults('hang')
    is(bed.lane.copy(1, 0, bed.list), 0)
    native.releaseMapping(bed.mapping)
    is(bed.lane.port.drain(20), 1)
    is(native.mappingsAlive(), 1, 'what a device may touch stays')
    cudaFaults('')
    same(bed.results(1), [[1, 0]])
    is(native.mappingsAlive(), 0)
    bed.lane.close()
  },
  quarantine: () => {
    const bed = new Bed()
    cudaFaults('hang')
    is(bed.lane.copy(1, 0, bed.list), 0)
    native.releaseMapping(bed.mapping)
    bed.lane.close()
    is(native.mappingsAlive(), 1, 'what a device may touch stays, also after its port')
    cudaFaults('')
  },

  cache: () => {
    const folder = process.env['ORBITKV_KERNEL_CACHE'] ?? ''
    const kernels = (): string[] => native.compileKernels(90).map(({ name, cached }) => `${name} ${cached}`)
    const shapes = [32, 64, 128, 256].flatMap((headDim) =>
      [3, 4].map((bits) => `orbitkv_turboquant_${headDim}_${bits}`),
    )
    const all = (cached: boolean): string[] =>
      ['orbitkv_move', 'orbitkv_crc32', 'orbitkv_fp8', ...shapes].map((name) => `${name} ${cached}`)
    same(kernels(), all(false))
    same(kernels(), all(true))
    is(native.compileKernels(80).filter(({ cached }) => cached).length, 0, 'another architecture is another kernel')
    const files = readdirSync(folder)
    is(files.length, 2 * all(true).length)
    for (const file of files) {
      is(statSync(join(folder, file)).mode & 0o777, 0o600)
      // Each file is broken in another way; none may reach a device.
      writeFileSync(join(folder, file), file === files[0] ? '' : 'ORBKERN1, and then something else')
    }
    same(kernels(), all(false))
    same(kernels(), all(true))
  },
  'shared-cache': () => {
    native.compileKernels(90)
    is(native.compileKernels(90).filter(({ cached }) => cached).length, 0, 'what others can write is not used')
    same(readdirSync(process.env['ORBITKV_KERNEL_CACHE'] ?? ''), [])
  },
  'stale-cache': () => {
    new Bed().lane.close()
    // A stream loads what moves and sums; what codes is loaded when there is something to code.
    const cached = native.compileKernels(90).filter((kernel) => kernel.cached)
    same(
      cached.map(({ name }) => name),
      ['orbitkv_move', 'orbitkv_crc32'],
    )
  },
}

const scenario = { ...SCENARIOS, ...codeScenarios(native) }[process.argv[2] ?? '']
ok(scenario !== undefined, `there is no scenario ${process.argv[2]}`)
scenario()
