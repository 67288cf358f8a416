import { readFileSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { COMPLETION } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { TestPort } from '../support/test-port.js'

const native = loadNative()
const probe = native.probe()

const MIB = 1024 * 1024
const EBADF = -9
const EBUSY = -16
const EINVAL = -22
const EBADMSG = -74

/** A pool of `mib` MiB, a shard and a port over both. */
function bench(t: ExecutionContext, io: 'uring' | 'posix', { poolMib = 8, fileBytes = 8 * MIB, depth = 8 } = {}) {
  const path = join(folderOf(t), 'shard.dat')
  const { pool, bytes } = native.openPool(poolMib * MIB)
  const { file } = native.openShard(path, fileBytes, true)
  const port = new TestPort(native, { io, pool, depth })
  t.teardown(() => {
    port.close()
    native.closeShard(file)
    native.closePool(pool)
  })
  return { path, pool, file, port, memory: native.poolView(pool, 0, bytes) }
}

function fill(bytes: Uint8Array, seed: number): Uint8Array {
  for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 31 + (i >> 9) + seed) & 255
  return bytes
}

for (const io of ['uring', 'posix'] as const) {
  const when = needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)

  when(`Port (${io}): direct writes are on the disk, and reads bring the same bytes to another place`, (t) => {
    const { path, file, port, memory } = bench(t, io)
    const pattern = fill(new Uint8Array(MIB + 512), 1)
    memory.set(pattern, 4096)
    t.deepEqual(port.run([{ op: 'write', file, fileOffset: 512, poolOffset: 4096, bytes: pattern.length }]), [
      pattern.length,
    ])
    t.deepEqual(readFileSync(path).subarray(512, 512 + pattern.length), Buffer.from(pattern))
    memory.fill(0)
    t.deepEqual(port.run([{ op: 'read', file, fileOffset: 512, poolOffset: 4 * MIB, bytes: pattern.length }]), [
      pattern.length,
    ])
    t.deepEqual(Buffer.from(memory.subarray(4 * MIB, 4 * MIB + pattern.length)), Buffer.from(pattern))
    t.true(
      memory.subarray(4 * MIB + pattern.length).every((byte) => byte === 0),
      'nothing behind the read was touched',
    )
  })

  when(`Port (${io}): a read across the end of the file is short, one behind it brings nothing`, (t) => {
    const { file, port } = bench(t, io)
    t.deepEqual(
      port.run([
        { op: 'read', file, fileOffset: 8 * MIB - 4096, poolOffset: 0, bytes: 8192 },
        { op: 'read', file, fileOffset: 8 * MIB, poolOffset: 0, bytes: 4096 },
      ]),
      [4096, 0],
    )
  })

  when(`Port (${io}): a short read is never verified, even when what came would match`, (t) => {
    const { path, file, port } = bench(t, io)
    truncateSync(path, 4096)
    const verify = { segmentBytes: 4096, segmentStride: 4096, crc32: crc32(Buffer.alloc(8192)) }
    t.deepEqual(port.run([{ op: 'read', file, fileOffset: 0, poolOffset: 0, bytes: 8192, verify }]), [4096])
  })

  when(`Port (${io}): a bad descriptor completes with -EINVAL or -EBADF and touches nothing`, (t) => {
    const { file, port, memory } = bench(t, io, { depth: 32 })
    memory.fill(0x5a)
    const good = { op: 'read', file, fileOffset: 0, poolOffset: 0, bytes: 4096 } as const
    const verify = { segmentBytes: 4096, segmentStride: 4096, crc32: 0 }
    const cases: [number, Parameters<TestPort['run']>[0][number]][] = [
      [EBADF, { ...good, file: 4711 }],
      [EINVAL, { ...good, file: -1 }],
      [EINVAL, { ...good, file: 1.5 }],
      [EINVAL, { ...good, poolOffset: 8 * MIB - 2048 }],
      [EINVAL, { ...good, poolOffset: -4096 }],
      [EINVAL, { ...good, poolOffset: 2 ** 53 }],
      [EINVAL, { ...good, poolOffset: Number.NaN }],
      [EINVAL, { ...good, bytes: 0 }],
      [EINVAL, { ...good, bytes: 2 ** 32 + 4096 }],
      [EINVAL, { ...good, bytes: Number.POSITIVE_INFINITY }],
      [EINVAL, { ...good, bytes: 4096 - 256 }],
      [EINVAL, { ...good, fileOffset: 100 }],
      [EINVAL, { ...good, fileOffset: 0.5 }],
      [EINVAL, { ...good, poolOffset: 4 }],
      [EINVAL, { ...good, op: 'write', fileOffset: 8 * MIB }],
      [EINVAL, { ...good, op: 'write', verify }],
      [EINVAL, { ...good, verify: { ...verify, segmentStride: 0 } }],
      [EINVAL, { ...good, verify: { ...verify, segmentStride: 3000 } }],
      [EINVAL, { ...good, verify: { ...verify, segmentStride: 2048 } }],
      [EINVAL, { ...good, verify: { ...verify, segmentBytes: 0 } }],
      [EINVAL, { ...good, verify: { ...verify, crc32: 2 ** 32 } }],
    ]
    t.deepEqual(
      port.run(cases.map(([, submission]) => submission)),
      cases.map(([expected]) => expected),
    )
    port.put(0, { ...good, tag: 0 })
    for (const code of [2, 3, 255, 258, 512, 65536, -1, 0.5]) {
      port.submissions[0] = code
      t.deepEqual(port.list(port.port.pump(1, 1, 0)), [{ tag: 0, result: EINVAL, aux: 0, kind: COMPLETION.io }])
    }
    t.is(port.port.inFlight(), 0)
    t.true(memory.every((byte) => byte === 0x5a))
  })

  when(`Port (${io}): a pump of more than the depth, or with negative numbers, submits nothing`, (t) => {
    const { port } = bench(t, io)
    for (const [count, minComplete, timeoutUs] of [
      [9, 0, 0],
      [-1, 0, 0],
      [1, -1, 0],
      [1, 0, -1],
      [0.5, 0, 0],
    ] as const) {
      t.is(port.port.pump(count, minComplete, timeoutUs), EINVAL)
    }
    t.is(port.port.inFlight(), 0)
  })

  when(`Port (${io}): verification covers the segments and not their padding`, (t) => {
    const { file, port, memory } = bench(t, io)
    const [segmentBytes, segmentStride, bytes] = [1000, 1536, 1536 * 64]
    fill(memory.subarray(0, bytes), 7)
    const parts = Array.from({ length: 64 }, (_, i) =>
      memory.subarray(i * segmentStride, i * segmentStride + segmentBytes),
    )
    const sum = crc32(Buffer.concat(parts))
    const read = { op: 'read', file, fileOffset: 4096, poolOffset: 2 * MIB, bytes } as const
    const verify = { segmentBytes, segmentStride, crc32: sum }
    port.run([{ op: 'write', file, fileOffset: 4096, poolOffset: 0, bytes }])
    t.deepEqual(port.run([{ ...read, verify }]), [bytes])
    t.deepEqual(port.run([{ ...read, verify: { ...verify, crc32: (sum ^ 1) >>> 0 } }]), [EBADMSG])

    memory[segmentStride * 5 + segmentBytes] = 0xff ^ (memory[segmentStride * 5 + segmentBytes] ?? 0)
    port.run([{ op: 'write', file, fileOffset: 4096, poolOffset: 0, bytes }])
    t.deepEqual(port.run([{ ...read, verify }]), [bytes], 'a changed byte of padding')

    memory[segmentStride * 5 + segmentBytes - 1] = 0xff ^ (memory[segmentStride * 5 + segmentBytes - 1] ?? 0)
    port.run([{ op: 'write', file, fileOffset: 4096, poolOffset: 0, bytes }])
    t.deepEqual(port.run([{ ...read, verify }]), [EBADMSG], 'a changed byte of a segment')
  })

  when(`Port (${io}): 1000 reads through depth 128 each complete once with their own bytes`, (t) => {
    const { file, port, memory } = bench(t, io, { poolMib: 16, fileBytes: 4 * MIB, depth: 128 })
    fill(memory.subarray(0, 4 * MIB), 3)
    port.run([{ op: 'write', file, fileOffset: 0, poolOffset: 0, bytes: 4 * MIB }])
    const expected = Buffer.from(memory.subarray(0, 4 * MIB))
    const free = Array.from({ length: 128 }, (_, i) => i)
    const slotOf = new Map<number, number>()
    const seen = new Set<number>()
    let deepest = 0
    for (let next = 0; seen.size < 1000; ) {
      let count = 0
      for (; next < 1000 && free.length > 0; next++, count++) {
        const slot = free.pop() ?? 0
        slotOf.set(next, slot)
        port.put(count, {
          op: 'read',
          tag: next,
          file,
          fileOffset: (next % 1000) * 4096,
          poolOffset: 8 * MIB + slot * 4096,
          bytes: 4096,
        })
      }
      const completed = port.list(port.port.pump(count, slotOf.size === 128 ? 1 : 0, 100_000))
      deepest = Math.max(deepest, slotOf.size)
      for (const { tag, result } of completed) {
        const slot = slotOf.get(tag)
        if (slot === undefined || seen.has(tag)) return t.fail(`tag ${tag} completed twice or was never submitted`)
        t.is(result, 4096)
        const at = 8 * MIB + slot * 4096
        if (expected.compare(memory, at, at + 4096, tag * 4096, (tag + 1) * 4096) !== 0) t.fail(`bytes of read ${tag}`)
        seen.add(tag)
        slotOf.delete(tag)
        free.push(slot)
      }
      if (port.port.inFlight() !== slotOf.size) t.fail('inFlight counts what was submitted and not reaped')
    }
    t.is(deepest, 128)
  })

  when(`Port (${io}): entries beyond the depth in flight complete with -EBUSY, the others as usual`, (t) => {
    const bytes = 16 * MIB
    const { file, port, memory } = bench(t, io, { depth: 4, fileBytes: bytes, poolMib: 128 })
    memory.fill(1)
    port.run([{ op: 'write', file, fileOffset: 0, poolOffset: 0, bytes }])
    const submitFour = (first: number) => {
      for (let i = 0; i < 4; i++) {
        const tag = first + i
        port.put(i, { op: 'read', file, fileOffset: 0, poolOffset: tag * bytes, bytes, tag })
      }
      return port.list(port.port.pump(4, 0, 0)).map(({ result }) => result)
    }
    let results = submitFour(0)
    // A thread that loses its core in the call comes back from it with everything read, and nothing in flight.
    while (results.length === 4) results = submitFour(0)
    results.push(...submitFour(4))
    results.push(...port.reap(8 - results.length).map(({ result }) => result))
    t.is(results.length, 8)
    t.true(results.filter((result) => result === EBUSY).length >= 1)
    t.true(results.filter((result) => result === bytes).length >= 4)
    t.true(results.every((result) => result === EBUSY || result === bytes))
  })

  when(`Port (${io}): a closed file is unknown at once, and what was in flight on it completes`, (t) => {
    const { pool, port, memory } = bench(t, io, { depth: 32 })
    const folder = folderOf(t)
    for (let round = 0; round < 80; round++) {
      // More files than a ring registers: their places must come back.
      const path = join(folder, `${round}.dat`)
      const { file } = native.openShard(path, MIB, true)
      const write = { op: 'write', file, fileOffset: 0, poolOffset: 0, bytes: MIB } as const
      port.put(0, { ...write, tag: round })
      const early = port.list(port.port.pump(1, 0, 0))
      native.closeShard(file)
      rmSync(path)
      t.deepEqual(early.length === 1 ? early : port.reap(1), [{ tag: round, result: MIB, aux: 0, kind: COMPLETION.io }])
      t.deepEqual(port.run([write]), [EBADF])
    }
    t.is(memory.length, 8 * MIB)
    t.true(pool > 0)
  })

  when(`Port (${io}): drain keeps the completions for the next pump`, (t) => {
    const { file, port } = bench(t, io)
    for (let i = 0; i < 8; i++)
      port.put(i, { op: 'read', tag: 100 + i, file, fileOffset: 0, poolOffset: i * MIB, bytes: MIB })
    const early = port.list(port.port.pump(8, 0, 0))
    t.is(port.port.drain(5000), 0)
    t.is(port.port.inFlight(), 0)
    const rest = port.list(port.port.pump(0, 0, 0))
    t.deepEqual(
      [...early, ...rest].map(({ tag, result }) => [tag, result]).sort(),
      Array.from({ length: 8 }, (_, i) => [100 + i, MIB]),
    )
  })

  when(`Port (${io}): a pool stays mapped for the port that uses it after its name is gone`, (t) => {
    const { pool } = native.openPool(2 * MIB)
    const { file } = native.openShard(join(folderOf(t), 'shard.dat'), MIB, true)
    const port = new TestPort(native, { io, pool })
    native.closePool(pool)
    t.throws(() => native.poolView(pool, 0, 1), { code: 'EBADF' })
    t.deepEqual(port.run([{ op: 'write', file, fileOffset: 0, poolOffset: MIB, bytes: MIB }]), [MIB])
    port.close()
    native.closeShard(file)
  })

  when(`Port (${io}): park sleeps only while the word says so, at most its time, and ends on a wake`, (t) => {
    const { file, port } = bench(t, io)
    /** Least of a few, in milliseconds: another process may take the core at any moment. */
    const elapsed = (before: () => void, timeoutUs: number): number =>
      Math.min(
        ...Array.from({ length: 3 }, () => {
          before()
          const start = performance.now()
          t.is(port.port.park(timeoutUs), 0)
          return performance.now() - start
        }),
      )
    const nothing = (): void => {}
    t.true(elapsed(nothing, 100_000) < 50, 'RUN: no sleep')
    port.parkWord[0] = 2
    t.true(elapsed(nothing, 20_000) >= 19)
    const capped = elapsed(nothing, 10_000_000)
    t.true(capped >= 95 && capped < 1000, `capped at 100 ms, took ${capped}`)
    t.true(elapsed(() => native.wake(port.port.id), 100_000) < 50, 'a wake before the sleep is not lost')
    t.true(elapsed(nothing, 20_000) >= 19, 'and is spent once')

    port.put(0, { op: 'read', tag: 5, file, fileOffset: 0, poolOffset: 0, bytes: MIB })
    const done = port.list(port.port.pump(1, 0, 0))
    while (done.length === 0) done.push(...port.list(port.port.park(100_000)))
    t.deepEqual(done, [{ tag: 5, result: MIB, aux: 0, kind: COMPLETION.io }])
  })

  when(`Port (${io}): after close every call answers, none crashes, and wake finds nothing`, (t) => {
    const { port } = bench(t, io)
    const { id } = port.port
    port.close()
    port.close()
    t.is(port.port.pump(0, 0, 0), EBADF)
    t.is(port.port.park(0), EBADF)
    t.is(port.port.inFlight(), 0)
    t.is(port.port.drain(1), 0)
    t.throws(() => port.port.report(), { code: 'EBADF' })
    t.notThrows(() => native.wake(id))
  })
}

