import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { loadNative } from '../src/binding/load.js'
import type { Native } from '../src/binding/surface.js'
import { spinUsOf } from '../src/control/spin.js'
import { alignUp, KIB, MIB, SECTOR_BYTES } from '../src/shared/base/units.js'
import { type ItemCoding, isCoded, RAW } from '../src/shared/codec/coding.js'
import { CODEC_BUDGET_BYTES } from '../src/shared/codec/setting.js'
import { NO_OFFSET, SOURCE } from '../src/shared/layout/descriptors.js'
import { CodecLane } from './support/codec-lane.js'
import { codedTemplate, copyList, type ItemCopy, roomOf } from './support/coded-engine.js'
import { gaussians } from './support/gaussians.js'
import { IoLoop } from './support/io-loop.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { cudaDeviceOf, PageMemory } from './support/page-memory.js'
import { freshFolder } from './support/place.js'
import { RestoreLanes } from './support/restore-lanes.js'
import { estimate, median, ratios, rounded } from './support/statistics.js'

/**
 * Question: how much sooner is a restore from the SSD over when pages are stored encoded? 12 blocks of 36 layers with
 * 256 KiB each, 108 MiB as the engine sees them, on the explicit route by the Manager's own lanes: as they are, as FP8 and
 * as TurboQuant with 4 bits, in turns in one run. Control: the raw restore of the same pair.
 * Blocks are encoded by the processor and written one after the other, so that a real disk keeps up; the lanes decode on
 * the device that `--device` names. Every restored item is compared with what the processor decodes, and every other byte
 * with what was there.
 * Does not show: encoding while an engine works, the Manager's turn before, or the first and last layers, which TurboQuant
 * keeps raw: `layers` of them are coded here, as the largest part of a deep model is.
 */

const BLOCKS = 12
const LAYERS = 36
const ITEM_BYTES = 256 * KIB
const HEAD_DIM = 128
const LOGICAL_BYTES = BLOCKS * LAYERS * ITEM_BYTES
/** What the Manager uses by default. */
const WINDOW_BYTES = 64 * MIB
/** Restores of one pair: the pair's time is their median. */
const REPEATS = 2
/** Blocks of a file from which each restore takes BLOCKS; the disk has to find them. */
const STORED_BLOCKS = 60
const STORED_BLOCKS_QUICK = 15
const WRITE_BYTES = MIB
/** Pages are written and compared through memory of the host; every second one is left alone. */
const PAGES = 2 * BLOCKS
const SENTINEL = 0xa5
/** Of a Manager with one shard. */
const ACTORS = 6

type Name = 'raw' | 'fp8' | 'turboquant-4'
const KINDS: readonly { readonly name: Name; readonly coding: (layer: number) => ItemCoding }[] = [
  { name: 'raw', coding: () => RAW },
  { name: 'fp8', coding: () => ({ ...RAW, format: 'fp8', scalar: 'bf16', role: 'k' }) },
  {
    name: 'turboquant-4',
    coding: (layer) => ({
      ...{ format: 'turboquant', scalar: 'bf16', role: layer % 2 === 0 ? 'k' : 'v' },
      ...{ bits: 4, headDim: HEAD_DIM, seed: 42 + 1337 * layer },
    }),
  },
]

/** One item as it lies in a file, and what it becomes again. */
interface StoredItem {
  readonly fileOffset: number
  readonly stored: number
  readonly crc: number
  readonly encoded: boolean
  /** CRC32 of the engine's bytes as the processor decodes them. */
  readonly decodedCrc: number
}

