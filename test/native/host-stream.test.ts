import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { COMPLETION } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { collect } from '../support/collect.js'
import { eventually } from '../support/manager-child.js'
import { ofThreads } from '../support/threads.js'
import { NativeLane } from './open-lane.js'

const native = loadNative()

const H2D = 0
const D2H = 1
const EINVAL = -22

const POISON = 0xa5
const GUARD = 0x5a

/** How one (rank, group) lies in engine memory, and the granules cut from it. */
interface Layout {
  readonly pages: number
  readonly pageStride: number
  readonly segmentBytes: number
  readonly paddedBytes: number
  /** Where the segments of page 0 start. */
  readonly bases: readonly number[]
  readonly segmentsPerGranule: number
}

const granuleCount = (layout: Layout): number => layout.bases.length / layout.segmentsPerGranule
const granuleBytes = (layout: Layout): number => layout.segmentsPerGranule * layout.paddedBytes

/** Engine memory of a layout with guard bytes around every segment, and its template. */
class Engine {
  readonly mapping: number
  readonly template: number
  readonly bytes: Uint8Array
  readonly layout: Layout

  constructor(t: ExecutionContext, layout: Layout) {
    this.layout = layout
    const end = Math.max(...layout.bases) + (layout.pages - 1) * layout.pageStride + layout.segmentBytes
    const fd = native.createMemory(end)
    this.mapping = native.importMemory(fd).mapping
    native.closeFd(fd)
    this.bytes = native.mappingView(this.mapping, 0, end)
    const items = layout.bases.flatMap((base, i) => [
      this.mapping,
      base,
      layout.pageStride,
      layout.pages,
      (i % layout.segmentsPerGranule) * layout.paddedBytes,
      layout.segmentBytes,
      layout.paddedBytes,
    ])
    const firsts = Array.from({ length: granuleCount(layout) + 1 }, (_, g) => g * layout.segmentsPerGranule)
    this.template = native.defineTemplate(Float64Array.from(items), Float64Array.from(firsts))
    t.teardown(() => native.releaseMapping(this.mapping))
  }

  segment(page: number, index: number): Uint8Array {
    const base = (this.layout.bases[index] ?? Number.NaN) + page * this.layout.pageStride
    return this.bytes.subarray(base, base + this.layout.segmentBytes)
  }

  /** Guards everywhere, then every segment of every page distinct. */
  fill(seed: number): void {
    this.bytes.fill(GUARD)
    for (let page = 0; page < this.layout.pages; page++) {
      this.layout.bases.forEach((_, index) => {
        const segment = this.segment(page, index)
        for (let i = 0; i < segment.length; i++) segment[i] = (seed + page * 37 + index * 101 + i * 13) & 255
      })
    }
  }

  /** COPY descriptors of all granules of a page, one behind the other from `poolOffset`. */
  copies(page: number, poolOffset: number): number[] {
    return Array.from({ length: granuleCount(this.layout) }, (_, granule) => [
      this.template,
      granule,
      page,
      poolOffset + granule * granuleBytes(this.layout),
      0,
      this.layout.segmentsPerGranule,
      0,
    ]).flat()
  }
}

function openLane(t: ExecutionContext, poolBytes: number): NativeLane {
  const lane = new NativeLane(native, poolBytes)
  t.teardown(() => lane.close())
  return lane
}

function copy(lane: NativeLane, tag: number, direction: 0 | 1, list: number[]): number {
  return lane.port.copy(lane.stream, tag, direction, Float64Array.from(list), 0, list.length / COPY.doubles)
}

const LAYOUTS: Record<string, Layout> = {
  'split, K and V of two layers apart': {
    pages: 5,
    pageStride: 3000,
    segmentBytes: 2500,
    paddedBytes: 3072,
    bases: [0, 20_000, 40_000, 60_000],
    segmentsPerGranule: 2,
  },
  'packed, pages back to back': {
    pages: 4,
    pageStride: 4096,
    segmentBytes: 4096,
    paddedBytes: 4096,
    bases: [0],
    segmentsPerGranule: 1,
  },
  'page-first, layers inside a page': {
    pages: 6,
    pageStride: 9000,
    segmentBytes: 1000,
    paddedBytes: 1024,
    bases: [8, 1108, 2208, 3308, 4408, 5508],
    segmentsPerGranule: 3,
  },
  'many odd segments of all alignments in one job': {
    pages: 3,
    pageStride: 1300,
    segmentBytes: 1111,
    paddedBytes: 1536,
    bases: Array.from({ length: 256 }, (_, i) => i * 4001),
    segmentsPerGranule: 32,
  },
  'large segments, beyond the inline limit': {
    pages: 2,
    pageStride: 300_000,
    segmentBytes: 250_001,
    paddedBytes: 250_368,
    bases: [3, 600_007],
    segmentsPerGranule: 1,
  },
}

