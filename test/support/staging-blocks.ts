import { alignUp, PAGE_BYTES } from '../../src/shared/base/units.js'
import { crc32 } from '../../src/shared/codec/crc32.js'

/** Blocks of a staging bed: how their granules lie in engine pages and in extents, and every byte of them in either place. */

export interface Granule {
  readonly items: number
  /** Bytes of one item in the engine's page. */
  readonly segmentBytes: number
  /** Bytes of its one item's coding; null: it is stored as it is. */
  readonly codingBytes: number | null
  readonly strideBytes: number
  readonly extentOffsetBytes: number
  readonly pageOffsetBytes: number
}

export interface Shape {
  readonly granules: readonly Granule[]
  readonly extentBytes: number
  readonly pageBytes: number
}

type GranuleTuple = readonly [items: number, segmentBytes: number, strideBytes: number, codingBytes?: number]

function shapeOf(granules: readonly GranuleTuple[]): Shape {
  let extentOffsetBytes = 0
  let pageOffsetBytes = 0
  const laid = granules.map(([items, segmentBytes, strideBytes, codingBytes = null]) => {
    const granule = { items, segmentBytes, strideBytes, extentOffsetBytes, pageOffsetBytes, codingBytes }
    extentOffsetBytes += items * strideBytes
    pageOffsetBytes += items * segmentBytes
    return granule
  })
  return { granules: laid, extentBytes: extentOffsetBytes, pageBytes: pageOffsetBytes }
}

/** By template: split layers with odd segments, a checkpoint larger than a slot, whole pages, and codings among others. */
export const SHAPES: readonly Shape[] = [
  shapeOf([
    [3, 500, 512],
    [2, 1024, 1024],
    [1, 8000, 8192],
  ]),
  shapeOf(Array.from({ length: 7 }, () => [3, 1500, 1536] as const)),
  shapeOf([[1, 4096, 4096]]),
  shapeOf([
    [1, 700, 1024],
    [1, 4096, 512, 300],
    [1, 3000, 512, 512],
    [2, 1024, 1024],
    [1, 2048, 512, 77],
    [1, 2048, 512, 78],
  ]),
  shapeOf([
    [1, 700, 1024],
    [1, 1024, 512, 400],
  ]),
]
/** Templates without codings, the first ones: what is written from pages alone. */
export const PLAIN_TEMPLATES = 3
/** The template with one coding. */
export const CODED_TEMPLATE = 4

/** Extents lie on 4 KiB boundaries. */
export const extentBytesOf = (shape: Shape) => alignUp(shape.extentBytes, PAGE_BYTES)

/** A block as the bed stored it, or wants it stored. */
export interface Block {
  readonly template: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly seed: number
}

/** The engine's bytes of a block. */
export function payload(block: Pick<Block, 'template' | 'seed'>): Uint8Array {
  const bytes = new Uint8Array((SHAPES[block.template] as Shape).pageBytes)
  let state = (block.seed * 2654435761) >>> 0
  for (let at = 0; at < bytes.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    bytes[at] = state >>> 24
  }
  return bytes
}

/** A toy coding: the seed that all bytes of a block follow from, then bytes that tell when any of them is wrong. */
export function codingOf(seed: number, bytes: number): Uint8Array {
  const coding = Uint8Array.from({ length: bytes }, (_, at) => seed * 7 + at * 13 + bytes)
  new DataView(coding.buffer).setUint32(0, seed, true)
  return coding
}

/** The same as they are stored: segments padded with zeros, codings too. */
export function storedBytes(block: Block): Uint8Array {
  const shape = SHAPES[block.template] as Shape
  const page = payload(block)
  const stored = new Uint8Array(shape.extentBytes)
  for (const granule of shape.granules) {
    if (granule.codingBytes !== null) {
      stored.set(codingOf(block.seed, granule.codingBytes), granule.extentOffsetBytes)
      continue
    }
    for (let item = 0; item < granule.items; item++) {
      const from = granule.pageOffsetBytes + item * granule.segmentBytes
      stored.set(
        page.subarray(from, from + granule.segmentBytes),
        granule.extentOffsetBytes + item * granule.strideBytes,
      )
    }
  }
  return stored
}

export function granuleCrc(stored: Uint8Array, granule: Granule): number {
  let crc = 0
  for (let item = 0; item < granule.items; item++) {
    const at = granule.extentOffsetBytes + item * granule.strideBytes
    crc = crc32(stored.subarray(at, at + (granule.codingBytes ?? granule.segmentBytes)), crc)
  }
  return crc
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0
}