/** A file of blocks in one form, and a template of pages in that form. */
interface Kind {
  readonly name: Name
  readonly file: number
  readonly template: number
  readonly blocks: readonly (readonly StoredItem[])[]
  readonly storedBytesPerBlock: number
}

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  if (options.route !== 'uring') throw new Refusal('Cannot measure this by cuFile: the route is uring')
  const native = loadNative()
  const probe = native.probe()
  if (!probe.available) throw new Refusal(`io_uring is not available here (${probe.reason})`)
  const cuda = cudaDeviceOf(native, options.device)
  const folder = freshFolder(options.dir)
  say(folder.filesystem)
  const content = gaussians(16 * MIB)
  const memory = new PageMemory(native, LAYERS * PAGES * ITEM_BYTES, cuda)
  const stored = options.quick ? STORED_BLOCKS_QUICK : STORED_BLOCKS
  const kinds = KINDS.map(({ name, coding }) => {
    const codings = Array.from({ length: LAYERS }, (_, layer) => coding(layer))
    const kind = publish(native, join(folder.path, `${name}.dat`), { name, codings, content, stored, memory })
    say(`${name}: ${stored} blocks of ${(kind.storedBytesPerBlock / MIB).toFixed(2)} MiB for 9 MiB`)
    return kind
  })
  const spinUs = spinUsOf(options.spinUs, availableParallelism(), ACTORS)
  const lanes = await RestoreLanes.uring(native, options.device, spinUs, WINDOW_BYTES, {
    codecBudgetBytes: CODEC_BUDGET_BYTES,
  })
  const repeats = options.quick ? 1 : REPEATS
  const times = compare(native, { kinds, lanes, memory, pairs: options.pairs, repeats })
  const rows = kinds.map((kind) => rowOf(kind, times.get(kind.name) ?? [], times.get('raw') ?? []))
  for (const row of rows) say(lineOf(row))
  const evidence = lanes.evidence()
  await lanes.close()
  for (const { file, template } of kinds) {
    native.releaseTemplate(template)
    native.closeShard(file)
  }
  memory.release()
  folder.remove()
  return {
    rows,
    logicalBytes: LOGICAL_BYTES,
    filesystem: folder.filesystem,
    windowBytes: WINDOW_BYTES,
    spinUs,
    evidence,
  }
}

interface Publication {
  readonly name: Name
  readonly codings: readonly ItemCoding[]
  readonly content: Buffer
  /** Blocks that the file gets. */
  readonly stored: number
  readonly memory: PageMemory
}

/** Encodes and writes block after block, and remembers what each item is to be when it is restored. */
function publish(native: Native, path: string, { name, codings, content, stored, memory }: Publication): Kind {
  const rooms = codings.map((coding) => roomOf(coding, ITEM_BYTES))
  const blockBytes = alignUp(
    rooms.reduce((sum, room) => sum + room, 0),
    WRITE_BYTES,
  )
  const { file } = native.openShard(path, stored * blockBytes, true)
  const pages = new PageMemory(native, LAYERS * ITEM_BYTES, null)
  const template = codedTemplate(native, pages, ITEM_BYTES, 1, codings)
  const lane = new CodecLane(native, 'host', 16 * MIB, {})
  const { pool } = native.openPool(16 * MIB)
  const writeView = native.poolView(pool, 0, 16 * MIB)
  const writer = new IoLoop(native, pool)
  const blocks: StoredItem[][] = []
  for (let block = 0; block < stored; block++) {
    pages.write((memoryOfPages) => fillBlock(memoryOfPages, content, block))
    const items: StoredItem[] = []
    const image = Buffer.alloc(blockBytes)
    let at = 0
    for (let layer = 0; layer < LAYERS; layer++) {
      const coding = codings[layer] as ItemCoding
      const bytes = encodeItem(lane, { template, layer, coding, room: rooms[layer] as number, pages })
      bytes.copy(image, at)
      items.push({
        fileOffset: block * blockBytes + at,
        stored: bytes.length,
        crc: native.crc32(bytes, 0, 'auto'),
        encoded: bytes.length < ITEM_BYTES,
        decodedCrc: decodedCrc(native, lane, { template, layer, stored: bytes.length, pages }),
      })
      at += alignUp(bytes.length, SECTOR_BYTES)
    }
    const target = { file, fileBytes: (block + 1) * blockBytes }
    const copy = (poolOffset: number, fileOffset: number) => {
      const from = fileOffset - block * blockBytes
      writeView.set(image.subarray(from, from + WRITE_BYTES), poolOffset)
    }
    writer.fill(target, WRITE_BYTES, copy, block * blockBytes)
    blocks.push(items)
  }
  writer.close()
  lane.close()
  native.closePool(pool)
  native.releaseTemplate(template)
  pages.release()
  const storedBytesPerBlock = (blocks[0] ?? []).reduce((sum, item) => sum + alignUp(item.stored, SECTOR_BYTES), 0)
  return {
    name,
    file,
    blocks,
    storedBytesPerBlock,
    template: codedTemplate(native, memory, ITEM_BYTES, PAGES, codings),
  }
}

