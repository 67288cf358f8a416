import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import * as dram from '../../src/actors/dram-worker/messages.js'
import { DRAM_WORKER_ENTRY, DRAM_WORKER_LAYOUT, type DramWorkerParams } from '../../src/actors/dram-worker/params.js'
import * as reader from '../../src/actors/host-reader/messages.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../../src/actors/host-reader/params.js'
import * as restore from '../../src/actors/host-restore/messages.js'
import {
  HOST_RESTORE_ENTRY,
  HOST_RESTORE_LAYOUT,
  type HostRestoreParams,
} from '../../src/actors/host-restore/params.js'
import { Wiring } from '../../src/actors/runtime/wiring.js'
import * as writeback from '../../src/actors/writeback/messages.js'
import { WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../../src/actors/writeback/params.js'
import { loadNative } from '../../src/binding/load.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { MIB } from '../../src/shared/base/units.js'
import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { COPY, NO_OFFSET, SOURCE, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import { type List, listAt, listOf } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { NONE_FAILED, slotWord } from '../../src/shared/layout/wire/slots.js'
import { CounterReader } from '../../src/shared/rings/counter-page.js'
import { directIoWorks } from '../support/direct-io.js'
import { LaneRig, laneSpec } from '../support/lane-rig.js'
import { needs } from '../support/needs.js'

/**
 * The four lanes on threads of their own, with real rings, a real file and real engine memory; main plays the manager.
 *
 * An engine with 4 layers and 48 pages. A block is two granules of two layers each; a segment of 5,000 bytes is padded
 * to 5,120, so a granule is 10,240 bytes and reads and writes are direct.
 */
const native = loadNative()
const PAGES = 48
const BLOCKS = PAGES / 2
const SEGMENT = { bytes: 5000, strideBytes: 5120 }
const GRANULES = 2
const LAYERS_PER_GRANULE = 2
const GRANULE_BYTES = LAYERS_PER_GRANULE * SEGMENT.strideBytes
const POOL_GRANULE_BYTES = 12_288
const LAYER_BYTES = PAGES * SEGMENT.bytes
const POOL_BYTES = 8 * MIB
const WINDOW_OFFSET_BYTES = 4 * MIB
const SHARD_BYTES = 8 * MIB
const SLOTS = 8

const poolOffsetOf = (block: number, granule: number) => (block * GRANULES + granule) * POOL_GRANULE_BYTES
const fileOffsetOf = (block: number, granule = 0) => (block * GRANULES + granule) * GRANULE_BYTES
const blocks = Array.from({ length: BLOCKS }, (_, block) => block)
const granules = blocks.flatMap((block) => [0, 1].map((granule) => ({ block, granule })))

class Engine {
  readonly pool = native.openPool(POOL_BYTES).pool
  readonly poolBytes = native.poolView(this.pool, 0, POOL_BYTES)
  readonly mapping: number
  readonly bytes: Uint8Array
  readonly template: number
  readonly slots = native.createSlots(SLOTS)
  readonly client = native.openSlots(this.slots.clientFd, this.slots.managerFd, SLOTS)
  readonly shard: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'orbitkv-lanes-'))

  constructor(direct: boolean) {
    const memory = native.createMemory(GRANULES * LAYERS_PER_GRANULE * LAYER_BYTES)
    const { mapping, bytes } = native.importMemory(memory)
    native.closeFd(memory)
    this.mapping = mapping
    this.bytes = native.mappingView(mapping, 0, bytes)
    const items = new Float64Array(GRANULES * LAYERS_PER_GRANULE * TEMPLATE_ITEM.doubles)
    for (let item = 0; item < GRANULES * LAYERS_PER_GRANULE; item++) {
      const at = item * TEMPLATE_ITEM.doubles
      items[at + TEMPLATE_ITEM.mapping] = mapping
      items[at + TEMPLATE_ITEM.baseBytes] = item * LAYER_BYTES
      items[at + TEMPLATE_ITEM.pageStrideBytes] = SEGMENT.bytes
      items[at + TEMPLATE_ITEM.pageCount] = PAGES
      items[at + TEMPLATE_ITEM.granuleOffsetBytes] = (item % LAYERS_PER_GRANULE) * SEGMENT.strideBytes
      items[at + TEMPLATE_ITEM.bytes] = SEGMENT.bytes
      items[at + TEMPLATE_ITEM.paddedBytes] = SEGMENT.strideBytes
    }
    this.template = native.defineTemplate(items, Float64Array.from([0, 2, 4]))
    this.shard = native.openShard(join(this.#folder, 'shard.dat'), SHARD_BYTES, direct).file
  }

  page(page: number): Uint8Array[] {
    return Array.from({ length: GRANULES * LAYERS_PER_GRANULE }, (_, layer) => {
      const first = layer * LAYER_BYTES + page * SEGMENT.bytes
      return this.bytes.subarray(first, first + SEGMENT.bytes)
    })
  }

  /** Fills a page with bytes that depend on page, layer and position. */
  fill(page: number): void {
    for (const [layer, segment] of this.page(page).entries()) {
      for (let at = 0; at < segment.length; at++) segment[at] = (at * 31 + page * 7 + layer * 101 + (at >> 8)) & 255
    }
  }

  samePages(a: number, b: number): boolean {
    const other = this.page(b)
    return this.page(a).every((segment, layer) => Buffer.compare(segment, other[layer] as Uint8Array) === 0)
  }

  /** COPY descriptors between every granule of `blocks` and pages `page(block)`. */
  copies(page: (block: number) => number): List {
    return listOf(
      granules.flatMap(({ block, granule }) => [
        this.template,
        granule,
        page(block),
        poolOffsetOf(block, granule),
        0,
        LAYERS_PER_GRANULE,
        0,
      ]),
    )
  }

  /** SOURCE descriptors: every block from the file into the page BLOCKS + block. */
  sources(crcs: List, damagedBlock = -1): List {
    return listOf(
      granules.flatMap(({ block, granule }, index) => {
        const numbers = new Array<number>(SOURCE.doubles).fill(0)
        numbers[SOURCE.template] = this.template
        numbers[SOURCE.granule] = granule
        numbers[SOURCE.page] = BLOCKS + block
        numbers[SOURCE.poolOffsetBytes] = NO_OFFSET
        numbers[SOURCE.file] = this.shard
        numbers[SOURCE.fileOffsetBytes] = fileOffsetOf(block, granule)
        numbers[SOURCE.bytes] = GRANULE_BYTES
        numbers[SOURCE.segmentBytes] = SEGMENT.bytes
        numbers[SOURCE.segmentStrideBytes] = SEGMENT.strideBytes
        numbers[SOURCE.crc32] = block === damagedBlock ? (listAt(crcs, index) + 1) % 2 ** 32 : listAt(crcs, index)
        numbers[SOURCE.generation] = 1000 + block
        numbers[SOURCE.itemCount] = LAYERS_PER_GRANULE
        numbers[SOURCE.pair] = block
        numbers[SOURCE.key] = block
        return numbers
      }),
    )
  }

  close(): void {
    native.releaseTemplate(this.template)
    native.releaseMapping(this.mapping)
    native.closeSlots(this.client)
    native.releaseSlots(this.slots.slots)
    for (const fd of [this.slots.clientFd, this.slots.managerFd, this.slots.eventFd]) native.closeFd(fd)
    native.closeShard(this.shard)
    native.closePool(this.pool)
    rmSync(this.#folder, { recursive: true })
  }
}

function fourLanes(engine: Engine, io: 'uring' | 'posix') {
  const wiring = new Wiring()
  wiring.actor('manager', { series: [], histograms: [] })
  wiring.actor('host-reader', HOST_READER_LAYOUT)
  wiring.actor('writeback', WRITEBACK_LAYOUT)
  wiring.actor('dram-worker', DRAM_WORKER_LAYOUT)
  wiring.actor('host-restore', HOST_RESTORE_LAYOUT)
  for (const lane of ['host-reader', 'writeback', 'dram-worker', 'host-restore']) wiring.connectPair('manager', lane)
  wiring.connectPair('host-restore', 'host-reader')
  const rig = new LaneRig(native, wiring, 'manager')
  const client = 'manager'
  const { pool } = engine
  const restoreParams: HostRestoreParams = {
    client,
    device: 'host',
    readers: ['host-reader'],
    pool,
    windowOffsetBytes: WINDOW_OFFSET_BYTES,
    windowBytes: 2 * MIB,
    storeReads: 16,
    parts: 4,
    partDescriptors: 4,
    io,
  }
  const readerParams: HostReaderParams = { clients: [client, 'host-restore'], pool, depth: 16, io, register: true }
  const writeParams: WritebackParams = {
    client,
    pool,
    depth: 16,
    windowBytes: 60_000,
    joinBytes: 0,
    io,
    register: true,
  }
  const dramParams: DramWorkerParams = { client, device: 'host', pool, parts: 4, partDescriptors: 8, io }
  // In the order in which they stop: a reader outlives its clients.
  const lanes = {
    hostRestore: rig.lane(laneSpec('host-restore', HOST_RESTORE_ENTRY, restoreParams, restore)),
    dramWorker: rig.lane(laneSpec('dram-worker', DRAM_WORKER_ENTRY, dramParams, dram)),
    writeback: rig.lane(laneSpec('writeback', WRITEBACK_ENTRY, writeParams, writeback)),
    hostReader: rig.lane(laneSpec('host-reader', HOST_READER_ENTRY, readerParams, reader)),
  }
  return { rig, wiring, ...lanes }
}

/** Waits for a slot as a client does; the reply that the lane sends after it bounds the wait. */
function poll(engine: Engine, slot: number, result: Float64Array): number {
  return native.slotPoll(engine.client, slot, result)
}

const NO_FINISH = { slots: 0, slot: 0, slotGeneration: 0, fence: 0 }

async function roundTrip(t: ExecutionContext, io: 'uring' | 'posix', direct: boolean): Promise<void> {
  const engine = new Engine(direct)
  const { rig, wiring, hostRestore, dramWorker, writeback: writer } = fourLanes(engine, io)
  t.teardown(() => rig.abandon())
  await rig.open()
  for (const block of blocks) engine.fill(block)

  // Save: engine pages -> pool, then checksums of what arrived.
  dramWorker.send({ kind: 'save', job: 1, more: 0, list: engine.copies((block) => block), ...NO_FINISH })
  t.is((await dramWorker.reply('save-done')).status, 0)
  const sums = granules.flatMap(({ block, granule }) => [
    poolOffsetOf(block, granule),
    GRANULE_BYTES,
    SEGMENT.bytes,
    SEGMENT.strideBytes,
  ])
  dramWorker.send({ kind: 'checksum', job: 2, list: listOf(sums) })
  const { status, list: crcs } = await dramWorker.reply('checksum-done')
  t.is(status, 0)
  t.is(crcs.length, granules.length)
  for (const [index, { block, granule }] of granules.entries()) {
    const at = poolOffsetOf(block, granule)
    const bytes = engine.poolBytes.subarray(at, at + GRANULE_BYTES)
    t.is(listAt(crcs, index), crc32Strided(bytes, SEGMENT.bytes, SEGMENT.strideBytes))
  }

  // Write: pool -> file, one job a block.
  for (const block of blocks) {
    const list = listOf([0, 1].flatMap((granule) => [poolOffsetOf(block, granule), GRANULE_BYTES]))
    const file = engine.shard
    writer.send({ kind: 'write', job: block, file, fileOffsetBytes: fileOffsetOf(block), list })
  }
  for (const _ of blocks) t.is((await writer.reply('write-done')).status, 0)

  // Ordinary restore: pool -> other pages, with a fence that the client raises later.
  const result = new Float64Array(7)
  native.slotSubmit(engine.client, 1, 5, 77, 0)
  const finish = (slot: number, fence: number) => ({ slots: engine.slots.slots, slot, slotGeneration: 5, fence })
  const load = { more: 0, bytes: 123_456, admitUs: native.monotonicUs() } as const
  const toUpper = engine.copies((block) => BLOCKS + block)
  native.slotRaiseFence(engine.client, 1, 2)
  dramWorker.send({ kind: 'restore', job: 3, list: toUpper, ...load, ...finish(1, 3) })
  dramWorker.send({ kind: 'checksum', job: 4, list: listOf(sums.slice(0, 4)) })
  await dramWorker.reply('checksum-done')
  t.not(poll(engine, 1, result) % 65536, SLOT_STATE.done, 'the fenced restore waits, its successor went')
  native.slotRaiseFence(engine.client, 1, 3)
  t.is((await dramWorker.reply('restore-done')).status, 0)
  t.is(poll(engine, 1, result), slotWord(5, SLOT_STATE.done))
  t.deepEqual([result[1], result[2], result[3]], [0, NONE_FAILED, 123_456])
  for (const block of blocks) t.true(engine.samePages(block, BLOCKS + block), `block ${block} from DRAM`)

  // Explicit route: file -> window -> pages. Nothing of it can come from the pool any more.
  engine.poolBytes.fill(0xee)
  for (const block of blocks) for (const segment of engine.page(BLOCKS + block)) segment.fill(0xdd)
  native.slotSubmit(engine.client, 2, 5, 78, 0)
  hostRestore.send({ kind: 'restore', job: 9, list: engine.sources(crcs), ...load, ...finish(2, 0) })
  const restored = await hostRestore.reply('restore-done')
  t.is(restored.status, 0)
  t.is(restored.ssdBytes, granules.length * GRANULE_BYTES)
  t.is(poll(engine, 2, result), slotWord(5, SLOT_STATE.done))
  for (const block of blocks) t.true(engine.samePages(block, BLOCKS + block), `block ${block} from SSD`)

  // A damaged block fails its restore, names itself, and reaches no page.
  for (const segment of engine.page(BLOCKS + 5)) segment.fill(0xcc)
  native.slotSubmit(engine.client, 3, 5, 79, 0)
  hostRestore.send({ kind: 'restore', job: 10, list: engine.sources(crcs, 5), ...load, ...finish(3, 0) })
  const failed = await hostRestore.reply('restore-done')
  t.is(failed.status, ERROR_CODES.checksum_mismatch)
  t.deepEqual([...failed.list.doubles], [1005])
  t.is(failed.firstFailed, 5)
  t.is(poll(engine, 3, result), 0, 'the slot is for whoever hides the generation')
  t.true(engine.page(BLOCKS + 5).every((segment) => segment.every((byte) => byte === 0xcc)))

  // An engine that died never reaches its fences: cancel ends what waits for them, on both routes.
  for (const slot of [4, 5]) native.slotSubmit(engine.client, slot, 5, 80 + slot, 0)
  hostRestore.send({ kind: 'restore', job: 11, list: engine.sources(crcs), ...load, ...finish(4, 9) })
  dramWorker.send({ kind: 'restore', job: 12, list: toUpper, ...load, ...finish(5, 9) })
  hostRestore.send({ kind: 'cancel', job: 11 })
  dramWorker.send({ kind: 'cancel', job: 12 })
  t.is((await hostRestore.reply('restore-done')).status, ERROR_CODES.cancelled)
  t.is((await dramWorker.reply('restore-done')).status, ERROR_CODES.cancelled)
  for (const slot of [4, 5]) t.is(poll(engine, slot, result), slotWord(5, SLOT_STATE.cancelled))

  // A template that has gone: the part is refused when it is queued, and only its job fails.
  const gone = engine.copies((block) => block)
  for (let at = 0; at < gone.length; at += COPY.doubles) gone.doubles[at + COPY.template] = 9999
  dramWorker.send({ kind: 'save', job: 13, more: 0, list: gone, ...NO_FINISH })
  dramWorker.send({ kind: 'save', job: 14, more: 0, list: engine.copies((block) => block), ...NO_FINISH })
  const refused = await dramWorker.reply('save-done')
  t.deepEqual([refused.job, refused.status], [13, ERROR_CODES.io_copy_failed])
  const saved = await dramWorker.reply('save-done')
  t.deepEqual([saved.job, saved.status], [14, ERROR_CODES.ok])

  t.deepEqual(await rig.close(), ['left', 'left', 'left', 'left'])
  t.deepEqual(rig.deaths, [])
  const counters = new CounterReader(wiring.seat('host-restore').counters, HOST_RESTORE_LAYOUT)
  for (const [index, { kind, name }] of HOST_RESTORE_LAYOUT.series.entries()) {
    if (kind === 'gauge') t.is(counters.series(index), 0, name)
  }
  t.is(counters.histogram(0).count, 3)
  engine.close()
}

const probe = native.probe()
const direct = directIoWorks(native)
const withDirect = needs(direct, `no O_DIRECT in ${tmpdir()}`)
const withUring = needs(direct && probe.available, `no io_uring (${probe.reason}) or no O_DIRECT in ${tmpdir()}`)

withUring('lanes: every byte comes back through real threads, rings and io_uring with O_DIRECT', (t) =>
  roundTrip(t, 'uring', true),
)
withDirect('lanes: every byte comes back through real threads, rings and POSIX reads with O_DIRECT', (t) =>
  roundTrip(t, 'posix', true),
)
test('lanes: every byte comes back where direct I/O is not to be had', (t) => roundTrip(t, 'posix', false))
