import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { HOST_READER_COUNT } from '../../src/actors/host-reader/counters.js'
import * as reader from '../../src/actors/host-reader/messages.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../../src/actors/host-reader/params.js'
import { Wiring } from '../../src/actors/runtime/wiring.js'
import { WRITEBACK_COUNT } from '../../src/actors/writeback/counters.js'
import * as writeback from '../../src/actors/writeback/messages.js'
import { WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../../src/actors/writeback/params.js'
import { loadNative } from '../../src/binding/load.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { KIB, MIB } from '../../src/shared/base/units.js'
import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { NO_CRC } from '../../src/shared/layout/descriptors.js'
import { listOf } from '../../src/shared/layout/records.js'
import { CounterReader } from '../../src/shared/rings/counter-page.js'
import { directIoWorks } from '../support/direct-io.js'
import { LaneRig, laneSpec } from '../support/lane-rig.js'
import { needs } from '../support/needs.js'

/** writeback and host-reader on threads of their own, with real rings and a real file; main plays the manager. */
const native = loadNative()
const GRANULES = 96
const GRANULE_BYTES = 64 * KIB
const SEGMENT = { bytes: 16 * KIB - 300, strideBytes: 16 * KIB }
const POOL_BYTES = 16 * MIB
const SHARD_BYTES = 8 * MIB

async function throughDisk(t: ExecutionContext, io: 'uring' | 'posix', direct: boolean): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-lanes-'))
  const shard = native.openShard(join(folder, 'shard.dat'), SHARD_BYTES, direct).file
  const { pool } = native.openPool(POOL_BYTES)
  const memory = native.poolView(pool, 0, POOL_BYTES)
  const source = memory.subarray(0, GRANULES * GRANULE_BYTES)
  const targetOffset = 8 * MIB
  for (let at = 0; at < source.length; at++) source[at] = (at * 131 + (at >> 12) * 7) & 255
  const granule = (index: number) => source.subarray(index * GRANULE_BYTES, (index + 1) * GRANULE_BYTES)
  const crcs = Array.from({ length: GRANULES }, (_, index) =>
    crc32Strided(granule(index), SEGMENT.bytes, SEGMENT.strideBytes),
  )

  const wiring = new Wiring()
  wiring.actor('manager', { series: [], histograms: [] })
  wiring.actor('host-reader', HOST_READER_LAYOUT)
  wiring.actor('writeback', WRITEBACK_LAYOUT)
  for (const lane of ['host-reader', 'writeback']) wiring.connectPair('manager', lane)
  const rig = new LaneRig(native, wiring, 'manager')
  t.teardown(() => rig.abandon())
  const readerParams: HostReaderParams = { clients: ['manager'], pool, depth: 16, io, register: true }
  const writeParams: WritebackParams = {
    client: 'manager',
    pool,
    depth: 8,
    windowBytes: 300_000,
    joinBytes: 0,
    io,
    register: true,
  }
  const writer = rig.lane(laneSpec('writeback', WRITEBACK_ENTRY, writeParams, writeback))
  const hostReader = rig.lane(laneSpec('host-reader', HOST_READER_ENTRY, readerParams, reader))
  await rig.open()

  const perJob = 3
  for (let job = 0; job < GRANULES / perJob; job++) {
    const first = job * perJob * GRANULE_BYTES
    const list = listOf([0, 1, 2].flatMap((each) => [first + each * GRANULE_BYTES, GRANULE_BYTES]))
    writer.send({ kind: 'write', job, file: shard, fileOffsetBytes: first, list })
  }
  for (let job = 0; job < GRANULES / perJob; job++) {
    const done = await writer.reply('write-done')
    t.is(done.status, ERROR_CODES.ok)
    t.is(done.bytes, perJob * GRANULE_BYTES)
  }
  writer.send({ kind: 'write', job: 999, file: shard, fileOffsetBytes: SHARD_BYTES, list: listOf([0, GRANULE_BYTES]) })
  t.is((await writer.reply('write-done')).status, ERROR_CODES.io_write_failed, 'a write outside the file is refused')

  // Every granule, then one with a wrong checksum, one unverified, one at the end of the file.
  const read = (index: number, fileOffsetBytes: number, crc: number) =>
    [index, shard, fileOffsetBytes, targetOffset + index * GRANULE_BYTES, GRANULE_BYTES].concat([
      SEGMENT.bytes,
      SEGMENT.strideBytes,
      crc,
    ])
  const list = listOf([
    ...crcs.flatMap((crc, index) => read(index, index * GRANULE_BYTES, crc)),
    ...read(GRANULES, 0, ((crcs[0] ?? 0) + 1) % 2 ** 32),
    ...read(GRANULES + 1, GRANULE_BYTES, NO_CRC),
    ...read(GRANULES + 2, SHARD_BYTES, crcs[0] ?? 0),
  ])
  hostReader.send({ kind: 'read-batch', batch: 4, list })
  const statuses: number[] = []
  for (let each = 0; each < GRANULES + 3; each++) {
    const done = await hostReader.reply('read-done')
    t.is(done.batch, 4)
    statuses[done.index] = done.status
  }
  const { ok, checksum_mismatch, io_short } = ERROR_CODES
  t.deepEqual(statuses, [...crcs.map(() => ok), checksum_mismatch, ok, io_short])
  const target = memory.subarray(targetOffset, targetOffset + source.length)
  t.is(Buffer.compare(source, target), 0)

  t.deepEqual(await rig.close(), ['left', 'left'])
  t.deepEqual(rig.deaths, [])
  const reads = new CounterReader(wiring.seat('host-reader').counters, HOST_READER_LAYOUT)
  const writes = new CounterReader(wiring.seat('writeback').counters, WRITEBACK_LAYOUT)
  t.is(reads.series(HOST_READER_COUNT.readBytes), (GRANULES + 1) * GRANULE_BYTES)
  t.is(reads.histogram(0).count, GRANULES + 3)
  t.is(reads.series(HOST_READER_COUNT.readsInFlight), 0)
  t.is(writes.series(WRITEBACK_COUNT.writeBytes), GRANULES * GRANULE_BYTES)
  t.is(writes.series(WRITEBACK_COUNT.bytesInFlight), 0)
  native.closeShard(shard)
  native.closePool(pool)
  rmSync(folder, { recursive: true })
}

const probe = native.probe()
const direct = directIoWorks(native)
const withDirect = needs(direct, `no O_DIRECT in ${tmpdir()}`)
const withUring = needs(direct && probe.available, `no io_uring (${probe.reason}) or no O_DIRECT in ${tmpdir()}`)

withUring('disk lanes: what is written comes back verified through io_uring with O_DIRECT', (t) =>
  throughDisk(t, 'uring', true),
)
withDirect('disk lanes: what is written comes back verified through POSIX threads with O_DIRECT', (t) =>
  throughDisk(t, 'posix', true),
)
test('disk lanes: what is written comes back verified where direct I/O is not to be had', (t) =>
  throughDisk(t, 'posix', false))