/** Every layer of every block from a place of its own in the content, at whole values. */
function fillBlock(pages: Buffer, content: Buffer, block: number): void {
  const places = (content.length - ITEM_BYTES) / 2
  for (let layer = 0; layer < LAYERS; layer++) {
    const from = 2 * (((block * LAYERS + layer) * 98_317) % places)
    content.copy(pages, layer * ITEM_BYTES, from, from + ITEM_BYTES)
  }
}

interface Item {
  readonly template: number
  readonly layer: number
  readonly pages: PageMemory
}

/** What is stored of one item: its coding, or its bytes. */
function encodeItem(lane: CodecLane, item: Item & { readonly coding: ItemCoding; readonly room: number }): Buffer {
  const { template, layer, coding, room, pages } = item
  if (!isCoded(coding)) return Buffer.from(pages.read().subarray(layer * ITEM_BYTES, (layer + 1) * ITEM_BYTES))
  const copy: ItemCopy = { template, granule: layer, page: 0, poolOffsetBytes: 0, storedBytes: room }
  const stored = lane.encode(copyList([copy])).coded[0]?.stored ?? 0
  if (stored === 0 || stored >= ITEM_BYTES) throw new Error(`layer ${layer} was not encoded`)
  return Buffer.from(lane.pool.subarray(0, stored))
}

/** CRC of what the processor makes of the coding that lies at the start of the pool; the page then has it. */
function decodedCrc(native: Native, lane: CodecLane, item: Item & { readonly stored: number }): number {
  const { template, layer, stored, pages } = item
  if (stored < ITEM_BYTES) {
    lane.decode(copyList([{ template, granule: layer, page: 0, poolOffsetBytes: 0, storedBytes: stored }]))
  }
  return native.crc32(pages.read().subarray(layer * ITEM_BYTES, (layer + 1) * ITEM_BYTES), 0, 'auto')
}

interface Sides {
  readonly kinds: readonly Kind[]
  readonly lanes: RestoreLanes
  readonly memory: PageMemory
  readonly pairs: number
  readonly repeats: number
}

/** Median microseconds of every pair, by kind; the first pair of all warms up and is left out. */
function compare(native: Native, { kinds, lanes, memory, pairs, repeats }: Sides): Map<Name, number[]> {
  const times = new Map<Name, number[]>(kinds.map(({ name }) => [name, []]))
  for (let pair = -1; pair < pairs; pair++) {
    const turn = pair % 2 === 0 ? kinds : [...kinds].reverse()
    const plans = Array.from({ length: repeats }, (_, repeat) => someBlocks(kinds, pair * repeats + repeat + 7))
    for (const kind of turn) {
      const took = plans.map((blocks) => {
        memory.write((view) => view.fill(SENTINEL))
        const { us } = lanes.restoreList(sourcesOf(kind, blocks), LOGICAL_BYTES)
        verify(native, kind, blocks, memory.read())
        return us
      })
      if (pair >= 0) times.get(kind.name)?.push(median(took))
    }
  }
  return times
}

