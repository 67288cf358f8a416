import { crc32 } from 'node:zlib'
import type { ExecutionContext } from 'ava'
import type { StreamOptions, Transfer } from '../../src/binding/streams.js'
import type { Native } from '../../src/binding/surface.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { CudaLane } from './cuda-lane.js'
import type { Body } from './needs.js'

/**
 * What a CUDA device must do, whichever driver stands behind it: the real one (test/device) or its twin (test/native).
 * Every claim compares whole images, so that a byte beside a run counts as much as one in it.
 */

const H2D = 0
const D2H = 1
const KIB = 1024
const GUARD = 0x5a
const POISON = 0xa5

/** Sizes around every width that a kernel has, and around a tile. */
const SIZES = [
  1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 127, 511, 512, 513, 1023, 4095, 4096, 4097, 8191, 8192, 12_289, 65_537,
]
const BIG = (1 << 20) + 13

/** A small generator: the same shapes on every machine. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

interface Run {
  readonly at: number
  readonly other: number
  readonly bytes: number
}

/** Runs of every size at every alignment, in memories `at` and `other`, with gaps between them on both sides. */
function scattered(seed: number, sizes: readonly number[]): { readonly runs: Run[]; readonly end: number } {
  const below = numbers(seed)
  let at = 1 + below(40)
  let other = 1 + below(40)
  const runs = sizes.map((bytes) => {
    // Every fourth run is apart by a multiple of 16, as real ones are.
    if (below(4) === 0) other += (at - other) & 15
    const run = { at, other, bytes }
    at += bytes + 1 + below(50)
    other += bytes + 1 + below(50)
    return run
  })
  return { runs, end: Math.max(at, other) + 64 }
}

function patterned(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i++) bytes[i] = (i * 31 + (i >> 8) * 7 + seed) & 255
  return bytes
}

/** Index of the first byte that differs, or -1: a diff of megabytes helps nobody. */
export function firstDifference(mine: Uint8Array, expected: Uint8Array): number {
  if (Buffer.compare(mine, expected) === 0) return -1
  return mine.findIndex((byte, i) => byte !== expected[i])
}

/** Every way to move inside a device. */
const GATHERS = [
  {},
  { gather: 'warps' },
  { descriptors: 'fed' },
  { gather: 'warps', descriptors: 'fed' },
] as const satisfies readonly StreamOptions[]
const GATHER_NAME = ({ gather = 'rounds', descriptors = 'mapped' }: StreamOptions): string =>
  `by ${gather} over ${descriptors} descriptors`

interface Memory {
  readonly mapping: number
  read(): Uint8Array
}

