import { isRefusal } from '../../src/shared/base/refusal.js'
import { NO_CODEC } from '../../src/shared/codec/setting.js'
import { buildRank } from '../../src/shared/layout/geometry.js'
import type { InstanceGeometry, RankGeometry, RankSpec, RegionSpec } from '../../src/shared/layout/regions.js'
import { sealInstance, type WorldShape } from '../../src/shared/layout/seal.js'

/** A small valid packed region, but for what `change` says. */
export function region(change: Partial<RegionSpec>): RegionSpec {
  const segmentBytes = change.segmentBytes ?? 4096
  return {
    layer: 'layer.0',
    group: 0,
    allocation: 0,
    offsetBytes: 0,
    pageCount: 4,
    pageStrideBytes: segmentBytes,
    segments: 1,
    segmentBytes,
    segmentStrideBytes: segmentBytes,
    dtype: 'bf16',
    kvRole: 'packed',
    headDim: 128,
    heads: 8,
    ...change,
  }
}

/** What one rank registers: rank (0, 0), one full-attention group of 16 tokens, one allocation of 1 GiB, but for `change`. */
export function rankSpec(regions: readonly RegionSpec[], change: Partial<RankSpec> = {}): RankSpec {
  return {
    tpRank: 0,
    ppRank: 0,
    regions,
    allocationBytes: [2 ** 30],
    allocationOffsetBytes: [],
    groups: [{ kind: 'full-attention', blockTokens: 16, windowTokens: 0 }],
    pageFirst: false,
    codec: NO_CODEC,
    device: 'host',
    paddingBytes: 512,
    ...change,
  }
}

/** Builds a rank that must be valid. */
export function rankOf(spec: RankSpec): RankGeometry {
  const rank = buildRank(spec)
  if (isRefusal(rank)) throw new Error(rank.message)
  return rank
}

/** Builds and seals an instance that must be valid. */
export function instanceOf(specs: readonly RankSpec[], world: WorldShape = { tpSize: 1, ppSize: 1 }): InstanceGeometry {
  const instance = sealInstance(specs.map(rankOf), world)
  if (isRefusal(instance)) throw new Error(instance.message)
  return instance
}
