import { isRefusal, type Refusal, refuse } from '../base/refusal.js'
import { alignUp, isOffset } from '../base/units.js'
import type { LayerCoding } from '../codec/coding.js'
import { codingsOf, contradictedTokenBytes } from '../codec/representation.js'
import { isCoding } from '../codec/setting.js'
import { type ByteRun, findOverlap } from './overlap.js'
import type { GroupSpec, LayerGeometry, RankGeometry, RankSpec, RegionSpec } from './regions.js'
import { utf8Bytes } from './wire/utf8.js'

/**
 * Checks what one rank registers. Everything here comes from a peer: it is refused with a code and the numbers, never
 * asserted. After it, no address that a page number below the group's page count leads to lies outside its allocation,
 * and no two (layer, segment, page) share a byte.
 */

export const LAYERS_MAX = 4096
export const PAGES_MAX = 2 ** 24
export const NAME_BYTES_MAX = 256
export const GROUPS_MAX = 64
export const RANKS_MAX = 1024
export const ALLOCATIONS_MAX = 4096
export const BLOCK_TOKENS_MAX = 2 ** 20
export const WINDOW_TOKENS_MAX = 2 ** 32 - 1

const KINDS: readonly GroupSpec['kind'][] = ['full-attention', 'sliding-window', 'checkpoint']

/** The rank with its layers in stored order, or why not. */
export function buildRank(spec: RankSpec): RankGeometry | Refusal {
  const refusal = checkShape(spec) ?? checkGroups(spec.groups)
  if (refusal !== null) return refusal
  const names = new Set<string>()
  for (const region of spec.regions) {
    const found = checkRegion(region, spec)
    if (found !== null) return found
    if (names.has(region.layer)) return invalid(region, 'registered twice', {})
    names.add(region.layer)
  }
  const codings = codingsOf(spec.regions, spec.groups, spec.codec, spec.device, spec.allocationOffsetBytes)
  const layers = spec.regions.map((region, i) => stored(region, spec, codings[i] as LayerCoding)).sort(byName)
  const pageCounts = pageCountsOf(layers, spec.groups.length)
  if (isRefusal(pageCounts)) return pageCounts
  const overlap = checkOverlaps(layers, spec.allocationBytes.length)
  if (overlap !== null) return overlap
  const { tpRank, ppRank, codec, paddingBytes } = spec
  return {
    tpRank,
    ppRank,
    pageFirst: spec.pageFirst && !isCoding(codec),
    codec,
    paddingBytes,
    groups: spec.groups.map(({ kind, blockTokens, windowTokens }) => ({ kind, blockTokens, windowTokens })),
    pageCounts,
    layers,
    allocationBytes: [...spec.allocationBytes],
  }
}

/** Order of layers everywhere: by UTF-16 code units, the same on every host. */
export function byName(a: { readonly layer: string }, b: { readonly layer: string }): number {
  return a.layer < b.layer ? -1 : a.layer > b.layer ? 1 : 0
}

function checkShape(spec: RankSpec): Refusal | null {
  const { tpRank, ppRank, regions, allocationBytes } = spec
  if (!inRange(tpRank, 0, RANKS_MAX - 1) || !inRange(ppRank, 0, RANKS_MAX - 1))
    return refuse(
      'geometry_invalid',
      `Cannot register rank tp ${tpRank}, pp ${ppRank}: 0 to ${RANKS_MAX - 1} are ranks`,
      {
        tpRank,
        ppRank,
      },
    )
  if (!inRange(regions.length, 1, LAYERS_MAX))
    return refuse('geometry_invalid', `Cannot register ${regions.length} layers: 1 to ${LAYERS_MAX} are accepted`, {
      layers: regions.length,
    })
  if (!inRange(allocationBytes.length, 1, ALLOCATIONS_MAX))
    return refuse(
      'geometry_invalid',
      `Cannot register ${allocationBytes.length} allocations: 1 to ${ALLOCATIONS_MAX} are accepted`,
      {
        allocations: allocationBytes.length,
      },
    )
  const bad = allocationBytes.findIndex((bytes) => !isOffset(bytes))
  if (bad !== -1)
    return refuse('geometry_invalid', `Cannot use allocation ${bad} of ${allocationBytes[bad]} bytes`, {
      allocation: bad,
    })
  return null
}

