import { isRefusal } from '../../../src/shared/base/refusal.js'
import { CODEC_NAMES, type CodecName } from '../../../src/shared/codec/setting.js'
import { buildRank } from '../../../src/shared/layout/geometry.js'
import type { GranuleSpec, RankSpec, RegionSpec } from '../../../src/shared/layout/regions.js'
import { sealInstance } from '../../../src/shared/layout/seal.js'
import { rankSpec } from '../../support/regions.js'
import { type Breach, crash, type MakeTarget } from '../target.js'

const DTYPES = ['bfloat16', 'float16', 'float8_e4m3fn', 'float32', ''] as const
const ROLES = ['packed', 'k', 'v', 'latent', 'state', ''] as const
const KINDS = ['full-attention', 'checkpoint'] as const
const ITEM_BYTES_MAX = 1024 * 1024
const SEGMENT_BYTES_MAX = 16 * 1024 * 1024

/** Bytes of one layer: dtype, role, segments, heads, then head dimension, segment bytes, offset and what pages are more apart. */
const LAYER_BYTES = 20
const LAYERS_MAX = 12

interface Said {
  readonly spec: RankSpec
  readonly name: CodecName
}

/** What some bytes register: a codec, a device, a kind of group, and layers, one behind the other. */
function registrationIn(input: Uint8Array): Said | null {
  const view = new DataView(input.buffer, input.byteOffset, input.length)
  const layers = Math.min(LAYERS_MAX, Math.floor((input.length - 3) / LAYER_BYTES))
  if (layers < 1) return null
  const name = CODEC_NAMES[view.getUint8(0) % CODEC_NAMES.length] as CodecName
  let startBytes = 0
  const regions = Array.from({ length: layers }, (_, layer): RegionSpec => {
    const at = 3 + layer * LAYER_BYTES
    const segments = (1 + (view.getUint8(at + 2) % 2)) as 1 | 2
    const segmentBytes = view.getUint32(at + 8, true) % (20 * 1024 * 1024)
    const pageStrideBytes = segments * segmentBytes + view.getUint16(at + 16, true)
    const offsetBytes = startBytes + view.getUint16(at + 12, true)
    startBytes = offsetBytes + 2 * pageStrideBytes
    return {
      layer: `layer.${layer}`,
      group: 0,
      allocation: 0,
      offsetBytes,
      pageCount: 2,
      pageStrideBytes,
      segments,
      segmentBytes,
      segmentStrideBytes: segmentBytes,
      dtype: DTYPES[view.getUint8(at) % DTYPES.length] as string,
      kvRole: ROLES[view.getUint8(at + 1) % ROLES.length] as string,
      headDim: view.getUint16(at + 4, true),
      heads: view.getUint8(at + 3),
    }
  })
  const kind = KINDS[view.getUint8(2) % KINDS.length] as (typeof KINDS)[number]
  const spec = rankSpec(regions, {
    codec: { name },
    device: view.getUint8(1) % 2 === 0 ? 'host' : 'cuda',
    groups: [{ kind, blockTokens: 16, windowTokens: 0 }],
    pageFirst: view.getUint8(1) % 3 === 0,
    allocationBytes: [startBytes],
  })
  return { spec, name }
}

