import type { SECTOR_BYTES } from '../base/units.js'
import type { ItemCoding, LayerCoding } from '../codec/coding.js'
import type { CodecDevice, CodecSetting } from '../codec/setting.js'

/**
 * What an engine says about its KV memory, and what is kept of it once every range has been checked. Plain values
 * only: geometry.ts checks, granules.ts cuts, seal.ts joins ranks, templates.ts turns a rank into addresses.
 *
 *   address(page p, segment s) = allocation base + offsetBytes + p * pageStrideBytes + s * segmentStrideBytes
 *
 *   packed    segments 1, pageStrideBytes = segmentBytes                     |KV0|KV1|KV2|...
 *   adjacent  segments 2, segmentStrideBytes = segmentBytes                  |K0 V0|K1 V1|...      kept as one segment,
 *                                                                                            as two under a codec
 *   split     segments 2, segmentStrideBytes > segmentBytes                  |K0|K1|...      |V0|V1|...
 *   strided   pageStrideBytes > the bytes of one page (pages of all layers interleaved)  |L0p0|L1p0|L0p1|L1p1|...
 */

/** One layer of one rank as registered. All sizes in bytes; `allocation` indexes the allocations of the same message. */
export interface RegionSpec {
  /** Layer name, unique in its rank; 1 to 256 bytes of UTF-8. */
  readonly layer: string
  readonly group: number
  readonly allocation: number
  readonly offsetBytes: number
  readonly pageCount: number
  readonly pageStrideBytes: number
  readonly segments: 1 | 2
  /** Bytes of one segment of one page: with two segments, of K alone. */
  readonly segmentBytes: number
  /** From K to V of one page; equal to segmentBytes when they are adjacent and when there is one segment. */
  readonly segmentStrideBytes: number
  /** As the engine's framework names it; storage codecs know `bfloat16`, `float16`, `float8_e4m3fn` and `fp8`. */
  readonly dtype: string
  /**
   * `packed`: keys and values; of two segments the first holds keys, one holds the key and the value of a head of a token
   * side by side. `k`, `v`: one of them. `latent`: of latent attention. `state`: recurrent. `opaque`: anything else.
   */
  readonly kvRole: string
  /** Values of a head's vector, when each lies in one run and a segment is whole vectors; 0 when that is not certain. */
  readonly headDim: number
  /** Heads of this rank; 0 when unknown. */
  readonly heads: number
}

/**
 * What an engine says about one group. shared/planning/recovery.ts says which of its blocks a resumed request needs.
 *
 *   full-attention   every block from the start
 *   sliding-window   the trailing blocks that hold `windowTokens` tokens
 *   checkpoint       one: a page is the whole recurrent state after the last token of its block
 */
export interface GroupSpec {
  readonly kind: 'full-attention' | 'sliding-window' | 'checkpoint'
  /** Tokens of one block (one page of this group); of a checkpoint group, from one checkpoint to the next. */
  readonly blockTokens: number
  /** At least 1 for a sliding window, 0 for every other kind. */
  readonly windowTokens: number
}

/** Everything that one rank registers. */
export interface RankSpec {
  readonly tpRank: number
  readonly ppRank: number
  readonly regions: readonly RegionSpec[]
  /** Real sizes of the imported allocations, in bytes. */
  readonly allocationBytes: readonly number[]
  /** Where each of them begins in an allocation of the driver's, which is aligned for everything. */
  readonly allocationOffsetBytes: readonly number[]
  /** One per group id, 0 … n - 1; the same list on every rank. */
  readonly groups: readonly GroupSpec[]
  /** All layers of a rank are published together, as one stored slot. */
  readonly pageFirst: boolean
  /** The Manager's: the engine neither chooses nor sees it. */
  readonly codec: CodecSetting
  /** What the allocations lie on. */
  readonly device: CodecDevice
  /** Unit that stored segments are padded to. */
  readonly paddingBytes: typeof SECTOR_BYTES
}

/** One layer of a checked rank. Without a codec adjacent K and V have become one segment. */
export interface LayerGeometry extends RegionSpec {
  /** How its items are coded. */
  readonly coding: LayerCoding
  /** Stored bytes of one segment: segmentBytes rounded up to the padding. */
  readonly paddedBytes: number
}

/** One checked rank: every page of every layer lies inside its allocation and overlaps no other. */
export interface RankGeometry {
  readonly tpRank: number
  readonly ppRank: number
  /** Stored page-first: asked for, and there is no codec. */
  readonly pageFirst: boolean
  readonly codec: CodecSetting
  readonly paddingBytes: number
  readonly groups: readonly GroupSpec[]
  /** Pages of each group on this rank; 0 where the rank has no layer of the group. */
  readonly pageCounts: readonly number[]
  /** Sorted by name (UTF-16 code unit order). */
  readonly layers: readonly LayerGeometry[]
  readonly allocationBytes: readonly number[]
}

/**
 * One granule of a state group: unit of checksum, pool allocation, SSD read and SSD write. Under a codec it is one item;
 * sizes here are those of the engine's bytes, and a stored granule has a length of its own, at most that.
 */
export interface GranuleSpec {
  /** Ordinal of its rank in InstanceGeometry.ranks. */
  readonly rank: number
  /** itemCount * segmentStrideBytes. */
  readonly bytes: number
  /** Bytes of each item that the checksum covers. */
  readonly segmentBytes: number
  readonly segmentStrideBytes: number
  /** Where the granule lies in the group's extent. */
  readonly extentOffsetBytes: number
  /** First item of the granule among the items of its rank and group. */
  readonly firstItem: number
  readonly itemCount: number
  /** RAW without a codec, and where the policy keeps an item as it is. */
  readonly coding: ItemCoding
  /** Stored bytes of one item where the coding decides them; of ANS and of raw items segmentBytes. */
  readonly expectedBytes: number
}

/** One state group: what is sealed, published, leased and evicted together. */
export interface GroupGeometry extends GroupSpec {
  readonly group: number
  readonly pageFirst: boolean
  readonly codec: CodecSetting
  /** Ranks in order (tp, pp); inside a rank layers in order of name, K before V. */
  readonly granules: readonly GranuleSpec[]
  /** Per rank ordinal: [first, end) in `granules`; empty where a rank has no layer of the group. */
  readonly rankGranules: readonly (readonly [first: number, end: number])[]
  /** Stored bytes when nothing is coded: the sum of all granules. */
  readonly extentBytes: number
  /** Engine bytes, without padding. */
  readonly payloadBytes: number
  /** Per rank ordinal: names of its layers of this group, in stored order. Their indices are *layer ordinals*. */
  readonly rankLayers: readonly (readonly string[])[]
  /**
   * Per rank ordinal: firstItem of each layer ordinal, then the number of items: layer n owns the items
   * layerFirstItem[rank][n] … layerFirstItem[rank][n + 1] - 1 of its rank and group.
   */
  readonly layerFirstItem: readonly (readonly number[])[]
}

/** All ranks of one engine start, joined. */
export interface InstanceGeometry {
  /** Sorted union of all layer names; a layer's id is its index here. */
  readonly layers: readonly string[]
  /** In order (tpRank, ppRank); an index here is a *rank ordinal*. */
  readonly ranks: readonly RankGeometry[]
  readonly tpSize: number
  readonly ppSize: number
  readonly pageFirst: boolean
  readonly codec: CodecSetting
  readonly groups: readonly GroupGeometry[]
}