test('openPort: refuses arrays that are not shared, too short or of another type, and unknown pools', (t) => {
  const shared = {
    depth: 8,
    submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * 8)),
    completions: new Int32Array(new SharedArrayBuffer(16 * 16)),
    results: new Uint32Array(new SharedArrayBuffer(4)),
    parkWord: new Int32Array(new SharedArrayBuffer(4)),
    pool: -1,
    io: 'posix' as const,
    register: false,
  }
  t.notThrows(() => native.openPort(shared).close())
  const refused = { code: 'ERR_INVALID_ARG_TYPE' }
  t.throws(() => native.openPort({ ...shared, submissions: new Float64Array(80) }), refused)
  t.throws(() => native.openPort({ ...shared, submissions: shared.submissions.subarray(1) }), refused)
  t.throws(() => native.openPort({ ...shared, completions: new Int32Array(new SharedArrayBuffer(8 * 16)) }), refused)
  t.throws(() => native.openPort({ ...shared, completions: new Int32Array(new SharedArrayBuffer(24 * 16)) }), refused)
  t.throws(() => native.openPort({ ...shared, parkWord: new Uint32Array(new SharedArrayBuffer(4)) as never }), refused)
  t.throws(() => native.openPort({ ...shared, depth: 6 }), refused)
  t.throws(() => native.openPort({ ...shared, depth: 0 }), refused)
  t.throws(() => native.openPort({ ...shared, io: 'aio' as never }), refused)
  t.throws(() => native.openPort({ ...shared, pool: 4711 }), { code: 'EBADF' })
})