for (const [name, layout] of Object.entries(LAYOUTS)) {
  test(`host stream: pages survive a round trip, ${name}`, (t) => {
    const engine = new Engine(t, layout)
    const pageBytes = granuleCount(layout) * granuleBytes(layout)
    const lane = openLane(t, layout.pages * pageBytes + 4096)
    engine.fill(1)
    const before = Uint8Array.from(engine.bytes)
    lane.poolBytes.fill(POISON)
    for (let page = 0; page < layout.pages; page++) {
      t.is(copy(lane, page, D2H, engine.copies(page, page * pageBytes)), 0)
    }
    t.deepEqual(
      lane.reap(layout.pages),
      Array.from({ length: layout.pages }, (_, tag) => ({ tag, result: 0, kind: COMPLETION.stream })),
    )
    t.is(Buffer.compare(engine.bytes, before), 0)

    const expected = new Uint8Array(lane.poolBytes.length).fill(POISON)
    for (let page = 0; page < layout.pages; page++) {
      layout.bases.forEach((_, index) => {
        const at = page * pageBytes + index * layout.paddedBytes
        expected.fill(0, at, at + layout.paddedBytes).set(engine.segment(page, index), at)
      })
    }
    t.is(Buffer.compare(lane.poolBytes, expected), 0)

    // Back into the pages in reverse order: only the bytes of segments may change.
    engine.bytes.fill(GUARD)
    for (let page = 0; page < layout.pages; page++) {
      t.is(copy(lane, page, H2D, engine.copies(layout.pages - 1 - page, page * pageBytes)), 0)
    }
    lane.reap(layout.pages)
    const reversed = new Uint8Array(before.length).fill(GUARD)
    for (let page = 0; page < layout.pages; page++) {
      layout.bases.forEach((base, index) => {
        const at = page * pageBytes + index * layout.paddedBytes
        const target = base + (layout.pages - 1 - page) * layout.pageStride
        reversed.set(expected.subarray(at, at + layout.segmentBytes), target)
      })
    }
    t.is(Buffer.compare(engine.bytes, reversed), 0)
  })
}

test('host stream: a run of items copies those items and nothing else', (t) => {
  const engine = new Engine(t, LAYOUTS['page-first, layers inside a page'] as Layout)
  const lane = openLane(t, 8192)
  engine.fill(9)
  lane.poolBytes.fill(POISON)
  t.is(copy(lane, 1, D2H, [engine.template, 1, 2, 0, 1, 1, 0]), 0)
  lane.reap(1)
  t.deepEqual(lane.poolBytes.subarray(1024, 2024), engine.segment(2, 4))
  t.true(lane.poolBytes.subarray(2024, 2048).every((byte) => byte === 0))
  t.true(lane.poolBytes.subarray(0, 1024).every((byte) => byte === POISON))
  t.true(lane.poolBytes.subarray(2048).every((byte) => byte === POISON))
})

test('host stream: a descriptor out of bounds refuses the whole list, and nothing is copied', (t) => {
  const layout = LAYOUTS['split, K and V of two layers apart'] as Layout
  const engine = new Engine(t, layout)
  const lane = openLane(t, 1)
  const end = lane.poolBytes.length
  engine.fill(3)
  lane.poolBytes.fill(POISON)
  const good = [engine.template, 0, 0, 0, 0, 2, 0]
  const bad: Record<string, number[]> = {
    'no such template': [engine.template + 1000, 0, 0, 0, 0, 2, 0],
    'a template beyond int32': [2 ** 40, 0, 0, 0, 0, 2, 0],
    'no such granule': [engine.template, 2, 0, 0, 0, 2, 0],
    'no such page': [engine.template, 0, layout.pages, 0, 0, 2, 0],
    'no items': [engine.template, 0, 0, 0, 0, 0, 0],
    'items past the granule': [engine.template, 0, 0, 0, 1, 2, 0],
    'first item past the granule': [engine.template, 0, 0, 0, 3, 1, 0],
    'items that wrap': [engine.template, 0, 0, 0, 2 ** 53 - 1, 2 ** 53 - 1, 0],
    'padding past the pool': [engine.template, 0, 0, end - 2 * 3072 + 1, 0, 2, 0],
    'far past the pool': [engine.template, 0, 0, 2 ** 53 - 1, 0, 2, 0],
    'coded bytes': [engine.template, 0, 0, 0, 0, 2, 512],
    'a fraction': [engine.template, 0, 0.5, 0, 0, 2, 0],
    'a negative': [engine.template, 0, 0, -512, 0, 2, 0],
    'not a number': [engine.template, 0, 0, Number.NaN, 0, 2, 0],
    infinite: [engine.template, 0, 0, Number.POSITIVE_INFINITY, 0, 2, 0],
  }
  for (const [name, descriptor] of Object.entries(bad)) {
    t.is(copy(lane, 1, D2H, [...good, ...descriptor]), EINVAL, name)
    t.is(copy(lane, 1, H2D, [...descriptor, ...good]), EINVAL, name)
  }
  t.is(copy(lane, 1, D2H, []), EINVAL)
  const list = Float64Array.from(good)
  t.is(lane.port.copy(lane.stream, 1, D2H, list, 1, 1), EINVAL)
  t.is(lane.port.copy(lane.stream, 1, D2H, list, 0, 2), EINVAL)
  t.is(lane.port.copy(lane.stream + 1, 1, D2H, list, 0, 1), EINVAL)
  t.is(lane.port.copy(lane.stream, 1, 2 as 1, list, 0, 1), EINVAL)
  t.is(lane.pending(), 0)
  t.true(lane.poolBytes.every((byte) => byte === POISON))
  t.is(copy(lane, 7, D2H, [engine.template, 0, 0, end - 2 * 3072, 0, 2, 0]), 0)
  t.is(lane.reap(1)[0]?.tag, 7)
})

