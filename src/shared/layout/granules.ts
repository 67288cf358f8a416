import { invariant } from '../base/invariant.js'
import { alignUp, GRANULE_BYTES_MAX } from '../base/units.js'
import { type ItemCoding, RAW, storedBytesOf } from '../codec/coding.js'
import { itemCoding } from '../codec/representation.js'
import { isCoding, NO_CODEC } from '../codec/setting.js'
import type { GranuleSpec, GroupGeometry, GroupSpec, LayerGeometry, RankGeometry } from './regions.js'

/**
 * Cuts one state group into granules.
 *
 *   extent of a group   | rank 0                                  | rank 1 ...
 *   items of a rank     | a.K  a.V  | b.K  b.V  | c piece 0  c piece 1 | ...     layers by name, K before V
 *   granules            | a.K a.V b.K b.V       | c piece 0 | c piece 1 | ...
 *
 * An *item* is what one entry of a copy template moves: a whole segment, or one piece of a segment above 1 MiB.
 * Neighbours of one size share a granule while it stays within 1 MiB; runs and pieces are divided evenly, so that the
 * pool sees few sizes and no short remainder.
 *
 * Under a codec every item is a granule, for each is stored in a length of its own.
 */

/** Unit of pieces under a codec: the longest vector that is coded at once, a key and a value of 256 values each. */
const CODED_PIECE_BYTES = 1024

/** Items `firstItem … firstItem + itemCount - 1` of one granule, as COPY descriptors name them. */
export interface GranuleRun {
  /** Index in GroupGeometry.granules. */
  readonly granule: number
  /** Counted from the granule's first item. */
  readonly firstItem: number
  readonly itemCount: number
}

/** Where an item's bytes are: which layer, which segment of it, and which part of that segment. */
export interface Item {
  readonly layer: LayerGeometry
  readonly segment: number
  readonly offsetBytes: number
  readonly bytes: number
  readonly paddedBytes: number
  readonly coding: ItemCoding
}

/** Layers of a group on one rank, in stored order. */
export function layersOf(rank: RankGeometry, group: number): LayerGeometry[] {
  return rank.layers.filter((layer) => layer.group === group)
}

/** The items of one layer: its segments, each whole or in pieces of at most 1 MiB that are multiples of the padding. */
export function itemsOf(layer: LayerGeometry, { paddingBytes, codec }: RankGeometry): Item[] {
  const items: Item[] = []
  const pieces = Math.ceil(layer.paddedBytes / GRANULE_BYTES_MAX)
  const unitBytes = isCoding(codec) ? CODED_PIECE_BYTES : paddingBytes
  const pieceBytes = alignUp(Math.ceil(layer.paddedBytes / pieces), unitBytes)
  for (let segment = 0; segment < layer.segments; segment++) {
    const whole = layer.coding.segments[segment] ?? RAW
    for (let offsetBytes = 0; offsetBytes < layer.segmentBytes; offsetBytes += pieceBytes) {
      const bytes = Math.min(pieceBytes, layer.segmentBytes - offsetBytes)
      const coding = itemCoding(whole, bytes)
      items.push({ layer, segment, offsetBytes, bytes, paddedBytes: alignUp(bytes, paddingBytes), coding })
    }
  }
  return items
}

/** All granules of a group over the ranks in order. */
export function buildGroup(ranks: readonly RankGeometry[], group: number, spec: GroupSpec): GroupGeometry {
  const granules: GranuleSpec[] = []
  const rankGranules: [number, number][] = []
  const rankLayers: string[][] = []
  const layerFirstItem: number[][] = []
  let extentBytes = 0
  let payloadBytes = 0
  for (const [rank, geometry] of ranks.entries()) {
    const layers = layersOf(geometry, group)
    const items = layers.map((layer) => itemsOf(layer, geometry))
    const first = granules.length
    const append = isCoding(geometry.codec) ? apart : cut
    extentBytes = append(granules, rank, items.flat(), extentBytes)
    rankGranules.push([first, granules.length])
    rankLayers.push(layers.map(({ layer }) => layer))
    layerFirstItem.push(runningTotals(items.map(({ length }) => length)))
    for (const { segments, segmentBytes } of layers) payloadBytes += segments * segmentBytes
  }
  const { kind, blockTokens, windowTokens } = spec
  const { pageFirst, codec } = ranks[0] ?? { pageFirst: false, codec: NO_CODEC }
  return {
    group,
    kind,
    blockTokens,
    windowTokens,
    pageFirst,
    codec,
    granules,
    rankGranules,
    extentBytes,
    payloadBytes,
    rankLayers,
    layerFirstItem,
  }
}

