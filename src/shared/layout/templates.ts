import { invariant } from '../base/invariant.js'
import { TEMPLATE_ITEM } from './descriptors.js'
import { itemsOf, layersOf } from './granules.js'
import type { GranuleSpec, InstanceGeometry, RankGeometry } from './regions.js'

/** What the addon's defineTemplate takes: items, and per granule of the rank its first item, then the item count. */
export interface CopyTemplate {
  readonly items: Float64Array
  readonly granuleFirstItem: Float64Array
}

/**
 * The copy template of one group on one rank. `mappings[a]` is the addon's number of allocation `a`. A granule of the
 * template is a granule of the group less rankGranules[rank][0]. Null when the rank has no layer of the group.
 */
export function templateOf(
  instance: InstanceGeometry,
  group: number,
  rank: number,
  mappings: readonly number[],
): CopyTemplate | null {
  const geometry = instance.groups[group]
  const rankGeometry = instance.ranks[rank]
  invariant(geometry !== undefined && rankGeometry !== undefined, 'the group and the rank exist', { group, rank })
  const [first, end] = geometry.rankGranules[rank] ?? [0, 0]
  if (first === end) return null
  const granules = geometry.granules.slice(first, end)
  return { items: templateItems(rankGeometry, group, granules, mappings), granuleFirstItem: firstItems(granules) }
}

function templateItems(
  rank: RankGeometry,
  group: number,
  granules: readonly GranuleSpec[],
  mappings: readonly number[],
): Float64Array {
  const items = layersOf(rank, group).flatMap((layer) => itemsOf(layer, rank.paddingBytes))
  const doubles = new Float64Array(items.length * TEMPLATE_ITEM.doubles)
  let granule = 0
  for (const [index, { layer, segment, offsetBytes, bytes, paddedBytes }] of items.entries()) {
    const mapping = mappings[layer.allocation]
    invariant(mapping !== undefined, 'every allocation is mapped', { allocation: layer.allocation })
    let spec = granules[granule] as GranuleSpec
    if (index === spec.firstItem + spec.itemCount) spec = granules[++granule] as GranuleSpec
    const at = index * TEMPLATE_ITEM.doubles
    doubles[at + TEMPLATE_ITEM.mapping] = mapping
    doubles[at + TEMPLATE_ITEM.baseBytes] = layer.offsetBytes + segment * layer.segmentStrideBytes + offsetBytes
    doubles[at + TEMPLATE_ITEM.pageStrideBytes] = layer.pageStrideBytes
    doubles[at + TEMPLATE_ITEM.pageCount] = layer.pageCount
    doubles[at + TEMPLATE_ITEM.granuleOffsetBytes] = (index - spec.firstItem) * spec.segmentStrideBytes
    doubles[at + TEMPLATE_ITEM.bytes] = bytes
    doubles[at + TEMPLATE_ITEM.paddedBytes] = paddedBytes
  }
  return doubles
}

function firstItems(granules: readonly GranuleSpec[]): Float64Array {
  const firsts = Float64Array.from([...granules.map(({ firstItem }) => firstItem), 0])
  const last = granules[granules.length - 1] as GranuleSpec
  firsts[granules.length] = last.firstItem + last.itemCount
  return firsts
}
