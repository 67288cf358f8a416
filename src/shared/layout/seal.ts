import { type Refusal, refuse } from '../base/refusal.js'
import { GRANULE_BYTES_MAX, isOffset } from '../base/units.js'
import { RANKS_MAX } from './geometry.js'
import { buildGroup } from './granules.js'
import type { GroupGeometry, InstanceGeometry, LayerGeometry, RankGeometry } from './regions.js'

/**
 * Joins the ranks of one engine start. A layer belongs to one pipeline stage, and every tensor-parallel rank of that
 * stage holds its shard with the same sizes, so that every (layer, tp) cell has exactly one owner.
 */

/** Granules of one group: bounds the descriptors of one block and the side tables of a class. */
export const GRANULES_MAX = 65_536
/** Items (segments and pieces) of one group: bounds its copy templates. */
export const ITEMS_MAX = 131_072

export interface WorldShape {
  readonly tpSize: number
  readonly ppSize: number
}

/** The instance, or why these ranks are not one. All ranks of the world have registered. */
export function sealInstance(ranks: readonly RankGeometry[], world: WorldShape): InstanceGeometry | Refusal {
  const ordered = [...ranks].sort((a, b) => a.tpRank - b.tpRank || a.ppRank - b.ppRank)
  const refusal = checkCells(ordered, world) ?? checkSameForAll(ordered) ?? checkLayers(ordered)
  if (refusal !== null) return refusal
  const first = ordered[0] as RankGeometry
  const tooMany = first.groups.findIndex((_, group) => itemsOfGroup(ordered, group) > ITEMS_MAX)
  if (tooMany !== -1) return tooLarge(tooMany, 'items', ITEMS_MAX)
  const groups = first.groups.map((spec, group) => buildGroup(ordered, group, spec))
  const refused = groups.map(checkGroup).find((found) => found !== null)
  if (refused !== undefined) return refused
  const layers = [...new Set(ordered.flatMap((rank) => rank.layers.map(({ layer }) => layer)))].sort()
  const { tpSize, ppSize } = world
  return { layers, ranks: ordered, tpSize, ppSize, pageFirst: first.pageFirst, codec: first.codec, groups }
}

/** The ordinal of (tp, pp) in InstanceGeometry.ranks; -1 when there is no such rank. */
export function rankOrdinal(world: WorldShape, tpRank: number, ppRank: number): number {
  const exists = tpRank >= 0 && tpRank < world.tpSize && ppRank >= 0 && ppRank < world.ppSize
  return exists ? tpRank * world.ppSize + ppRank : -1
}

function checkCells(ordered: readonly RankGeometry[], { tpSize, ppSize }: WorldShape): Refusal | null {
  if (!isOffset(tpSize) || !isOffset(ppSize) || tpSize < 1 || ppSize < 1 || tpSize * ppSize > RANKS_MAX)
    return refuse('geometry_invalid', `Cannot seal a world of tp ${tpSize} and pp ${ppSize}: 1 to ${RANKS_MAX} ranks`, {
      tpSize,
      ppSize,
    })
  const seen = new Set<number>()
  for (const { tpRank, ppRank } of ordered) {
    const ordinal = rankOrdinal({ tpSize, ppSize }, tpRank, ppRank)
    if (ordinal === -1)
      return refuse(
        'geometry_conflict',
        `Cannot seal rank tp ${tpRank}, pp ${ppRank}: outside tp ${tpSize}, pp ${ppSize}`,
        {
          tpRank,
          ppRank,
        },
      )
    if (seen.has(ordinal))
      return refuse(
        'rank_taken',
        `Cannot seal rank tp ${tpRank}, pp ${ppRank} twice: replicas of a rank are not supported`,
        {
          tpRank,
          ppRank,
        },
      )
    seen.add(ordinal)
  }
  if (seen.size < tpSize * ppSize)
    return refuse('instance_not_sealed', `Cannot seal ${seen.size} of ${tpSize * ppSize} ranks`, {
      ranks: seen.size,
      world: tpSize * ppSize,
    })
  return null
}