/**
 * The granule runs that hold the given layers of one rank, for a publish that brings only some of them. Layer ordinals
 * strictly ascend; neighbouring items of one granule come as one run.
 */
export function granuleRuns(geometry: GroupGeometry, rank: number, layerOrdinals: ArrayLike<number>): GranuleRun[] {
  const firstItems = geometry.layerFirstItem[rank] ?? []
  const [firstGranule, endGranule] = geometry.rankGranules[rank] ?? [0, 0]
  const runs: GranuleRun[] = []
  let granule = firstGranule
  let before = -1
  for (let index = 0; index < layerOrdinals.length; index++) {
    const ordinal = layerOrdinals[index] as number
    invariant(ordinal > before && ordinal < firstItems.length - 1, 'layer ordinals ascend and exist', { rank, ordinal })
    before = ordinal
    const end = firstItems[ordinal + 1] as number
    for (let item = firstItems[ordinal] as number; item < end; ) {
      while (granule < endGranule && endOf(geometry.granules[granule] as GranuleSpec) <= item) granule++
      const spec = geometry.granules[granule] as GranuleSpec
      const itemEnd = Math.min(end, endOf(spec))
      append(runs, granule, item - spec.firstItem, itemEnd - item)
      item = itemEnd
    }
  }
  return runs
}

function append(runs: GranuleRun[], granule: number, firstItem: number, itemCount: number): void {
  const last = runs[runs.length - 1]
  if (last !== undefined && last.granule === granule && last.firstItem + last.itemCount === firstItem) {
    runs[runs.length - 1] = { granule, firstItem: last.firstItem, itemCount: last.itemCount + itemCount }
  } else runs.push({ granule, firstItem, itemCount })
}

function endOf(granule: GranuleSpec): number {
  return granule.firstItem + granule.itemCount
}

/** Appends the granules of one rank's items; returns the extent offset after them. */
function cut(granules: GranuleSpec[], rank: number, items: readonly Item[], extentOffsetBytes: number): number {
  let offset = extentOffsetBytes
  for (let first = 0; first < items.length; ) {
    const { bytes: segmentBytes, paddedBytes } = items[first] as Item
    let end = first + 1
    while (end < items.length && items[end]?.bytes === segmentBytes) end++
    const perGranule = Math.floor(GRANULE_BYTES_MAX / paddedBytes)
    const shares = Math.ceil((end - first) / perGranule)
    for (let share = 0; share < shares; share++) {
      const itemCount = Math.ceil((end - first) / (shares - share))
      const bytes = itemCount * paddedBytes
      const sizes = { rank, bytes, segmentBytes, segmentStrideBytes: paddedBytes, extentOffsetBytes: offset }
      granules.push({ ...sizes, firstItem: first, itemCount, coding: RAW, expectedBytes: segmentBytes })
      offset += bytes
      first += itemCount
    }
  }
  return offset
}

/** The same under a codec: a granule for each item. */
function apart(granules: GranuleSpec[], rank: number, items: readonly Item[], extentOffsetBytes: number): number {
  let offset = extentOffsetBytes
  for (const [firstItem, { bytes: segmentBytes, paddedBytes, coding }] of items.entries()) {
    const sizes = { rank, bytes: paddedBytes, segmentBytes, segmentStrideBytes: paddedBytes, extentOffsetBytes: offset }
    const expectedBytes = storedBytesOf(coding, segmentBytes)
    granules.push({ ...sizes, firstItem, itemCount: 1, coding, expectedBytes })
    offset += paddedBytes
  }
  return offset
}

function runningTotals(counts: readonly number[]): number[] {
  const totals = [0]
  for (const count of counts) totals.push((totals[totals.length - 1] as number) + count)
  return totals
}