test('host stream: checksums equal zlib over segments without their padding', (t) => {
  const lane = openLane(t, 1 << 20)
  const shape = fc
    .record({
      segment: fc.integer({ min: 1, max: 5000 }),
      pad: fc.integer({ min: 0, max: 600 }),
      count: fc.integer({ min: 1, max: 20 }),
    })
    .chain(({ segment, pad, count }) =>
      fc
        .integer({ min: 0, max: (1 << 20) - count * (segment + pad) })
        .map((offset) => ({ segment, stride: segment + pad, count, offset })),
    )
  for (let i = 0; i < lane.poolBytes.length; i++) lane.poolBytes[i] = (i * 31 + (i >> 9) * 7) & 255
  t.notThrows(() =>
    fc.assert(
      fc.property(
        fc.array(shape, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 0, max: 50 }),
        (granules, base) => {
          lane.results.fill(0)
          const list = granules.flatMap(({ segment, stride, count, offset }) => [
            offset,
            count * stride,
            segment,
            stride,
          ])
          if (lane.port.checksum(lane.stream, 5, Float64Array.from(list), 0, granules.length, base) !== 0) return false
          if (lane.reap(1)[0]?.result !== 0) return false
          return granules.every(({ segment, stride, count, offset }, i) => {
            let crc = 0
            for (let s = 0; s < count; s++) {
              crc = crc32(lane.poolBytes.subarray(offset + s * stride, offset + s * stride + segment), crc)
            }
            return lane.results[base + i] === crc
          })
        },
      ),
      { numRuns: 200 },
    ),
  )
})

test('host stream: a checksum out of bounds is refused and writes no result', (t) => {
  const lane = openLane(t, 1)
  const bad: Record<string, number[]> = {
    'past the pool': [lane.poolBytes.length - 4096, 8192, 4096, 4096],
    'wraps past the pool': [2 ** 53 - 1, 4096, 4096, 4096],
    'no bytes': [0, 0, 512, 512],
    'no segment': [0, 4096, 0, 512],
    'no stride': [0, 4096, 0, 0],
    'segment above its stride': [0, 4096, 513, 512],
    'half a stride': [0, 4096 + 256, 512, 512],
  }
  lane.results.fill(77)
  for (const [name, descriptor] of Object.entries(bad)) {
    t.is(lane.port.checksum(lane.stream, 1, Float64Array.from(descriptor), 0, 1, 0), EINVAL, name)
  }
  const good = Float64Array.of(0, 4096, 4096, 4096)
  t.is(lane.port.checksum(lane.stream, 1, good, 0, 1, lane.results.length), EINVAL)
  t.is(lane.port.checksum(lane.stream, 1, good, 0, 1, 2 ** 53 - 1), EINVAL)
  t.is(lane.pending(), 0)
  t.true(lane.results.every((crc) => crc === 77))
  t.is(lane.port.checksum(lane.stream, 1, good, 0, 1, lane.results.length - 1), 0)
  lane.reap(1)
})

test('host stream: jobs of any size end in the order in which they were given', (t) => {
  const large = new Engine(t, LAYOUTS['large segments, beyond the inline limit'] as Layout)
  const small = new Engine(t, LAYOUTS['packed, pages back to back'] as Layout)
  const lane = openLane(t, 4 << 20)
  large.fill(1)
  small.fill(2)
  const jobs = 600
  for (let tag = 0; tag < jobs; tag++) {
    const list = tag % 3 === 0 ? large.copies(tag % 2, 0) : small.copies(tag % 4, 1 << 20)
    t.is(copy(lane, tag, D2H, list), 0)
  }
  t.deepEqual(
    lane.reap(jobs).map(({ tag }) => tag),
    Array.from({ length: jobs }, (_, tag) => tag),
  )
})

