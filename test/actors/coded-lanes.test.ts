import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { DRAM_WORKER_SERIES } from '../../src/actors/dram-worker/counters.js'
import * as dram from '../../src/actors/dram-worker/messages.js'
import { DRAM_WORKER_ENTRY, DRAM_WORKER_LAYOUT, type DramWorkerParams } from '../../src/actors/dram-worker/params.js'
import * as reader from '../../src/actors/host-reader/messages.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../../src/actors/host-reader/params.js'
import { HOST_RESTORE_SERIES } from '../../src/actors/host-restore/counters.js'
import * as restore from '../../src/actors/host-restore/messages.js'
import {
  HOST_RESTORE_ENTRY,
  HOST_RESTORE_LAYOUT,
  type HostRestoreParams,
} from '../../src/actors/host-restore/params.js'
import { Wiring } from '../../src/actors/runtime/wiring.js'
import { WRITEBACK_COUNT } from '../../src/actors/writeback/counters.js'
import * as writeback from '../../src/actors/writeback/messages.js'
import { WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../../src/actors/writeback/params.js'
import { loadNative } from '../../src/binding/load.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { MIB } from '../../src/shared/base/units.js'
import type { ItemCoding } from '../../src/shared/codec/coding.js'
import { CODEC_COUNT } from '../../src/shared/codec/lane-series.js'
import { decodeTurboquant, encodeTurboquant } from '../../src/shared/codec/turboquant.js'
import { NO_OFFSET, SOURCE } from '../../src/shared/layout/descriptors.js'
import { type List, listAt, listOf } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { slotWord } from '../../src/shared/layout/wire/slots.js'
import { type CounterLayout, CounterReader } from '../../src/shared/rings/counter-page.js'
import { aligned, CodedEngine, type CodedItem, fillGaussians, GUARD } from '../native/coded-engine.js'
import { directIoWorks } from '../support/direct-io.js'
import { LaneRig, laneSpec } from '../support/lane-rig.js'
import { needs } from '../support/needs.js'

/**
 * The lanes on threads of their own, with items that a codec shortens: out of pages, through DRAM and a file, and back into
 * other pages. Main plays the manager. A block is one page of three items, each a granule.
 */
const native = loadNative()
const BLOCKS = 4
const PAGES = 2 * BLOCKS
const FP8 = 0
const RAW = 1
const QUANTIZED = 2
const KEYS: ItemCoding = { format: 'turboquant', scalar: 'bf16', role: 'k', bits: 4, headDim: 64, seed: 42 }
const ITEMS: readonly CodedItem[] = [
  { coding: { format: 'fp8', scalar: 'bf16' }, bytes: 4096, base: 64, pageStride: 5000 },
  { coding: { format: 'raw', scalar: 'bytes' }, bytes: 1536, base: 50_000, pageStride: 2000 },
  { coding: KEYS, bytes: 4096, base: 70_000, pageStride: 5000 },
]
const STORED = [2048, 1536, 32 * 34] as const
/** The block whose first item has a value that FP8 does not: it cannot be stored but raw. */
const UNFIT = 3
const SLOT_BYTES = 4096
const WINDOW_OFFSET_BYTES = 4 * MIB
const SLOTS = 8

const poolOffsetOf = (block: number, item: number) => (block * ITEMS.length + item) * SLOT_BYTES
const granules = Array.from({ length: BLOCKS * ITEMS.length }, (_, index) => ({
  block: Math.floor(index / ITEMS.length),
  item: index % ITEMS.length,
}))
const fits = ({ block, item }: { block: number; item: number }) => block !== UNFIT || item !== FP8
const stored = granules.filter(fits)
/** In the file, items of a block follow one another. */
const fileOffsetOf = (block: number, item: number) =>
  stored
    .filter((each) => each.block === block && each.item < item)
    .reduce((at, each) => at + aligned(STORED[each.item] as number), poolOffsetOf(block, 0))

/** Integers that FP8 has exactly, as bfloat16. */
function fillIntegers(bytes: Uint8Array, seed: number): void {
  const words = new Uint16Array(bytes.length / 2)
  const float = new Float32Array(1)
  const word = new Uint32Array(float.buffer)
  for (const at of words.keys()) {
    float[0] = ((at * 7 + seed) % 17) - 8
    words[at] = (word[0] as number) >>> 16
  }
  bytes.set(new Uint8Array(words.buffer))
}

class World {
  readonly pool = native.openPool(8 * MIB).pool
  readonly poolBytes = native.poolView(this.pool, 0, 8 * MIB)
  readonly engine: CodedEngine
  readonly slots = native.createSlots(SLOTS)
  readonly client = native.openSlots(this.slots.clientFd, this.slots.managerFd, SLOTS)
  readonly shard: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'orbitkv-coded-lanes-'))

  constructor(t: ExecutionContext, direct: boolean) {
    this.engine = new CodedEngine(t, ITEMS, PAGES)
    this.shard = native.openShard(join(this.#folder, 'shard.dat'), 8 * MIB, direct).file
    for (let block = 0; block < BLOCKS; block++) {
      fillIntegers(this.engine.item(FP8, block), block)
      this.engine.item(RAW, block).fill(0x30 + block)
      fillGaussians(this.engine.item(QUANTIZED, block), block + 1)
    }
    this.engine.item(FP8, UNFIT).set([0x7a, 0x44], 1000) // 1000 as bfloat16
  }

  /** What restoring an item of a block has to bring. */
  expected(block: number, item: number): Uint8Array {
    const bytes = this.engine.item(item, block)
    if (item !== QUANTIZED) return bytes
    const coding = encodeTurboquant(KEYS, bytes)
    return (coding === null ? null : decodeTurboquant(KEYS, coding, bytes.length)) ?? new Uint8Array(0)
  }

  /** True when every item that was stored is in the page beside its block's. */
  restored(t: ExecutionContext, what: string): void {
    for (const { block, item } of stored) {
      const equal = Buffer.compare(this.engine.item(item, BLOCKS + block), this.expected(block, item)) === 0
      t.true(equal, `item ${item} of block ${block} ${what}`)
    }
  }

  /** COPY descriptors of granules; `bytesOf`: the room or the stored bytes of what is coded. */
  copies(
    which: readonly { block: number; item: number }[],
    firstPage: number,
    bytesOf: (item: number) => number,
  ): List {
    return listOf(
      which.flatMap(({ block, item }) => {
        const bytes = item === RAW ? 0 : bytesOf(item)
        return this.engine.copy(item, firstPage + block, poolOffsetOf(block, item), bytes)
      }),
    )
  }

  /** SOURCE descriptors of everything that was stored, from the file. */
  sources(crcs: ReadonlyMap<number, number>): List {
    return listOf(
      stored.flatMap(({ block, item }) => {
        const numbers = new Array<number>(SOURCE.doubles).fill(0)
        numbers[SOURCE.template] = this.engine.template
        numbers[SOURCE.granule] = item
        numbers[SOURCE.page] = BLOCKS + block
        numbers[SOURCE.poolOffsetBytes] = NO_OFFSET
        numbers[SOURCE.file] = this.shard
        numbers[SOURCE.fileOffsetBytes] = fileOffsetOf(block, item)
        numbers[SOURCE.bytes] = aligned(STORED[item] as number)
        numbers[SOURCE.segmentBytes] = STORED[item] as number
        numbers[SOURCE.segmentStrideBytes] = aligned(STORED[item] as number)
        numbers[SOURCE.crc32] = crcs.get(poolOffsetOf(block, item)) as number
        numbers[SOURCE.generation] = 1000 + block
        numbers[SOURCE.itemCount] = 1
        numbers[SOURCE.pair] = block
        numbers[SOURCE.key] = block
        numbers[SOURCE.encoded] = item === RAW ? 0 : 1
        return numbers
      }),
    )
  }

  /** Stored bytes as they lie in the pool. */
  codingOf(block: number, item: number): Uint8Array {
    return this.poolBytes.subarray(poolOffsetOf(block, item), poolOffsetOf(block, item) + (STORED[item] as number))
  }

  crcs(): Map<number, number> {
    return new Map(stored.map(({ block, item }) => [poolOffsetOf(block, item), crc32(this.codingOf(block, item))]))
  }

  forget(): void {
    for (const { block, item } of granules) this.engine.item(item, BLOCKS + block).fill(GUARD)
  }

  close(): void {
    native.releaseTemplate(this.engine.template)
    native.closeSlots(this.client)
    native.releaseSlots(this.slots.slots)
    for (const fd of [this.slots.clientFd, this.slots.managerFd, this.slots.eventFd]) native.closeFd(fd)
    native.closeShard(this.shard)
    native.closePool(this.pool)
    rmSync(this.#folder, { recursive: true })
  }
}

function lanesOf({ pool }: World, io: 'uring' | 'posix') {
  const wiring = new Wiring()
  const client = 'manager'
  wiring.actor(client, { series: [], histograms: [] })
  const layouts: Record<string, CounterLayout> = {
    'host-reader': HOST_READER_LAYOUT,
    writeback: WRITEBACK_LAYOUT,
    'dram-worker': DRAM_WORKER_LAYOUT,
    'host-restore': HOST_RESTORE_LAYOUT,
  }
  for (const [name, layout] of Object.entries(layouts)) wiring.actor(name, layout)
  for (const name of Object.keys(layouts)) wiring.connectPair(client, name)
  wiring.connectPair('host-restore', 'host-reader')
  const rig = new LaneRig(native, wiring, client)
  const codes = { client, device: 'host', pool, parts: 4, partDescriptors: 8, codecBudgetBytes: MIB, io } as const
  const window = { windowOffsetBytes: WINDOW_OFFSET_BYTES, windowBytes: 2 * MIB }
  const restoreParams: HostRestoreParams = { ...codes, ...window, readers: ['host-reader'], storeReads: 16 }
  const dramParams: DramWorkerParams = codes
  const readerParams: HostReaderParams = { clients: [client, 'host-restore'], pool, depth: 16, io, register: true }
  const writeParams: WritebackParams = { client, pool, depth: 16, windowBytes: MIB, joinBytes: MIB, io, register: true }
  return {
    rig,
    counters: (name: string) => new CounterReader(wiring.seat(name).counters, layouts[name] as CounterLayout),
    hostRestore: rig.lane(laneSpec('host-restore', HOST_RESTORE_ENTRY, restoreParams, restore)),
    dramWorker: rig.lane(laneSpec('dram-worker', DRAM_WORKER_ENTRY, dramParams, dram)),
    writer: rig.lane(laneSpec('writeback', WRITEBACK_ENTRY, writeParams, writeback)),
    hostReader: rig.lane(laneSpec('host-reader', HOST_READER_ENTRY, readerParams, reader)),
  }
}

async function roundTrip(t: ExecutionContext, io: 'uring' | 'posix', direct: boolean): Promise<void> {
  const world = new World(t, direct)
  const { rig, counters, hostRestore, dramWorker, writer } = lanesOf(world, io)
  t.teardown(() => rig.abandon())
  await rig.open()
  const result = new Float64Array(7)
  const load = { more: 0, bytes: 123_456, admitUs: native.monotonicUs() } as const
  const finish = (slot: number) => {
    native.slotSubmit(world.client, slot, 5, 70 + slot, 0)
    return { slots: world.slots.slots, slot, slotGeneration: 5, fence: 0 }
  }

  // Save: what is coded says its stored bytes and checksum, what FP8 refused says nothing, and so do raw copies.
  const noFinish = { slots: 0, slot: 0, slotGeneration: 0, fence: 0 }
  const rooms = world.copies(granules, 0, (item) => aligned(STORED[item] as number))
  dramWorker.send({ kind: 'save', job: 1, more: 0, list: rooms, ...noFinish })
  const saved = await dramWorker.reply('save-done')
  t.is(saved.status, 0)
  t.is(saved.list.length, 2 * granules.length)
  const crcs = world.crcs()
  for (const [index, { block, item }] of granules.entries()) {
    const coded = item !== RAW && fits({ block, item })
    const crc = crcs.get(poolOffsetOf(block, item))
    const said = [listAt(saved.list, 2 * index), listAt(saved.list, 2 * index + 1)]
    t.deepEqual(said, coded ? [STORED[item], crc] : [0, 0], `item ${item} of block ${block}`)
  }

  // From DRAM into other pages.
  world.forget()
  const codings = world.copies(stored, BLOCKS, (item) => STORED[item] as number)
  dramWorker.send({ kind: 'restore', job: 2, list: codings, ...load, ...finish(1) })
  const loaded = await dramWorker.reply('restore-done')
  t.deepEqual([loaded.status, loaded.list.length], [0, 0])
  t.is(native.slotPoll(world.client, 1, result), slotWord(5, SLOT_STATE.done))
  world.restored(t, 'from DRAM')

  // Through the file, with nothing left in DRAM.
  const files = async (job: number) => {
    for (let block = 0; block < BLOCKS; block++) {
      const items = stored.filter((each) => each.block === block)
      const list = listOf(items.flatMap(({ item }) => [poolOffsetOf(block, item), aligned(STORED[item] as number)]))
      const fileOffsetBytes = fileOffsetOf(block, 0)
      writer.send({ kind: 'write', job: job + block, file: world.shard, fileOffsetBytes, list })
    }
    for (let block = 0; block < BLOCKS; block++) t.is((await writer.reply('write-done')).status, 0)
  }
  await files(100)
  const kept = Uint8Array.from(world.poolBytes.subarray(0, BLOCKS * ITEMS.length * SLOT_BYTES))
  world.poolBytes.fill(0xee)
  world.forget()
  hostRestore.send({ kind: 'restore', job: 3, list: world.sources(crcs), ...load, ...finish(2) })
  const restored = await hostRestore.reply('restore-done')
  t.deepEqual([restored.status, restored.list.length], [0, 0])
  t.is(native.slotPoll(world.client, 2, result), slotWord(5, SLOT_STATE.done))
  world.restored(t, 'from SSD')

  // A coding that is none, whose checksum is right: named by both lanes, and both leave the slot to the manager.
  world.poolBytes.set(kept)
  world.codingOf(1, QUANTIZED).set([0x00, 0x7c], 32) // the norm of the first vector is infinite
  const position = stored.findIndex(({ block, item }) => block === 1 && item === QUANTIZED)
  dramWorker.send({ kind: 'restore', job: 4, list: codings, ...load, ...finish(3) })
  const hot = await dramWorker.reply('restore-done')
  t.is(hot.status, ERROR_CODES.codec_damaged)
  t.deepEqual([...hot.list.doubles], [position])
  t.is(native.slotPoll(world.client, 3, result), 0, 'the slot is for whoever hides the generation')
  await files(200)
  hostRestore.send({ kind: 'restore', job: 5, list: world.sources(world.crcs()), ...load, ...finish(4) })
  const cold = await hostRestore.reply('restore-done')
  t.deepEqual([cold.status, cold.firstFailed], [ERROR_CODES.codec_damaged, 1])
  t.deepEqual([...cold.list.doubles], [1001])
  t.is(native.slotPoll(world.client, 4, result), 0, 'the slot is for whoever hides the generation')

  t.deepEqual(await rig.close(), ['left', 'left', 'left', 'left'])
  t.deepEqual(rig.deaths, [])
  const ofDram = (count: number) => counters('dram-worker').series(DRAM_WORKER_SERIES.length + count)
  const ofRestore = (count: number) => counters('host-restore').series(HOST_RESTORE_SERIES.length + count)
  const codedBytes = stored.reduce((sum, { item }) => sum + (item === RAW ? 0 : (STORED[item] as number)), 0)
  t.is(counters('writeback').series(WRITEBACK_COUNT.writeOperations), 2 * BLOCKS, 'items of a block went together')
  t.is(ofDram(CODEC_COUNT.encodedBytes), codedBytes)
  t.true(ofDram(CODEC_COUNT.decodedBytes) >= codedBytes)
  t.true(ofRestore(CODEC_COUNT.decodedBytes) >= codedBytes)
  t.is(ofDram(CODEC_COUNT.decodeFailures), 1)
  t.is(ofRestore(CODEC_COUNT.decodeFailures), 1)
  t.is(ofDram(CODEC_COUNT.reservedBytes), 0)
  world.close()
}

const probe = native.probe()
const direct = directIoWorks(native)
const withUring = needs(direct && probe.available, `no io_uring (${probe.reason}) or no O_DIRECT in ${tmpdir()}`)

withUring('lanes: what codecs stored comes back through real threads, rings and io_uring with O_DIRECT', (t) =>
  roundTrip(t, 'uring', true),
)
test('lanes: what codecs stored comes back where direct I/O is not to be had', (t) => roundTrip(t, 'posix', false))