/** Why a granule may not be coded as it is; null: it may. What a format needs, written here once more. */
function wrong({ spec, name }: Said, granule: GranuleSpec, region: RegionSpec): string | null {
  const { coding, segmentBytes: bytes, itemCount, expectedBytes } = granule
  if (coding.format === 'raw') return expectedBytes === bytes ? null : `raw, and ${expectedBytes} bytes are expected`
  const half = region.dtype === 'bfloat16' || region.dtype === 'float16'
  const state = spec.groups[0]?.kind === 'checkpoint'
  if (itemCount !== 1 || bytes > ITEM_BYTES_MAX) return `${itemCount} items of ${bytes} bytes`
  if (region.segmentBytes > SEGMENT_BYTES_MAX) return `a segment of ${region.segmentBytes} bytes`
  if (coding.format === 'ans') {
    const whole = region.offsetBytes % 8 === 0 && region.pageStrideBytes % 8 === 0
    return name === 'ans' && spec.device === 'cuda' && whole && bytes >= 4096 ? null : 'ans where there is none'
  }
  const saved = Math.ceil(expectedBytes / 512) * 8 <= Math.ceil(bytes / 512) * 7
  if (!half || state || !saved || !Number.isInteger(expectedBytes)) return `${region.dtype} as ${coding.format}`
  if (coding.format === 'fp8') return name === 'fp8' && expectedBytes * 2 === bytes ? null : 'fp8 of another length'
  const { headDim, bits, role } = coding
  if (name !== `turboquant-${bits}` || role === 'none') return `turboquant of ${bits} bits under ${name}`
  if (headDim !== region.headDim || ![32, 64, 128, 256].includes(headDim)) return `heads of ${headDim} values`
  const vectors = bytes / (2 * headDim)
  const stored = vectors * ((headDim * bits) / 8) + vectors * { k: 2, v: 4, packed: 3 }[role]
  const whole = vectors % (role === 'packed' ? 2 : 1) === 0
  return whole && stored === expectedBytes ? null : `${vectors} vectors in ${expectedBytes} bytes`
}

/**
 * What engines say about their layers, under every codec: refused, or cut into items each of which its coding fits. What a
 * peer registers decides what the device is told to do with its memory.
 */
export const codings: MakeTarget = (weak) => ({
  name: 'codings',
  seeds: [
    registration(2, 0, 0, 6, 0, 0, 1, 1, 64, 65_536),
    registration(3, 1, 0, 8, 0, 0, 2, 8, 128, 262_144),
    registration(4, 1, 0, 6, 1, 1, 1, 8, 32, 1_572_864),
    registration(1, 1, 1, 3, 3, 4, 1, 0, 0, 8192),
  ],
  run(input) {
    const said = registrationIn(input)
    if (said === null) return null
    const { spec } = said
    // The weakness: a head dimension that nobody gave is guessed.
    const given = weak ? { ...spec, regions: spec.regions.map(guessed) } : spec
    const rank = buildRank(given)
    if (isRefusal(rank)) return null
    const instance = sealInstance([rank], { tpSize: 1, ppSize: 1 })
    if (isRefusal(instance)) return null
    return uncoded(said, instance.groups[0]?.granules ?? [])
  },
})

function guessed(region: RegionSpec): RegionSpec {
  return region.headDim === 0 ? { ...region, headDim: 64, heads: 1 } : region
}

/** Every granule against the layer that its bytes are of. */
function uncoded(said: Said, granules: readonly GranuleSpec[]): Breach | null {
  if (said.name === 'none') {
    return granules.every(({ coding }) => coding.format === 'raw') ? null : crash('something is coded without a codec')
  }
  const regions = [...said.spec.regions].sort((a, b) => (a.layer < b.layer ? -1 : 1))
  const bytesLeft = regions.map(({ segments, segmentBytes }) => segments * segmentBytes)
  let layer = 0
  for (const granule of granules) {
    while (bytesLeft[layer] === 0) layer++
    const why = wrong(said, granule, regions[layer] as RegionSpec)
    if (why !== null) return crash(`layer ${layer}: ${why}`)
    bytesLeft[layer] = (bytesLeft[layer] as number) - granule.segmentBytes
  }
  return bytesLeft.every((bytes) => bytes === 0) ? null : crash(`${bytesLeft} bytes are in no granule`)
}

/** Bytes that register `layers` layers which are alike. */
function registration(
  codec: number,
  device: number,
  kind: number,
  layers: number,
  dtype: number,
  role: number,
  segments: 1 | 2,
  heads: number,
  headDim: number,
  segmentBytes: number,
): Uint8Array {
  const bytes = new Uint8Array(3 + layers * LAYER_BYTES)
  bytes.set([codec, device, kind])
  const view = new DataView(bytes.buffer)
  for (let at = 3; at < bytes.length; at += LAYER_BYTES) {
    bytes.set([dtype, role, segments - 1, heads], at)
    view.setUint16(at + 4, headDim, true)
    view.setUint32(at + 8, segmentBytes, true)
  }
  return bytes
}