test('host stream: a checksum sees what the copy before it wrote', (t) => {
  const engine = new Engine(t, LAYOUTS['large segments, beyond the inline limit'] as Layout)
  const lane = openLane(t, 4 << 20)
  for (let round = 0; round < 20; round++) {
    engine.fill(round)
    t.is(copy(lane, 0, D2H, engine.copies(1, 0)), 0)
    const list = Float64Array.of(0, 250_368, 250_001, 250_368)
    t.is(lane.port.checksum(lane.stream, 1, list, 0, 1, 0), 0)
    lane.reap(2)
    t.is(lane.results[0], crc32(engine.segment(1, 0)))
  }
})

test.serial('host stream: a mapping released under queued copies stays until they have ended', async (t) => {
  await collect()
  const lane = openLane(t, 64 << 20)
  const alive = native.mappingsAlive()
  const segment = 1 << 20
  const fd = native.createMemory(4 * segment)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  const engine = native.defineTemplate(
    Float64Array.of(mapping, 0, segment, 4, 0, segment, segment),
    Float64Array.of(0, 1),
  )
  for (let tag = 0; tag < 64; tag++) t.is(copy(lane, tag, D2H, [engine, 0, tag % 4, tag * segment, 0, 1, 0]), 0)
  native.releaseMapping(mapping)
  const still = native.mappingsAlive()
  t.is(copy(lane, 99, D2H, [engine, 0, 0, 0, 0, 1, 0]), EINVAL)
  const ended = lane.pending()
  t.true(still === alive + 1 || ended >= 63, `${still - alive} mapped after ${ended} of 64 copies`)
  t.true(lane.reap(64 - ended).every(({ result }) => result === 0))
  t.is(native.mappingsAlive(), alive)
})

test.serial('host stream: a descriptor list that another thread rewrites never leads out of bounds', async (t) => {
  const layout = LAYOUTS['packed, pages back to back'] as Layout
  const engine = new Engine(t, layout)
  engine.fill(5)
  const lane = openLane(t, 8192)
  const list = new Float64Array(new SharedArrayBuffer(8 * COPY.doubles))
  list.set([engine.template, 0, 0, 0, 0, 1, 0])
  const flipper = new Worker(
    `const { workerData } = require('node:worker_threads')
     const list = new Float64Array(workerData)
     for (let i = 0; list[0] >= 0; i++) { list[2] = i % 2 ? 1e6 : 1; list[3] = i % 3 ? 0 : 2 ** 40 }`,
    { eval: true, workerData: list.buffer },
  )
  let taken = 0
  let refused = 0
  while (taken < 2000 || refused < 2000) {
    const result = lane.port.copy(lane.stream, 1, D2H, list, 0, 1)
    if (result === 0) taken += lane.reap(1).length
    else refused += result === EINVAL ? 1 : Number.NaN
    if (taken + refused > 5_000_000) break
  }
  list[0] = -1
  await flipper.terminate()
  t.true(taken >= 2000 && refused >= 2000, `${taken} taken, ${refused} refused`)
})

test('host stream: closing a port ends what is queued, and the next port is not disturbed', (t) => {
  const engine = new Engine(t, LAYOUTS['large segments, beyond the inline limit'] as Layout)
  for (let round = 0; round < 5; round++) {
    const lane = new NativeLane(native, 4 << 20)
    for (let tag = 0; tag < 200; tag++) t.is(copy(lane, tag, D2H, engine.copies(tag % 2, 0)), 0)
    lane.close()
    t.is(copy(lane, 0, D2H, engine.copies(0, 0)), -9)
  }
})

test.serial(
  'host stream: a worker that is terminated with copies in flight leaves memory only when they have ended',
  async (t) => {
    const engine = new Engine(t, LAYOUTS['large segments, beyond the inline limit'] as Layout)
    const alive = native.mappingsAlive()
    for (let round = 0; round < 5; round++) {
      const worker = new Worker(new URL('./copying-worker.js', import.meta.url), {
        workerData: { template: engine.template },
      })
      const [message] = (await once(worker, 'message')) as [string]
      t.is(message, 'copying')
      await worker.terminate()
    }
    // Fewer is well: what earlier tests viewed may be collected meanwhile.
    t.true(native.mappingsAlive() <= alive)
    // The kernel lists an ended thread a little longer.
    const streams = () => ofThreads('comm').filter((name) => name.startsWith('orbitkv-stream'))
    await eventually(
      'no thread of a stream is left',
      () => streams().length === 0,
      undefined,
      () => streams().join(),
    )
    t.deepEqual(streams(), [])
  },
)
