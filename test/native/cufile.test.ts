import { readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { MIB } from '../../src/shared/base/units.js'
import { crc32 } from '../../src/shared/codec/crc32.js'
import { type CuFileShim, openShim, shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { CodedEngine } from './coded-engine.js'
import { NativeLane } from './open-lane.js'

const native = loadNative()
const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')

const PAGE = 4096
const SLOT = 4 * MIB
/** One library a process: the first test compiles it, the others tell it what to do. */
let shared: CuFileShim | null = null

function shim(t: ExecutionContext): CuFileShim {
  shared ??= openShim({ teardown: () => {} } as unknown as ExecutionContext)
  const opened = shared
  t.teardown(() => {
    for (const name of [
      'version',
      'open',
      'handle',
      'buffer',
      'compat',
      'nostreams',
      'used',
      'read',
      'write',
    ] as const) {
      opened.forget(name)
    }
  })
  return opened
}

const open = (of: CuFileShim, nativeOnly: boolean) =>
  native.openCuFile({ library: of.library, nativeOnly, logFolder: of.folder })

shimTest('a library that is not there, or is not cuFile, is a reason and no exception', (t) => {
  const absent = native.openCuFile({ library: '/nowhere/libcufile.so.0', nativeOnly: false, logFolder: '' })
  t.is(absent.reason, 'no-library')
  t.false(absent.available)
  const other = native.openCuFile({ library: 'libm.so.6', nativeOnly: false, logFolder: '' })
  t.is(other.reason, 'no-symbol')
})

shimTest('native-only is refused unless it can be had and is kept', (t) => {
  const library = shim(t)
  library.tell('version', 1130)
  t.is(open(library, true).reason, 'too-old')
  library.forget('version')
  library.tell('used', 1)
  t.is(open(library, true).reason, 'already-open')
  library.forget('used')
  library.tell('open', 5001)
  const refused = open(library, true)
  t.deepEqual([refused.reason, refused.code], ['open-failed', 5001])
  library.forget('open')
  library.tell('compat', 1)
  t.is(open(library, true).reason, 'compatible')
  library.forget('compat')
  library.tell('nostreams', 1)
  t.is(open(library, true).reason, 'no-streams')
  library.forget('nostreams')
  const report = open(library, true)
  t.like(report, { available: true, compatible: false, version: 1150, reason: 'ok' })
  t.is(report.path, library.library)
  t.is(native.closeCuFile(), 0)
})

shimTest('a driver that may answer by host staging is never native, and says that it may', (t) => {
  const library = shim(t)
  library.tell('compat', 1)
  // What an earlier native-only open staged holds on; a refused open goes back to the defaults.
  t.is(open(library, true).reason, 'compatible')
  const report = open(library, false)
  t.like(report, { available: true, compatible: true })
  t.is(open(library, true).reason, 'already-open')
  t.is(native.closeCuFile(), 0)
})

shimTest('descriptor 0 is a descriptor after a failed open', (t) => {
  const library = shim(t)
  const before = readlinkSync('/proc/self/fd/0')
  library.tell('open', 5001)
  library.tell('closes0', 1)
  t.is(open(library, false).reason, 'open-failed')
  library.forget('closes0')
  t.is(readlinkSync('/proc/self/fd/0'), before, 'and the one it was')
})

interface Bed {
  readonly lane: NativeLane
  readonly file: number
  readonly template: number
  readonly pages: Uint8Array
}

/** A lane, a registered file and an engine of 16 pages of two segments of 3000 bytes. */
function bed(t: ExecutionContext, library: CuFileShim): Bed {
  t.true(open(library, false).available)
  t.teardown(() => {
    const code = native.closeCuFile()
    if (code !== 0) throw new Error(`cuFile does not close: ${code}`)
  })
  const { file } = native.openShard(join(folderOf(t), 'shard.dat'), 8 * MIB, false)
  t.teardown(() => native.closeShard(file))
  t.is(native.registerCuFileShard(file), 0)
  const lane = new NativeLane(native, MIB)
  t.teardown(() => lane.close())
  const fd = native.createMemory(16 * 8192)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  t.teardown(() => native.releaseMapping(mapping))
  const item = (segment: number) => [mapping, segment * 4096, 8192, 16, segment * 3072, 3000, 3072]
  const template = native.defineTemplate(Float64Array.from([...item(0), ...item(1)]), Float64Array.from([0, 2]))
  return { lane, file, template, pages: native.mappingView(mapping, 0, 16 * 8192) }
}

const copyOf = (template: number, page: number, offset: number) => [template, 0, page, offset, 0, 2, 0]

shimTest('gather, write, read, checksum, scatter: the same bytes come back, and padding is zero', (t) => {
  const library = shim(t)
  const { lane, file, template, pages } = bed(t, library)
  const stream = lane.port.openStaging('host', SLOT)
  t.true(stream >= 0)
  for (let at = 0; at < pages.length; at++) pages[at] = (at * 7 + 3) & 255
  const before = pages.slice()
  const copies = Float64Array.from([...copyOf(template, 3, 0), ...copyOf(template, 9, 6144)])
  t.is(lane.port.stagingWrite(stream, 1, file, PAGE, 0, 12_288, 12_288, copies, 0, 2), 0)
  t.deepEqual(
    lane.reap(1).map(({ tag, result }) => [tag, result]),
    [[1, 12_288]],
  )
  pages.fill(0xa5)
  const checks = Float64Array.from([0, 6144, 3000, 3072, 6144, 6144, 3000, 3072])
  t.is(lane.port.stagingRead(stream, 2, file, PAGE, 12_288, checks, 0, 2, 0), 0)
  t.is(lane.reap(1)[0]?.result, 12_288)
  const sum = (page: number) => {
    const first = crc32(before.subarray(page * 8192, page * 8192 + 3000))
    return crc32(before.subarray(page * 8192 + 4096, page * 8192 + 7096), first)
  }
  t.deepEqual([...lane.results.subarray(0, 2)], [sum(3), sum(9)])
  t.is(lane.port.copy(stream, 3, 0, copies, 0, 2), 0)
  lane.reap(1)
  for (let page = 0; page < 16; page++) {
    for (let at = 0; at < 8192; at++) {
      const copied = (page === 3 || page === 9) && at % 4096 < 3000
      if (pages[page * 8192 + at] !== (copied ? before[page * 8192 + at] : 0xa5)) t.fail(`page ${page}, byte ${at}`)
    }
  }
  t.is(lane.port.closeStream(stream), 0)
  t.is(lane.port.closeStream(stream), 0, 'a number that was closed stays closed')
})

shimTest('a coding that was read into a slot is decoded into a page from there', (t) => {
  const library = shim(t)
  const { lane, file } = bed(t, library)
  const stream = lane.port.openStaging('host', SLOT, { codecBudgetBytes: MIB })
  const item = { coding: { format: 'fp8', scalar: 'bf16' }, bytes: 8192, base: 0, pageStride: 8192 } as const
  const engine = new CodedEngine(t, [item], 2)
  for (let at = 0; at < 8192; at += 2) engine.item(0, 0).set([0x40, at % 3 === 0 ? 0xc0 : 0x41], at)
  const coded = Float64Array.from(engine.copy(0, 0, 0, 4096))
  t.is(lane.port.encode(stream, 1, coded, 0, 1, 0), 0)
  lane.reap(1)
  const [stored = 0, crc = 0] = lane.results
  t.is(stored, 4096)
  t.is(lane.port.stagingWrite(stream, 2, file, 0, 0, 4096, 4096, coded, 0, 0), 0)
  t.is(lane.reap(1)[0]?.result, 4096)
  t.is(lane.port.stagingRead(stream, 3, file, 0, 4096, Float64Array.from([0, 4096, 4096, 4096]), 0, 1, 0), 0)
  lane.reap(1)
  t.is(lane.results[0], crc)
  t.is(lane.port.decode(stream, 4, Float64Array.from(engine.copy(0, 1, 0, 4096)), 0, 1, 8), 0)
  t.is(lane.reap(1)[0]?.result, 0)
  t.is(lane.results[8], 0)
  t.deepEqual(engine.item(0, 1), engine.item(0, 0))
  // The slot is the pool of this stream, and ends where it ends.
  const beyond = Float64Array.from(engine.copy(0, 1, SLOT - 2048, 4096))
  t.is(lane.port.decode(stream, 5, beyond, 0, 1, 8), -22)
  t.is(lane.port.encode(stream, 5, beyond, 0, 1, 8), -22)
  t.is(lane.port.closeStream(stream), 0)
})

shimTest('whatever a read or write answers is its completion: statuses, -5, a short count', (t) => {
  const library = shim(t)
  const { lane, file, template } = bed(t, library)
  const stream = lane.port.openStaging('host', SLOT)
  const copies = Float64Array.from(copyOf(template, 0, 0))
  for (const kind of ['read', 'write'] as const) {
    for (const [told, expected] of [
      ['5027', -5027],
      ['5030', -5030],
      ['-5', -5],
      ['-5044', -5044],
      ['5', -5],
      ['short', 4096],
    ] as const) {
      library.tell(kind, told)
      const refused =
        kind === 'read'
          ? lane.port.stagingRead(stream, 7, file, 0, 8192, new Float64Array(0), 0, 0, 0)
          : lane.port.stagingWrite(stream, 7, file, 0, 0, 8192, 8192, copies, 0, 1)
      t.is(refused, 0)
      t.is(lane.reap(1)[0]?.result, expected, `${kind} ${told}`)
    }
    library.forget(kind)
  }
  t.is(lane.port.closeStream(stream), 0)
})

shimTest('a buffer or file that cannot be registered is a code, and leaves nothing', (t) => {
  const library = shim(t)
  const { lane } = bed(t, library)
  library.tell('buffer', 5016)
  t.is(lane.port.openStaging('host', SLOT), -5016)
  library.forget('buffer')
  library.tell('handle', 5027)
  const { file } = native.openShard(join(folderOf(t), 'other.dat'), MIB, false)
  t.is(native.registerCuFileShard(file), -5027)
  native.closeShard(file)
  t.is(native.registerCuFileShard(file), -9)
})

shimTest('a transfer that is held keeps its slot from being closed, and ends when the library says so', (t) => {
  const library = shim(t)
  const { lane, file } = bed(t, library)
  const stream = lane.port.openStaging('host', SLOT)
  library.tell('read', 'hold')
  t.is(lane.port.stagingRead(stream, 4, file, 0, 4096, new Float64Array(0), 0, 0, 0), 0)
  t.is(lane.port.closeStream(stream), -16)
  library.forget('read')
  t.is(lane.reap(1)[0]?.result, 4096)
  t.is(lane.port.closeStream(stream), 0)
})

shimTest(
  'a slot whose port ends without closing it is not registered any more, and the driver stays open for one',
  (t) => {
    const library = shim(t)
    const { lane } = bed(t, library)
    t.true(lane.port.openStaging('host', SLOT) >= 0)
    t.is(native.closeCuFile(), -16)
    lane.port.close()
    t.is(native.closeCuFile(), 0)
  },
)

shimTest('what is not whole pages inside file and slot is refused before the library sees it', (t) => {
  const library = shim(t)
  const { lane, file } = bed(t, library)
  const stream = lane.port.openStaging('host', SLOT)
  const none = new Float64Array(0)
  const read = (offset: number, bytes: number) => lane.port.stagingRead(stream, 1, file, offset, bytes, none, 0, 0, 0)
  t.is(read(512, 4096), -22)
  t.is(read(0, 512), -22)
  t.is(read(0, SLOT + 4096), -22)
  t.is(read(8 * MIB - 4096, 8192), -22)
  t.is(lane.port.stagingWrite(stream, 1, file, 0, SLOT - 4096, 8192, 0, none, 0, 0), -22)
  t.is(lane.port.stagingRead(lane.stream, 1, file, 0, 4096, none, 0, 0, 0), -22, 'a stream without a slot')
  t.is(lane.port.closeStream(stream), 0)
})

shimTest('reserving a shard gives it its blocks; a refused one holds nothing', (t) => {
  const { file, bytes } = native.openShard(join(folderOf(t), 'reserved.dat'), 4 * MIB, false)
  t.is(bytes, 4 * MIB)
  t.is(native.reserveShard(file), 0)
  native.closeShard(file)
  t.is(native.reserveShard(file), -9)
})
