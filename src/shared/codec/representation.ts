import { MIB } from '../base/units.js'
import type { GroupSpec, RegionSpec } from '../layout/regions.js'
import {
  type ItemCoding,
  type LayerCoding,
  RAW,
  type RawReason,
  savesEnough,
  storedBytesOf,
  vectorBytes,
} from './coding.js'
import { byNaturalName } from './natural-order.js'
import type { CodecDevice, CodecName, CodecSetting } from './setting.js'

/**
 * The policy: which coding the items of a layer get under a setting, from what the engine said about the layer alone.
 * Head layout is never guessed from byte counts. What is not certain is kept as it is, with the reason.
 */

/** Segments above this stay raw: the most that nvCOMP compresses as one chunk, and the bound of all codecs. */
export const CODED_SEGMENT_BYTES_MAX = 16 * MIB
/** Least bytes of an item that ANS is given. */
export const ANS_ITEM_BYTES_MIN = 4096
/** Alignment of what nvCOMP reads. */
const ANS_ALIGNMENT_BYTES = 8
/** Dimensions that the Walsh-Hadamard transform of TurboQuant is built for. */
export const TURBOQUANT_HEAD_DIMS: readonly number[] = [32, 64, 128, 256]
/** Layers at either end of a stage that TurboQuant keeps exact. */
export const PROTECTED_LAYERS = 2
/** Seed of the signs of the layer at `place`: LMCache's rule, over a generator of our own. */
const SEED_FIRST = 42
const SEED_STEP = 1337
/** Size and alignment of 16-bit values. */
const SCALAR_BYTES = 2

type Half = 'bf16' | 'fp16'

/**
 * The coding of each of a rank's regions, in their order. Regions are checked before: names are unique, groups exist.
 * `allocationOffsetBytes`: where each allocation begins in the driver's; 0 where it says nothing.
 */
export function codingsOf(
  regions: readonly RegionSpec[],
  groups: readonly GroupSpec[],
  setting: CodecSetting,
  device: CodecDevice,
  allocationOffsetBytes: readonly number[] = [],
): LayerCoding[] {
  const { name } = setting
  if (name === 'none') return regions.map((region) => rawLayer(region, 'no-codec'))
  const places = placesOf(regions, groups)
  return regions.map((region) => {
    const checkpoint = groups[region.group]?.kind === 'checkpoint'
    // Only where bytes begin matters below: in the driver's allocation, not in what was exported of it.
    const offsetBytes = region.offsetBytes + (allocationOffsetBytes[region.allocation] ?? 0)
    const placed = { ...region, offsetBytes }
    const coding = codingOf(placed, checkpoint, name, device, places.get(region.layer) ?? null)
    return typeof coding === 'string' ? rawLayer(region, coding) : { segments: coding, rawReason: null }
  })
}

/** The coding of one item: its layer's, unless its bytes are no whole vectors or coding them would not save an eighth. */
export function itemCoding(coding: ItemCoding, itemBytes: number): ItemCoding {
  if (coding.format === 'raw') return RAW
  if (coding.format === 'ans') return itemBytes >= ANS_ITEM_BYTES_MIN ? coding : RAW
  const whole = itemBytes % (coding.format === 'fp8' ? SCALAR_BYTES : vectorBytes(coding)) === 0
  return whole && savesEnough(storedBytesOf(coding, itemBytes), itemBytes) ? coding : RAW
}

interface Place {
  readonly index: number
  readonly count: number
}

/**
 * Place of every layer of a stage, in natural order of names: layer.2 before layer.10. An engine may register the keys and
 * the values of a layer as two regions: keys are counted among what holds keys, values among what holds values, so that
 * both have the place of their layer. Recurrent state and opaque bytes are no layer's keys or values.
 */
function placesOf(regions: readonly RegionSpec[], groups: readonly GroupSpec[]): Map<string, Place> {
  const attention = regions.filter((region) => isAttention(region) && groups[region.group]?.kind !== 'checkpoint')
  const places = new Map<string, Place>()
  // Those with both are in both lists; their place is that of their keys, which are entered last.
  for (const without of ['k', 'v']) {
    const holders = attention.filter(({ kvRole }) => kvRole !== without)
    const names = holders.map(({ layer }) => layer).sort(byNaturalName)
    for (const [index, name] of names.entries()) places.set(name, { index, count: names.length })
  }
  return places
}

function codingOf(
  region: RegionSpec,
  checkpoint: boolean,
  name: Exclude<CodecName, 'none'>,
  device: CodecDevice,
  place: Place | null,
): readonly ItemCoding[] | RawReason {
  const bits = bitsOf(name)
  if (bits !== null) return turboquantOf(region, checkpoint, bits, place)
  return name === 'ans' ? ansOf(region, device) : fp8Of(region, checkpoint)
}

function ansOf(region: RegionSpec, device: CodecDevice): readonly ItemCoding[] | RawReason {
  if (device !== 'cuda') return 'device'
  if (isLarge(region)) return 'large'
  if (region.segmentBytes < ANS_ITEM_BYTES_MIN) return 'small'
  if (!aligned(region, ANS_ALIGNMENT_BYTES)) return 'alignment'
  const scalar = isAttention(region) ? (halfOf(region) ?? (isE4m3(region) ? 'e4m3' : 'bytes')) : 'bytes'
  const odd = scalar !== 'e4m3' && region.segmentBytes % SCALAR_BYTES !== 0
  return each(region, { ...RAW, format: 'ans', scalar: odd ? 'bytes' : scalar })
}

