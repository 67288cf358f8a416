import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import { MIB, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { WRITE, WRITE_SPANS_MAX } from '../../src/shared/layout/descriptors.js'
import { directIoWorks } from '../support/direct-io.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type Submission, TestPort } from '../support/test-port.js'

/** Writes of several spans: what is on the disk, what is refused, and that nothing of a refused one is done. */
const native = loadNative()
const probe = native.probe()
const direct = directIoWorks(native)

const EBADF = -9
const EINVAL = -22
const POOL_BYTES = 8 * MIB
const FILE_BYTES = 8 * MIB
const REFUSED = { code: 'ERR_INVALID_ARG_TYPE' }

type Span = readonly [offset: number, bytes: number]

/** A pool of random bytes, a shard and a port over both. */
function bench(t: ExecutionContext, io: 'uring' | 'posix', { depth = 8, spans = true } = {}) {
  const path = join(folderOf(t), 'shard.dat')
  const { pool } = native.openPool(POOL_BYTES)
  const { file } = native.openShard(path, FILE_BYTES, direct)
  const port = new TestPort(native, { io, pool, depth, spans })
  t.teardown(() => {
    port.close()
    native.closeShard(file)
    native.closePool(pool)
  })
  const memory = native.poolView(pool, 0, POOL_BYTES)
  for (let at = 0, word = 1; at < POOL_BYTES; at++) {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0
    memory[at] = word >>> 24
  }
  return { file, port, memory, stored: () => readFileSync(path) }
}

function write(file: number, fileOffset: number, spans: readonly Span[]): Omit<Submission, 'tag'> {
  const bytes = spans.reduce((sum, [, each]) => sum + each, 0)
  return { op: 'write-spans', file, fileOffset, poolOffset: spans.length, bytes, spans }
}

const contentOf = (memory: Uint8Array, spans: readonly Span[]) =>
  Buffer.concat(spans.map(([offset, bytes]) => memory.subarray(offset, offset + bytes)))

/** So many spans of one to eight sectors, in pages of the pool that are not in order. */
function scattered(count: number, seed: number): Span[] {
  return Array.from({ length: count }, (_, index) => {
    const page = ((index + seed * 101) * 769) % (POOL_BYTES / 4096)
    return [page * 4096, (1 + ((index * 5 + seed) % 8)) * SECTOR_BYTES] as const
  })
}

for (const io of ['uring', 'posix'] as const) {
  const when = needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)

  when(`Port (${io}): a write of spans has their bytes in order, and no others`, (t) => {
    const { file, port, memory, stored } = bench(t, io)
    for (const [count, seed] of [
      [1, 1],
      [2, 2],
      [7, 3],
      [WRITE_SPANS_MAX, 4],
    ] as const) {
      const spans = scattered(count, seed)
      const submission = write(file, seed * MIB, spans)
      t.deepEqual(port.run([submission]), [submission.bytes])
      const content = contentOf(memory, spans)
      t.is(stored().compare(content, 0, content.length, seed * MIB, seed * MIB + content.length), 0, `${count} spans`)
      t.true(
        stored()
          .subarray(seed * MIB + content.length, (seed + 1) * MIB)
          .every((byte) => byte === 0),
        'nothing behind it was written',
      )
    }
  })

  when(`Port (${io}): spans may be given again as soon as the call has returned`, (t) => {
    const { file, port, memory, stored } = bench(t, io)
    const spans = scattered(WRITE_SPANS_MAX, 9)
    const submission = write(file, 0, spans)
    port.put(0, { ...submission, tag: 3 })
    const early = port.list(port.port.pump(1, 0, 0))
    port.spans.fill(Number.NaN)
    const [done] = early.length === 1 ? early : port.reap(1)
    t.is(done?.result, submission.bytes)
    const content = contentOf(memory, spans)
    t.is(stored().compare(content, 0, content.length, 0, content.length), 0)
  })

  when(`Port (${io}): at full depth each write has its own spans, place after place`, (t) => {
    const { file, port, memory, stored } = bench(t, io, { depth: 16 })
    for (let round = 0; round < 6; round++) {
      const each = Array.from({ length: 16 }, (_, index) => scattered(WRITE_SPANS_MAX - index, 16 * round + index))
      const submissions = each.map((spans, index) => write(file, (index * MIB) / 4, spans))
      t.deepEqual(
        port.run(submissions),
        submissions.map(({ bytes }) => bytes),
      )
      const disk = stored()
      for (const [index, spans] of each.entries()) {
        const content = contentOf(memory, spans)
        const at = (index * MIB) / 4
        t.is(disk.compare(content, 0, content.length, at, at + content.length), 0, `write ${index} of round ${round}`)
      }
    }
  })

  when(`Port (${io}): one bad span refuses the whole write, and nothing of it is done`, (t) => {
    const { file, port, stored } = bench(t, io, { depth: 64 })
    const good: Span[] = [
      [0, 4096],
      [8192, 1024],
    ]
    const sound = write(file, 4096, good)
    const second = (span: Span): Omit<Submission, 'tag'> => ({ ...sound, spans: [good[0] as Span, span] })
    const cases: [number, Omit<Submission, 'tag'>][] = [
      [EBADF, { ...sound, file: 4711 }],
      [EINVAL, { ...sound, poolOffset: 0 }],
      [EINVAL, { ...sound, poolOffset: 3 }],
      [EINVAL, { ...sound, poolOffset: 1 }],
      [EINVAL, { ...sound, poolOffset: 1.5 }],
      [EINVAL, { ...sound, poolOffset: WRITE_SPANS_MAX + 1 }],
      [EINVAL, { ...sound, poolOffset: 2 ** 52 }],
      [EINVAL, { ...sound, bytes: sound.bytes - SECTOR_BYTES }],
      [EINVAL, { ...sound, bytes: sound.bytes + SECTOR_BYTES }],
      [EINVAL, { ...sound, bytes: 0 }],
      [EINVAL, { ...sound, fileOffset: FILE_BYTES - 4096 }],
      [EINVAL, { ...sound, verify: { segmentBytes: 512, segmentStride: 512, crc32: 0 } }],
      [EINVAL, second([8192, 0])],
      [EINVAL, second([8192, 1000])],
      [EINVAL, second([8192, -1024])],
      [EINVAL, second([8192, Number.NaN])],
      [EINVAL, second([8192, 2 ** 53])],
      [EINVAL, second([8192 + 256, 1024])],
      [EINVAL, second([-512, 1024])],
      [EINVAL, second([POOL_BYTES, 1024])],
      [EINVAL, second([POOL_BYTES - 512, 1024])],
      [EINVAL, second([2 ** 52, 1024])],
      [EINVAL, second([0.5, 1024])],
      [EINVAL, second([Number.POSITIVE_INFINITY, 1024])],
    ]
    if (direct) cases.push([EINVAL, { ...sound, fileOffset: 100 }])
    t.deepEqual(
      port.run(cases.map(([, submission]) => submission)),
      cases.map(([expected]) => expected),
    )
    t.is(port.port.inFlight(), 0)
    t.true(
      stored().every((byte) => byte === 0),
      'nothing was written',
    )
    t.deepEqual(port.run([sound]), [sound.bytes], 'and the place serves the next one')
  })

  when(`Port (${io}): a port without memory for spans refuses a write of them`, (t) => {
    const { file, port, stored } = bench(t, io, { spans: false })
    const { spans: _, ...submission } = write(file, 0, [[0, 4096]])
    t.deepEqual(port.run([submission]), [EINVAL])
    t.true(stored().every((byte) => byte === 0))
  })
}

test('openPort: refuses spans that are not shared, too few or of another type', (t) => {
  const depth = 4
  const options = {
    depth,
    submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * depth)),
    completions: new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 2 * depth)),
    results: new Uint32Array(new SharedArrayBuffer(4)),
    parkWord: new Int32Array(new SharedArrayBuffer(4)),
    pool: -1,
    io: 'posix' as const,
    register: false,
  }
  const doubles = WRITE.doubles * WRITE_SPANS_MAX * depth
  t.notThrows(() =>
    native.openPort({ ...options, spans: new Float64Array(new SharedArrayBuffer(8 * doubles)) }).close(),
  )
  t.throws(() => native.openPort({ ...options, spans: new Float64Array(doubles) }), REFUSED)
  t.throws(
    () => native.openPort({ ...options, spans: new Float64Array(new SharedArrayBuffer(8 * doubles - 8)) }),
    REFUSED,
  )
  t.throws(
    () => native.openPort({ ...options, spans: new Int32Array(new SharedArrayBuffer(8 * doubles)) as never }),
    REFUSED,
  )
  t.throws(() => native.openPort({ ...options, spans: null as never }), REFUSED)
})
