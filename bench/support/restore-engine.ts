import type { CudaDevice } from '../../src/binding/devices.js'
import type { Native } from '../../src/binding/surface.js'
import { KIB } from '../../src/shared/base/units.js'
import { NO_OFFSET, SOURCE, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import type { List } from '../../src/shared/layout/records.js'
import { RandomOffsets } from './io-loop.js'

/** What a restore of one shape moves. */
export interface RestoreShape {
  readonly name: string
  readonly blocks: number
  readonly layers: number
  readonly layersPerGranule: number
  readonly segmentBytes: number
}

/** One granule of a restore: where it lies and where it goes. */
export interface Piece {
  readonly fileOffset: number
  readonly crc: number
  readonly granule: number
  readonly page: number
}

/** What pages hold before a restore. */
const SENTINEL = 0xa5

/** Pages of an engine with one shape, and what is to be in them. */
export class Engine {
  readonly shape: RestoreShape
  readonly pages: number
  readonly template: number
  readonly bytes: number
  readonly file: number
  readonly #native: Native
  readonly #content: Buffer
  readonly #mapping: number
  readonly #memory: Buffer
  /** Pages on a device are looked at through a copy. */
  readonly #onDevice: boolean
  readonly #offsets: RandomOffsets

  constructor(native: Native, shape: RestoreShape, content: Buffer, file: number, cuda: CudaDevice | null) {
    const { blocks, layers, layersPerGranule, segmentBytes } = shape
    this.shape = shape
    this.file = file
    this.pages = 2 * blocks
    this.bytes = blocks * layers * segmentBytes
    this.#native = native
    this.#content = content
    // Any 4 KiB boundary from which a whole block follows.
    this.#offsets = new RandomOffsets(4 * KIB, content.length - layers * segmentBytes)
    const pagesBytes = layers * this.pages * segmentBytes
    this.#onDevice = cuda !== null
    const mapping =
      cuda === null ? hostMapping(native, pagesBytes) : native.allocateDeviceMemory(cuda.uuid, pagesBytes).mapping
    this.#mapping = mapping
    const view = cuda === null ? native.mappingView(mapping, 0, pagesBytes) : new Uint8Array(pagesBytes)
    this.#memory = Buffer.from(view.buffer, view.byteOffset, pagesBytes)
    const items = new Float64Array(layers * TEMPLATE_ITEM.doubles)
    for (let layer = 0; layer < layers; layer++) {
      const at = layer * TEMPLATE_ITEM.doubles
      items[at + TEMPLATE_ITEM.mapping] = mapping
      items[at + TEMPLATE_ITEM.baseBytes] = layer * this.pages * segmentBytes
      items[at + TEMPLATE_ITEM.pageStrideBytes] = segmentBytes
      items[at + TEMPLATE_ITEM.pageCount] = this.pages
      items[at + TEMPLATE_ITEM.granuleOffsetBytes] = (layer % layersPerGranule) * segmentBytes
      items[at + TEMPLATE_ITEM.bytes] = segmentBytes
      items[at + TEMPLATE_ITEM.paddedBytes] = segmentBytes
    }
    const firsts = Float64Array.from(
      { length: layers / layersPerGranule + 1 },
      (_, granule) => granule * layersPerGranule,
    )
    this.template = native.defineTemplate(items, firsts)
  }

  get granuleBytes(): number {
    return this.shape.layersPerGranule * this.shape.segmentBytes
  }

  /** Every block from an extent of its own anywhere, as blocks of a file lie, into every second page. */
  plan(): Piece[] {
    const { blocks, layers, layersPerGranule } = this.shape
    const blockBytes = this.bytes / blocks
    const plan: Piece[] = []
    const extents: number[] = []
    for (let block = 0; block < blocks; block++) {
      let extent = this.#offsets.next()
      while (extents.some((other) => Math.abs(other - extent) < blockBytes)) extent = this.#offsets.next()
      extents.push(extent)
      for (let granule = 0; granule < layers / layersPerGranule; granule++) {
        const fileOffset = extent + granule * this.granuleBytes
        const crc = this.#native.crc32(this.#stored(fileOffset), 0, 'auto')
        plan.push({ fileOffset, crc, granule, page: 2 * block })
      }
    }
    return plan
  }

  poison(): void {
    this.#memory.fill(SENTINEL)
    if (this.#onDevice) this.#native.writeMapping(this.#mapping, 0, this.#memory)
  }

  /** Compares every restored byte with what was stored, and every other byte with the sentinel; returns the bytes restored. */
  verify(plan: readonly Piece[]): number {
    const { layersPerGranule, segmentBytes } = this.shape
    const sentinel = Buffer.alloc(segmentBytes, SENTINEL)
    let verified = 0
    if (this.#onDevice) this.#native.readMapping(this.#mapping, 0, this.#memory)
    for (const { fileOffset, granule, page } of plan) {
      const stored = this.#stored(fileOffset)
      for (let layer = 0; layer < layersPerGranule; layer++) {
        const row = granule * layersPerGranule + layer
        const expected = stored.subarray(layer * segmentBytes, (layer + 1) * segmentBytes)
        if (!expected.equals(this.#segment(row, page))) throw new Error(`page ${page} of layer ${row} has wrong bytes`)
        if (!sentinel.equals(this.#segment(row, page + 1))) throw new Error(`page ${page + 1} was touched`)
        verified += segmentBytes
      }
    }
    return verified
  }

  #stored(fileOffset: number): Buffer {
    return this.#content.subarray(fileOffset, fileOffset + this.granuleBytes)
  }

  #segment(row: number, page: number): Buffer {
    const at = (row * this.pages + page) * this.shape.segmentBytes
    return this.#memory.subarray(at, at + this.shape.segmentBytes)
  }

  close(): void {
    this.#native.releaseTemplate(this.template)
    this.#native.releaseMapping(this.#mapping)
  }
}

function hostMapping(native: Native, bytes: number): number {
  const fd = native.createMemory(bytes)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  return mapping
}

/** SOURCE descriptors of a plan. */
export function sourcesOf(engine: Engine, plan: readonly Piece[]): List {
  const doubles = new Float64Array(plan.length * SOURCE.doubles)
  for (const [index, { fileOffset, crc, granule, page }] of plan.entries()) {
    const at = index * SOURCE.doubles
    doubles[at + SOURCE.template] = engine.template
    doubles[at + SOURCE.granule] = granule
    doubles[at + SOURCE.page] = page
    doubles[at + SOURCE.poolOffsetBytes] = NO_OFFSET
    doubles[at + SOURCE.file] = engine.file
    doubles[at + SOURCE.fileOffsetBytes] = fileOffset
    doubles[at + SOURCE.bytes] = engine.granuleBytes
    doubles[at + SOURCE.segmentBytes] = engine.granuleBytes / engine.shape.layersPerGranule
    doubles[at + SOURCE.segmentStrideBytes] = engine.granuleBytes / engine.shape.layersPerGranule
    doubles[at + SOURCE.crc32] = crc
    doubles[at + SOURCE.generation] = 1 + page
    doubles[at + SOURCE.itemCount] = engine.shape.layersPerGranule
    doubles[at + SOURCE.pair] = page / 2
    doubles[at + SOURCE.key] = 1 + page
  }
  return { doubles, offset: 0, length: doubles.length }
}