function checkGroups(groups: readonly GroupSpec[]): Refusal | null {
  if (!inRange(groups.length, 1, GROUPS_MAX))
    return refuse('geometry_invalid', `Cannot register ${groups.length} groups: 1 to ${GROUPS_MAX} are accepted`, {
      groups: groups.length,
    })
  for (const [group, { kind, blockTokens, windowTokens }] of groups.entries()) {
    const tokens = { group, kind, blockTokens, windowTokens }
    if (!KINDS.includes(kind))
      return refuse('group_unsupported', `Cannot keep group ${group} of kind ${kind}: it is none of ${KINDS}`, tokens)
    if (!inRange(blockTokens, 1, BLOCK_TOKENS_MAX))
      return refuse('geometry_invalid', `Cannot use blocks of ${blockTokens} tokens in group ${group}`, tokens)
    if (kind === 'sliding-window' && !inRange(windowTokens, 1, WINDOW_TOKENS_MAX))
      return refuse('geometry_invalid', `Cannot use a window of ${windowTokens} tokens in group ${group}`, tokens)
    if (kind !== 'sliding-window' && windowTokens !== 0)
      return refuse('geometry_invalid', `Cannot use a window in group ${group}: it is of kind ${kind}`, tokens)
  }
  return null
}

function checkRegion(region: RegionSpec, spec: RankSpec): Refusal | null {
  const nameBytes = utf8Bytes(region.layer)
  if (!inRange(nameBytes, 1, NAME_BYTES_MAX))
    return invalid(region, `a name has 1 to ${NAME_BYTES_MAX} bytes of UTF-8`, { nameBytes })
  for (const [what, text] of [
    ['dtype', region.dtype],
    ['kvRole', region.kvRole],
  ] as const) {
    const bytes = utf8Bytes(text)
    if (!inRange(bytes, 0, NAME_BYTES_MAX))
      return invalid(region, `${what} has at most ${NAME_BYTES_MAX} bytes of UTF-8`, { bytes })
  }
  if (!inRange(region.group, 0, spec.groups.length - 1))
    return invalid(region, `there is no group ${region.group} among ${spec.groups.length}`, { group: region.group })
  if (!inRange(region.pageCount, 1, PAGES_MAX))
    return invalid(region, `1 to ${PAGES_MAX} pages are accepted`, { pageCount: region.pageCount })
  if (region.segments !== 1 && region.segments !== 2)
    return invalid(region, 'a page has 1 or 2 segments', { segments: Number(region.segments) })
  if (!inRange(region.headDim, 0, PAGES_MAX) || !inRange(region.heads, 0, PAGES_MAX))
    return invalid(region, 'heads and their dimension are small integers', {
      headDim: region.headDim,
      heads: region.heads,
    })
  return checkStrides(region, spec) ?? checkBounds(region, spec.allocationBytes) ?? checkHeads(region, spec)
}

/** A head layout that a codec would rely on is one that the segment can have. */
function checkHeads(region: RegionSpec, { groups, codec }: RankSpec): Refusal | null {
  const tokenBytes = contradictedTokenBytes(region, groups, codec)
  if (tokenBytes === null) return null
  const { headDim, heads, kvRole, segments, segmentBytes } = region
  return invalid(
    region,
    `${heads} heads of ${headDim} values take ${tokenBytes} bytes a token, and ${codec.name} cannot cut a segment of ${segmentBytes} bytes into them; register the heads that the pages have, or head_dim 0`,
    { headDim, heads, kvRole, segments, segmentBytes, tokenBytes },
  )
}

function checkStrides(region: RegionSpec, spec: RankSpec): Refusal | null {
  const { segments, segmentBytes, segmentStrideBytes, pageStrideBytes, offsetBytes } = region
  const sizes = { segmentBytes, segmentStrideBytes, pageStrideBytes, offsetBytes }
  if (!isOffset(segmentBytes) || segmentBytes === 0) return invalid(region, 'a segment has at least one byte', sizes)
  if (!isOffset(offsetBytes)) return invalid(region, 'an offset is an integer below 2^53', sizes)
  if (!isOffset(pageStrideBytes) || pageStrideBytes < segmentBytes)
    return invalid(region, 'pages are at least one segment apart', sizes)
  if (!isOffset(segmentStrideBytes) || segmentStrideBytes < segmentBytes)
    return invalid(region, 'V begins at or after the end of K', sizes)
  if (segments === 1 && segmentStrideBytes !== segmentBytes)
    return invalid(region, 'one segment has no stride: give its size', sizes)
  if (segments * segmentBytes > pageStrideBytes && segmentStrideBytes === segmentBytes && region.pageCount > 1)
    return refuse('region_overlap', `Cannot register layer ${region.layer}: its pages overlap`, {
      layer: region.layer,
      ...sizes,
    })
  if (spec.pageFirst && segments === 2 && segmentStrideBytes > segmentBytes)
    return invalid(region, 'page-first storage is not for split K and V', sizes)
  return null
}