export function declareCudaClaims(declare: (title: string, body: Body) => void, native: Native): void {
  const uuid = (): string => native.cudaProbe().devices[0]?.uuid ?? ''

  function memory(t: ExecutionContext, content: Uint8Array): Memory {
    const { mapping } = native.allocateDeviceMemory(uuid(), content.length)
    t.teardown(() => native.releaseMapping(mapping))
    native.writeMapping(mapping, 0, content)
    return {
      mapping,
      read() {
        const bytes = new Uint8Array(content.length)
        native.readMapping(mapping, 0, bytes)
        return bytes
      },
    }
  }

  /** One template with a granule of one item for each run; the COPY of run i is (template, i, 0, pool offset, 0, 1, 0). */
  function template(mapping: number, runs: readonly Run[], padding = 0): number {
    const items = runs.flatMap(({ at, bytes }) => [mapping, at, 0, 1, 0, bytes, bytes + padding])
    return native.defineTemplate(Float64Array.from(items), Float64Array.from(runs.map((_, i) => i).concat(runs.length)))
  }

  const copies = (number: number, runs: readonly Run[]): number[] =>
    runs.flatMap(({ other }, i) => [number, i, 0, other, 0, 1, 0])

  for (const transfer of ['direct', 'kernel', 'auto'] as const satisfies readonly Transfer[]) {
    declare(`CUDA: copies by ${transfer} move exact bytes of any size and alignment, and no neighbour`, (t) => {
      const { runs, end } = scattered(7, [...SIZES, BIG, ...SIZES])
      const lane = new CudaLane(native, end, { transfer })
      t.teardown(() => lane.close())
      const device = memory(t, new Uint8Array(end).fill(GUARD))
      const number = template(device.mapping, runs)
      const source = patterned(end, 3)

      lane.poolBytes.fill(POISON)
      lane.poolBytes.set(source)
      t.is(lane.copy(1, H2D, copies(number, runs)), 0)
      t.deepEqual(lane.reap(1), [{ tag: 1, result: 0, nanoseconds: 0 }])
      const onDevice = new Uint8Array(end).fill(GUARD)
      for (const { at, other, bytes } of runs) onDevice.set(source.subarray(other, other + bytes), at)
      t.is(firstDifference(device.read(), onDevice), -1)

      lane.poolBytes.fill(POISON)
      t.is(lane.copy(2, D2H, copies(number, runs)), 0)
      t.deepEqual(lane.reap(1), [{ tag: 2, result: 0, nanoseconds: 0 }])
      const inPool = new Uint8Array(lane.poolBytes.length).fill(POISON)
      for (const { other, bytes } of runs) inPool.set(source.subarray(other, other + bytes), other)
      t.is(firstDifference(lane.poolBytes, inPool), -1)

      const { directJobs, kernelJobs } = lane.port.streamReport(lane.stream)
      t.deepEqual([directJobs, kernelJobs], transfer === 'direct' ? [2, 0] : [0, 2])
    })
  }

  declare('CUDA: padding of a segment is zeroed in the pool and nowhere else', (t) => {
    const padding = 13
    const { runs, end } = scattered(
      11,
      SIZES.flatMap((bytes) => [bytes, bytes]),
    )
    const spread = runs.map((run, i) => ({ ...run, other: run.other + i * padding }))
    const lane = new CudaLane(native, end + runs.length * padding)
    t.teardown(() => lane.close())
    const content = patterned(end, 5)
    const device = memory(t, content)
    lane.poolBytes.fill(POISON)
    t.is(lane.copy(1, D2H, copies(template(device.mapping, spread, padding), spread)), 0)
    lane.reap(1)
    const expected = new Uint8Array(lane.poolBytes.length).fill(POISON)
    for (const { at, other, bytes } of spread) {
      expected.set(content.subarray(at, at + bytes), other)
      expected.fill(0, other + bytes, other + bytes + padding)
    }
    t.is(firstDifference(lane.poolBytes, expected), -1)
  })

  for (const options of GATHERS) {
    declare(
      `CUDA: gather and scatter ${GATHER_NAME(options)} move exact bytes inside the device, whatever the alignment`,
      (t) => {
        const { runs, end } = scattered(13, [...SIZES, BIG, ...SIZES])
        const lane = new CudaLane(native, KIB, { transfer: 'kernel', ...options })
        t.teardown(() => lane.close())
        const content = patterned(end, 9)
        const from = memory(t, content)
        const to = memory(t, new Uint8Array(end).fill(GUARD))
        t.is(
          lane.move(
            1,
            runs.flatMap(({ at, other, bytes }) => [to.mapping, at, from.mapping, other, bytes]),
          ),
          0,
        )
        t.deepEqual(lane.reap(1), [{ tag: 1, result: 0, nanoseconds: 0 }])
        const expected = new Uint8Array(end).fill(GUARD)
        for (const { at, other, bytes } of runs) expected.set(content.subarray(other, other + bytes), at)
        t.is(firstDifference(to.read(), expected), -1)
        t.is(firstDifference(from.read(), content), -1)
      },
    )
  }

  declare('CUDA: descriptors that are fed are those of their own job, however many jobs pass through the ring', (t) => {
    const count = 12_000
    const lane = new CudaLane(native, KIB, { transfer: 'kernel', gather: 'warps', descriptors: 'fed' })
    t.teardown(() => lane.close())
    const content = patterned(2 * count * 16, 19)
    const from = memory(t, content)
    const to = memory(t, new Uint8Array(content.length).fill(GUARD))
    const expected = new Uint8Array(content.length).fill(GUARD)
    // Together five times what the ring holds; each job moves other runs than the one before it.
    for (let job = 0; job < 80; job++) {
      const list: number[] = []
      for (let i = job % 7; i < count; i += 1 + (job % 3)) {
        const at = 2 * ((i * 7919 + job) % count) * 16
        list.push(to.mapping, at, from.mapping, at, 16)
        expected.set(content.subarray(at, at + 16), at)
      }
      t.is(lane.move(job, list), 0)
    }
    t.true(lane.reap(80).every(({ result }) => result === 0))
    t.is(firstDifference(to.read(), expected), -1)
  })

  declare('CUDA: checksums of device memory are those of zlib, of any size, alignment and stride', (t) => {
    const lane = new CudaLane(native, KIB)
    t.teardown(() => lane.close())
    const content = patterned(2 * BIG, 17)
    const device = memory(t, content)
    const plain = [...SIZES, 4096 * 3, BIG].flatMap((bytes) => [
      { at: 0, bytes, segment: bytes, stride: bytes },
      { at: 7, bytes, segment: bytes, stride: bytes },
    ])
    const strided = [
      { at: 32, bytes: 512 * 9, segment: 500, stride: 512 },
      { at: 5, bytes: 8192 * 4, segment: 4097, stride: 8192 },
      { at: 0, bytes: 10 * 3, segment: 1, stride: 3 },
    ]
    const sums = [...plain, ...strided]
    const list = sums.flatMap(({ at, bytes, segment, stride }) => [device.mapping, at, bytes, segment, stride])
    t.is(lane.checksumMapped(4, list, 3), 0)
    t.deepEqual(lane.reap(1), [{ tag: 4, result: 0, nanoseconds: 0 }])
    const expected = sums.map(({ at, bytes, segment, stride }) => {
      let crc = 0
      for (let first = at; first < at + bytes; first += stride)
        crc = crc32(content.subarray(first, first + segment), crc)
      return crc
    })
    t.deepEqual([...lane.results.subarray(3, 3 + sums.length)], expected)
    t.is(lane.results[2], 0)
    t.is(lane.results[3 + sums.length], 0)
  })

  declare('CUDA: a checksum of the pool sees the copies before it, and jobs end in their order', (t) => {
    const bytes = 3 << 20
    const lane = new CudaLane(native, bytes)
    t.teardown(() => lane.close())
    const content = patterned(bytes, 21)
    const device = memory(t, content)
    const runs = [{ at: 0, other: 0, bytes }]
    const number = template(device.mapping, runs)
    lane.poolBytes.fill(POISON)
    t.is(lane.copy(1, D2H, copies(number, runs)), 0)
    t.is(lane.checksum(2, [0, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 2 << 20, 1 << 20, 1 << 20]), 0)
    t.is(lane.copy(3, H2D, copies(number, runs)), 0)
    t.deepEqual(
      lane.reap(3).map(({ tag }) => tag),
      [1, 2, 3],
    )
    const joined = crc32(content.subarray(1 << 20))
    t.deepEqual([...lane.results.subarray(0, 2)], [crc32(content.subarray(0, 1 << 20)), joined])
  })

  declare('CUDA: a lane that sleeps is woken by the end of each job', (t) => {
    const bytes = 8 << 20
    const lane = new CudaLane(native, bytes)
    t.teardown(() => lane.close())
    const device = memory(t, patterned(bytes, 1))
    const runs = Array.from({ length: 8 }, (_, i) => ({ at: i << 20, other: i << 20, bytes: 1 << 20 }))
    const number = template(device.mapping, runs)
    for (let round = 0; round < 20; round++) {
      runs.forEach((run, i) => void t.is(lane.copy(i, D2H, [number, i, 0, run.other, 0, 1, 0]), 0))
      t.deepEqual(
        lane.reap(runs.length, 'park').map(({ tag }) => tag),
        runs.map((_, i) => i),
      )
    }
  })

  declare('CUDA: more descriptors than a stream has room for go in turns', (t) => {
    const runBytes = 16
    const count = 400_000
    const lane = new CudaLane(native, count * runBytes, { transfer: 'kernel' })
    t.teardown(() => lane.close())
    const content = patterned(2 * count * runBytes, 2)
    const device = memory(t, content)
    const items = [device.mapping, 0, 2 * runBytes, count, 0, runBytes, runBytes]
    const number = native.defineTemplate(Float64Array.from(items), Float64Array.of(0, 1))
    const list = new Float64Array(COPY.doubles * count)
    for (let i = 0; i < count; i++) list.set([number, 0, i, i * runBytes, 0, 1, 0], i * COPY.doubles)
    t.is(lane.copy(1, D2H, list), 0)
    t.is(lane.copy(2, D2H, list), 0)
    t.deepEqual(
      lane.reap(2).map(({ tag, result }) => [tag, result]),
      [
        [1, 0],
        [2, 0],
      ],
    )
    const expected = new Uint8Array(lane.poolBytes.length)
    for (let i = 0; i < count; i++) {
      expected.set(content.subarray(2 * i * runBytes, (2 * i + 1) * runBytes), i * runBytes)
    }
    t.is(firstDifference(lane.poolBytes, expected), -1)
  })

  declare('CUDA: a timed stream says how long the device took', (t) => {
    const bytes = 4 << 20
    const lane = new CudaLane(native, bytes, { timed: true })
    t.teardown(() => lane.close())
    const device = memory(t, new Uint8Array(bytes))
    const runs = [{ at: 0, other: 0, bytes }]
    t.is(lane.copy(1, H2D, copies(template(device.mapping, runs), runs)), 0)
    const [completed] = lane.reap(1)
    t.true((completed?.nanoseconds ?? 0) > 0)
  })

  declare('CUDA: nothing outside a mapping, and no memory of another device, is touched', (t) => {
    const lane = new CudaLane(native, 4096)
    t.teardown(() => lane.close())
    const device = memory(t, new Uint8Array(4096).fill(GUARD))
    const runs = [{ at: 0, other: 0, bytes: 4096 }]
    const number = template(device.mapping, runs)
    const { length } = lane.poolBytes
    t.is(lane.copy(1, H2D, [number, 0, 1, 0, 0, 1, 0]), -22, 'no such page')
    t.is(lane.copy(1, H2D, [number, 0, 0, length - 4095, 0, 1, 0]), -22, 'behind the pool')
    t.is(lane.move(1, [device.mapping, 0, device.mapping, 1, 4096]), -22, 'behind the mapping')
    t.is(lane.move(1, [device.mapping, 0, device.mapping, 16, 32]), -22, 'onto itself')
    t.is(lane.checksumMapped(1, [device.mapping, 1, 4096, 4096, 4096]), -22)
    const fd = native.createMemory(4096)
    const host = native.importMemory(fd).mapping
    native.closeFd(fd)
    t.teardown(() => native.releaseMapping(host))
    t.is(lane.copy(1, H2D, copies(template(host, runs), runs)), -18, 'pages of the host')
    t.is(lane.move(1, [device.mapping, 0, host, 0, 64]), -18)
    const hostStream = lane.port.openStream('host')
    t.is(lane.port.copy(hostStream, 1, H2D, Float64Array.from(copies(number, runs)), 0, 1), -18)
    t.throws(() => template(device.mapping, [{ at: 1, other: 0, bytes: 4096 }]), { code: 'EINVAL' })
    t.throws(
      () =>
        native.defineTemplate(
          Float64Array.of(device.mapping, 0, 0, 1, 0, 64, 64, host, 0, 0, 1, 64, 64, 64),
          Float64Array.of(0, 2),
        ),
      { code: 'EINVAL', message: /another device/ },
    )
    t.throws(() => native.mappingView(device.mapping, 0, 16), { code: 'EOPNOTSUPP' })
    t.throws(() => native.readMapping(device.mapping, 4090, new Uint8Array(16)), { code: 'EINVAL' })
    t.is(lane.port.inFlight(), 0)
    t.is(firstDifference(device.read(), new Uint8Array(4096).fill(GUARD)), -1)
  })

  declare('CUDA: memory that was released is kept for the copies that name it', (t) => {
    const before = native.mappingsAlive()
    const bytes = 16 << 20
    const lane = new CudaLane(native, bytes)
    const content = patterned(bytes, 33)
    const { mapping } = native.allocateDeviceMemory(uuid(), bytes)
    native.writeMapping(mapping, 0, content)
    const runs = Array.from({ length: 4096 }, (_, i) => ({ at: i * 4096, other: i * 4096, bytes: 4096 }))
    const list = copies(template(mapping, runs), runs)
    t.is(lane.copy(1, D2H, list), 0)
    native.releaseMapping(mapping)
    t.is(lane.copy(2, D2H, list), -22, 'its templates are gone')
    lane.reap(1)
    t.is(native.mappingsAlive(), before)
    t.is(firstDifference(lane.poolBytes.subarray(0, bytes), content), -1)
    lane.close()
  })

  declare('CUDA: an engine in another process is read and written through its handle', async (t) => {
    const { exportingChild } = await import('./cuda-exporter.js')
    const child = await exportingChild(t, 1 << 20)
    const before = native.mappingsAlive()
    const offset = 4096
    const bytes = 65_536
    const opened = native.importDeviceMemory(child.uuid, child.handle, child.offsetBytes + offset, bytes)
    const again = native.importDeviceMemory(child.uuid, child.handle, child.offsetBytes, 64)
    t.deepEqual([opened.device, opened.bytes, again.bytes], ['cuda:0', bytes, 64])
    const canary = new Uint8Array(64)
    native.readMapping(opened.mapping, 0, canary)
    t.is(firstDifference(canary, child.content.subarray(offset, offset + 64)), -1)
    native.releaseMapping(again.mapping)
    native.writeMapping(opened.mapping, 100, Uint8Array.of(1, 2, 3, 4, 5))
    t.deepEqual(await child.read(offset + 99, 7), [
      child.content[offset + 99],
      1,
      2,
      3,
      4,
      5,
      child.content[offset + 105],
    ])
    native.releaseMapping(opened.mapping)
    t.is(native.mappingsAlive(), before)
    t.throws(() => native.importDeviceMemory(child.uuid, child.handle, 2 ** 40, bytes), { code: 'EINVAL' })
    t.throws(() => native.importDeviceMemory('GPU-nobody', child.handle, 0, bytes), { code: 'ENODEV' })
    t.throws(() => native.importDeviceMemory(child.uuid, new Uint8Array(64), 0, bytes), { instanceOf: Error })
    const own = native.allocateDeviceMemory(child.uuid, 4096)
    const { handle, uuid: of } = native.exportDeviceMemory(own.mapping)
    t.throws(() => native.importDeviceMemory(of, handle, 0, 4096), { code: 'EXDEV' })
    native.releaseMapping(own.mapping)
  })

  declare('CUDA: pages of an engine that was killed stay what they are until they are released', async (t) => {
    const { exportingChild } = await import('./cuda-exporter.js')
    const bytes = 1 << 20
    const child = await exportingChild(t, bytes)
    const before = native.mappingsAlive()
    const { mapping } = native.importDeviceMemory(child.uuid, child.handle, child.offsetBytes, bytes)
    const runs = [{ at: 0, other: 0, bytes }]
    const list = copies(template(mapping, runs), runs)
    const lane = new CudaLane(native, bytes)
    t.is(lane.copy(1, D2H, list), 0)
    await child.kill()
    t.is(lane.copy(2, D2H, list), 0)
    native.releaseMapping(mapping)
    t.deepEqual(
      lane.reap(2).map(({ result }) => result),
      [0, 0],
    )
    t.is(firstDifference(lane.poolBytes.subarray(0, bytes), child.content), -1)
    t.is(native.mappingsAlive(), before)
    lane.close()
  })
}