function fp8Of(region: RegionSpec, checkpoint: boolean): readonly ItemCoding[] | RawReason {
  const scalar = quantizable(region, checkpoint)
  if (!isHalf(scalar)) return scalar
  if (!aligned(region, SCALAR_BYTES)) return 'alignment'
  return each(region, { ...RAW, format: 'fp8', scalar })
}

function turboquantOf(
  region: RegionSpec,
  checkpoint: boolean,
  bits: 3 | 4,
  place: Place | null,
): readonly ItemCoding[] | RawReason {
  const vectors = vectorsOf(region, checkpoint)
  if (typeof vectors === 'string') return vectors
  if (!aligned(region, SCALAR_BYTES)) return 'alignment'
  if (place === null || place.index < PROTECTED_LAYERS || place.index >= place.count - PROTECTED_LAYERS) {
    return 'protected'
  }
  const { scalar, roles } = vectors
  const { headDim } = region
  const seed = SEED_FIRST + SEED_STEP * place.index
  return roles.map((role): ItemCoding => ({ format: 'turboquant', scalar, role, bits, headDim, seed }))
}

/**
 * Bytes of all heads of one token, when a codec would cut a segment of this layer into them and the segment is no multiple
 * of them: what was registered contradicts itself. Null when there is nothing to say against it.
 */
export function contradictedTokenBytes(
  region: RegionSpec,
  groups: readonly GroupSpec[],
  setting: CodecSetting,
): number | null {
  if (bitsOf(setting.name) === null) return null
  const vectors = vectorsOf(region, groups[region.group]?.kind === 'checkpoint')
  if (typeof vectors === 'string') return null
  const tokenBytes = region.heads * region.headDim * SCALAR_BYTES * (vectors.roles.includes('packed') ? 2 : 1)
  return region.segmentBytes % tokenBytes === 0 ? null : tokenBytes
}

/** Which vectors the segments hold, or why that is not certain. */
function vectorsOf(
  region: RegionSpec,
  checkpoint: boolean,
): { readonly scalar: Half; readonly roles: readonly ('k' | 'v' | 'packed')[] } | RawReason {
  const scalar = quantizable(region, checkpoint)
  if (!isHalf(scalar)) return scalar
  const roles = rolesOf(region)
  if (roles === null) return 'role'
  return TURBOQUANT_HEAD_DIMS.includes(region.headDim) && region.heads > 0 ? { scalar, roles } : 'head-layout'
}

/** The 16-bit type of a layer whose values may come back rounded, or why they may not. */
function quantizable(region: RegionSpec, checkpoint: boolean): Half | RawReason {
  if (isLarge(region)) return 'large'
  const scalar = halfOf(region)
  if (scalar === null) return 'dtype'
  if (checkpoint) return 'checkpoint'
  return isAttention(region) ? scalar : 'role'
}

function isHalf(scalar: Half | RawReason): scalar is Half {
  return scalar === 'bf16' || scalar === 'fp16'
}

function isLarge({ segmentBytes }: RegionSpec): boolean {
  return segmentBytes > CODED_SEGMENT_BYTES_MAX
}

/** Bits of a value under a codec that cuts segments into vectors. */
function bitsOf(name: CodecName): 3 | 4 | null {
  return name === 'turboquant-4' ? 4 : name === 'turboquant-3' ? 3 : null
}

/** Two segments are K and V; one with role `packed` has both of a head side by side. */
function rolesOf({ kvRole, segments }: RegionSpec): readonly ('k' | 'v' | 'packed')[] | null {
  if (kvRole === 'packed') return segments === 2 ? ['k', 'v'] : ['packed']
  return (kvRole === 'k' || kvRole === 'v') && segments === 1 ? [kvRole] : null
}

function isAttention({ kvRole }: RegionSpec): boolean {
  return kvRole === 'packed' || kvRole === 'k' || kvRole === 'v' || kvRole === 'latent'
}

function halfOf({ dtype }: RegionSpec): Half | null {
  return dtype === 'bfloat16' ? 'bf16' : dtype === 'float16' ? 'fp16' : null
}

function isE4m3({ dtype }: RegionSpec): boolean {
  return dtype === 'float8_e4m3fn' || dtype === 'fp8'
}

/** True when every page and segment begins at a multiple of `bytes`. */
function aligned(region: RegionSpec, bytes: number): boolean {
  const { offsetBytes, pageStrideBytes, segmentStrideBytes, segments } = region
  const starts = [offsetBytes, pageStrideBytes, segments === 2 ? segmentStrideBytes : 0]
  return starts.every((start) => start % bytes === 0)
}

function each({ segments }: RegionSpec, coding: ItemCoding): ItemCoding[] {
  return new Array<ItemCoding>(segments).fill(coding)
}

function rawLayer(region: RegionSpec, rawReason: RawReason): LayerCoding {
  return { segments: each(region, RAW), rawReason }
}