/** offset + (pages - 1) * page stride + (segments - 1) * segment stride + segment <= allocation, with no rounding. */
function checkBounds(region: RegionSpec, allocationBytes: readonly number[]): Refusal | null {
  const available = allocationBytes[region.allocation]
  if (!isOffset(region.allocation) || available === undefined)
    return outOfBounds(region, `there is no allocation ${region.allocation}`, { allocation: region.allocation })
  let endBytes = region.offsetBytes
  const parts = [
    [region.pageCount - 1, region.pageStrideBytes],
    [region.segments - 1, region.segmentStrideBytes],
    [1, region.segmentBytes],
  ] as const
  for (const [count, bytes] of parts) {
    const product = count * bytes
    endBytes += product
    // A product or sum of safe integers that is itself at most 2^53 - 1 has not been rounded.
    if (!Number.isSafeInteger(product) || !Number.isSafeInteger(endBytes))
      return outOfBounds(region, 'its end is above 2^53', { allocation: region.allocation })
  }
  if (endBytes > available)
    return outOfBounds(region, `it ends at ${endBytes}, its allocation has ${available} bytes`, { endBytes, available })
  return null
}

/** As it is kept: K and V that touch are one segment of twice the size, unless each is coded by itself. */
function stored(region: RegionSpec, { paddingBytes, codec }: RankSpec, coding: LayerCoding): LayerGeometry {
  const adjacent = region.segments === 2 && region.segmentStrideBytes === region.segmentBytes && !isCoding(codec)
  const segmentBytes = adjacent ? region.segmentBytes * 2 : region.segmentBytes
  const { layer, group, allocation, offsetBytes, pageCount, pageStrideBytes, dtype, kvRole, headDim, heads } = region
  return {
    layer,
    group,
    allocation,
    offsetBytes,
    pageCount,
    pageStrideBytes,
    segments: adjacent ? 1 : region.segments,
    segmentBytes,
    segmentStrideBytes: adjacent ? segmentBytes : region.segmentStrideBytes,
    dtype,
    kvRole,
    headDim,
    heads,
    paddedBytes: alignUp(segmentBytes, paddingBytes),
    coding,
  }
}

function pageCountsOf(layers: readonly LayerGeometry[], groups: number): number[] | Refusal {
  const counts = new Array<number>(groups).fill(0)
  for (const layer of layers) {
    const expected = counts[layer.group] as number
    if (expected !== 0 && expected !== layer.pageCount)
      return invalid(layer, `group ${layer.group} has ${expected} pages, this layer ${layer.pageCount}`, {
        group: layer.group,
        pageCount: layer.pageCount,
        expected,
      })
    counts[layer.group] = layer.pageCount
  }
  return counts
}

function checkOverlaps(layers: readonly LayerGeometry[], allocations: number): Refusal | null {
  const runs: ByteRun[][] = Array.from({ length: allocations }, () => [])
  for (const [owner, layer] of layers.entries()) {
    for (let segment = 0; segment < layer.segments; segment++) {
      runs[layer.allocation]?.push({
        baseBytes: layer.offsetBytes + segment * layer.segmentStrideBytes,
        strideBytes: layer.pageStrideBytes,
        count: layer.pageCount,
        bytes: layer.segmentBytes,
        owner,
      })
    }
  }
  for (const [allocation, members] of runs.entries()) {
    const overlap = findOverlap(members)
    if (overlap === null) continue
    const first = layers[overlap.first]?.layer ?? ''
    const second = layers[overlap.second]?.layer ?? ''
    const how = overlap.proven ? 'share bytes' : 'interleave with different page strides'
    return refuse(
      'region_overlap',
      `Cannot register layers ${first} and ${second}: they ${how} in allocation ${allocation}`,
      {
        allocation,
        first,
        second,
      },
    )
  }
  return null
}

function inRange(value: number, least: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= least && value <= most
}

function invalid(region: RegionSpec, why: string, values: Refusal['values']): Refusal {
  return refuse('geometry_invalid', `Cannot register layer ${region.layer}: ${why}`, { layer: region.layer, ...values })
}

function outOfBounds(region: RegionSpec, why: string, values: Refusal['values']): Refusal {
  return refuse('region_out_of_bounds', `Cannot register layer ${region.layer}: ${why}`, {
    layer: region.layer,
    ...values,
  })
}