/** BLOCKS different ones of those that are stored, and others each time. */
function someBlocks(kinds: readonly Kind[], turn: number): number[] {
  const stored = kinds[0]?.blocks.length ?? 0
  return Array.from({ length: BLOCKS }, (_, i) => (turn * 5 + i * (stored > 2 * BLOCKS ? 2 : 1)) % stored)
}

function sourcesOf(kind: Kind, blocks: readonly number[]) {
  const doubles = new Float64Array(BLOCKS * LAYERS * SOURCE.doubles)
  let at = 0
  for (const [pair, block] of blocks.entries()) {
    for (const [layer, item] of (kind.blocks[block] ?? []).entries()) {
      const sectors = alignUp(item.stored, SECTOR_BYTES)
      doubles[at + SOURCE.template] = kind.template
      doubles[at + SOURCE.granule] = layer
      doubles[at + SOURCE.page] = 2 * pair
      doubles[at + SOURCE.poolOffsetBytes] = NO_OFFSET
      doubles[at + SOURCE.file] = kind.file
      doubles[at + SOURCE.fileOffsetBytes] = item.fileOffset
      doubles[at + SOURCE.bytes] = sectors
      doubles[at + SOURCE.segmentBytes] = item.stored
      doubles[at + SOURCE.segmentStrideBytes] = sectors
      doubles[at + SOURCE.crc32] = item.crc
      doubles[at + SOURCE.generation] = 1 + block
      doubles[at + SOURCE.itemCount] = 1
      doubles[at + SOURCE.pair] = pair
      doubles[at + SOURCE.key] = 1 + block
      doubles[at + SOURCE.encoded] = item.encoded ? 1 : 0
      at += SOURCE.doubles
    }
  }
  return { doubles, offset: 0, length: at }
}

function verify(native: Native, kind: Kind, blocks: readonly number[], memory: Buffer): void {
  const untouched = Buffer.alloc(ITEM_BYTES, SENTINEL)
  for (const [pair, block] of blocks.entries()) {
    for (const [layer, item] of (kind.blocks[block] ?? []).entries()) {
      const at = (layer * PAGES + 2 * pair) * ITEM_BYTES
      const crc = native.crc32(memory.subarray(at, at + ITEM_BYTES), 0, 'auto')
      if (crc !== item.decodedCrc) throw new Error(`${kind.name}: block ${block}, layer ${layer} has wrong bytes`)
      const next = memory.subarray(at + ITEM_BYTES, at + 2 * ITEM_BYTES)
      if (!untouched.equals(next)) throw new Error(`${kind.name}: the page behind block ${block} was touched`)
    }
  }
}

function rowOf(kind: Kind, mine: readonly number[], raw: readonly number[]) {
  const times = estimate(mine)
  const ratio = ratios(mine, raw)
  return {
    codec: kind.name,
    p50Us: rounded(times.median),
    p50UsLow: rounded(times.low),
    p50UsHigh: rounded(times.high),
    logicalGbps: rounded(LOGICAL_BYTES / times.median / 1000),
    storedBytes: BLOCKS * kind.storedBytesPerBlock,
    ofLogicalBytes: rounded((BLOCKS * kind.storedBytesPerBlock) / LOGICAL_BYTES),
    ratioToRaw: rounded(ratio.median),
    ratioToRawLow: rounded(ratio.low),
    ratioToRawHigh: rounded(ratio.high),
  }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const { codec, p50Us, p50UsLow, p50UsHigh, logicalGbps, ofLogicalBytes } = row
  const ratio = `${row.ratioToRaw} of raw [${row.ratioToRawLow}..${row.ratioToRawHigh}]`
  return `${codec.padStart(12)}: ${p50Us} us [${p50UsLow}..${p50UsHigh}], ${logicalGbps} GB/s of pages, ${ratio}, ${ofLogicalBytes} of the bytes`
}
