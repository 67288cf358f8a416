import { invariant } from '../base/invariant.js'
import { isCoded } from '../codec/coding.js'
import { ITEM_CODING, ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR, TEMPLATE_ITEM } from './descriptors.js'
import { itemsOf, layersOf } from './granules.js'
import type { GranuleSpec, InstanceGeometry, RankGeometry } from './regions.js'

/**
 * What the addon's defineTemplate takes: items, per granule of the rank its first item, then the item count, and an
 * ITEM_CODING an item; undefined when all are raw.
 */
export interface CopyTemplate {
  readonly items: Float64Array
  readonly granuleFirstItem: Float64Array
  readonly codings: Float64Array | undefined
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
  return {
    items: templateItems(rankGeometry, group, granules, mappings),
    granuleFirstItem: firstItems(granules),
    codings: templateCodings(granules),
  }
}

function templateItems(
  rank: RankGeometry,
  group: number,
  granules: readonly GranuleSpec[],
  mappings: readonly number[],
): Float64Array {
  const items = layersOf(rank, group).flatMap((layer) => itemsOf(layer, rank))
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

/** Where something is coded every granule is one item. */
function templateCodings(granules: readonly GranuleSpec[]): Float64Array | undefined {
  if (!granules.some(({ coding }) => isCoded(coding))) return undefined
  const doubles = new Float64Array(granules.length * ITEM_CODING.doubles)
  for (const [item, { coding }] of granules.entries()) {
    const at = item * ITEM_CODING.doubles
    doubles[at + ITEM_CODING.format] = ITEM_FORMAT[coding.format]
    doubles[at + ITEM_CODING.scalar] = ITEM_SCALAR[coding.scalar]
    doubles[at + ITEM_CODING.role] = ITEM_ROLE[coding.role]
    doubles[at + ITEM_CODING.bits] = coding.bits
    doubles[at + ITEM_CODING.headDim] = coding.headDim
    doubles[at + ITEM_CODING.seed] = coding.seed
  }
  return doubles
}

function firstItems(granules: readonly GranuleSpec[]): Float64Array {
  const firsts = Float64Array.from([...granules.map(({ firstItem }) => firstItem), 0])
  const last = granules[granules.length - 1] as GranuleSpec
  firsts[granules.length] = last.firstItem + last.itemCount
  return firsts
}