function checkSameForAll(ordered: readonly RankGeometry[]): Refusal | null {
  const first = ordered[0] as RankGeometry
  for (const rank of ordered) {
    const differs = (what: string): Refusal =>
      refuse(
        'geometry_conflict',
        `Cannot seal rank tp ${rank.tpRank}, pp ${rank.ppRank}: its ${what} differs from rank 0`,
        {
          tpRank: rank.tpRank,
          ppRank: rank.ppRank,
          what,
        },
      )
    if (rank.pageFirst !== first.pageFirst) return differs('page-first flag')
    if (rank.paddingBytes !== first.paddingBytes) return differs('padding')
    if (rank.codec.name !== first.codec.name) return differs('codec')
    const same =
      rank.groups.length === first.groups.length &&
      rank.groups.every(({ kind, blockTokens, windowTokens }, group) => {
        const other = first.groups[group]
        return kind === other?.kind && blockTokens === other.blockTokens && windowTokens === other.windowTokens
      })
    if (!same) return differs('list of groups')
  }
  const groups = first.groups.length
  if (first.pageFirst && groups > 1)
    return refuse('geometry_invalid', `Cannot store ${groups} groups page-first: exactly one is`, { groups })
  return null
}

/** One stage a layer, the same layers on every tp rank of a stage, the same sizes of a layer everywhere. */
function checkLayers(ordered: readonly RankGeometry[]): Refusal | null {
  const owners = new Map<string, { readonly ppRank: number; readonly layer: LayerGeometry; holders: number }>()
  const tpRanks = new Set(ordered.map(({ tpRank }) => tpRank)).size
  for (const rank of ordered) {
    for (const layer of rank.layers) {
      const owner = owners.get(layer.layer)
      if (owner === undefined) owners.set(layer.layer, { ppRank: rank.ppRank, layer, holders: 1 })
      else if (owner.ppRank !== rank.ppRank)
        return conflict(layer, `stages ${owner.ppRank} and ${rank.ppRank} both claim it`)
      else {
        const field = SHARED_FIELDS.find((name) => layer[name] !== owner.layer[name])
        if (field !== undefined)
          return conflict(
            layer,
            `${field} is ${owner.layer[field]} on one rank and ${layer[field]} on tp ${rank.tpRank}`,
          )
        owner.holders++
      }
    }
  }
  for (const { layer, holders } of owners.values()) {
    if (holders !== tpRanks) return conflict(layer, `${holders} of ${tpRanks} tensor-parallel ranks hold it`)
  }
  return null
}

/** What must agree between the tensor-parallel shards of a layer. Addresses and page counts may differ. */
const SHARED_FIELDS = [
  'group',
  'segments',
  'segmentBytes',
  'paddedBytes',
  'dtype',
  'kvRole',
  'headDim',
  'heads',
] as const

function checkGroup(geometry: GroupGeometry): Refusal | null {
  const { group, granules, extentBytes } = geometry
  if (granules.length === 0)
    return refuse('geometry_invalid', `Cannot seal group ${group}: no layer is in it`, { group })
  if (granules.length > GRANULES_MAX || !isOffset(extentBytes)) return tooLarge(group, 'granules', GRANULES_MAX)
  return null
}

/** Counted before anything is built for them. */
function itemsOfGroup(ordered: readonly RankGeometry[], group: number): number {
  let items = 0
  for (const { layers } of ordered) {
    for (const layer of layers) {
      if (layer.group === group) items += layer.segments * Math.ceil(layer.paddedBytes / GRANULE_BYTES_MAX)
    }
  }
  return items
}

function tooLarge(group: number, what: string, most: number): Refusal {
  return refuse('geometry_invalid', `Cannot seal group ${group}: a block of it has more than ${most} ${what}`, {
    group,
    what,
    most,
  })
}

function conflict(layer: LayerGeometry, why: string): Refusal {
  return refuse('geometry_conflict', `Cannot seal layer ${layer.layer}: ${why}`, { layer: layer.layer })
}
