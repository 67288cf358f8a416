import fc from 'fast-check'
import { CODEC_NAMES } from '../../src/shared/codec/setting.js'
import type { RankSpec, RegionSpec } from '../../src/shared/layout/regions.js'
import { rankSpec, region } from './regions.js'

const PAGES = 2
const HEADS = 2
const CODECS = CODEC_NAMES.filter((name) => name !== 'none')

/** A layer of `tokens` tokens: K and V side by side in vectors, one behind the other in a page, or apart. */
const layerShape = fc.record({
  tokens: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 1, max: 64 }) },
    { weight: 1, arbitrary: fc.integer({ min: 1000, max: 5000 }) },
  ),
  layout: fc.constantFrom('packed' as const, 'adjacent' as const, 'split' as const),
  headDim: fc.constantFrom(0, 32, 64, 80, 128, 256),
  dtype: fc.constantFrom('bfloat16', 'float16', 'float32'),
  role: fc.constantFrom('packed', 'packed', 'latent', 'opaque'),
  gapBytes: fc.constantFrom(0, 0, 0, 8, 1),
})

/** Layers of all kinds under some codec. */
export const codedWorlds = fc.record({
  shapes: fc.array(layerShape, { minLength: 5, maxLength: 9 }),
  name: fc.constantFrom(...CODECS),
  device: fc.constantFrom('host' as const, 'cuda' as const),
  pageFirst: fc.boolean(),
})

export type CodedWorld = typeof codedWorlds extends fc.Arbitrary<infer T> ? T : never

/** One rank, its layers in places of their own in one allocation. */
export function codedRank({ shapes, name, device, pageFirst }: CodedWorld): RankSpec {
  let offsetBytes = 0
  const regions = shapes.map(({ tokens, layout, headDim, dtype, role, gapBytes }, index): RegionSpec => {
    const vector = (headDim === 0 ? 64 : headDim) * (dtype === 'float32' ? 4 : 2)
    const both = layout === 'packed'
    const segmentBytes = tokens * HEADS * vector * (both ? 2 : 1)
    const apart = segmentBytes * PAGES + 64
    const made = region({
      layer: `layer.${index}`,
      offsetBytes,
      pageCount: PAGES,
      segments: both ? 1 : 2,
      segmentBytes,
      segmentStrideBytes: layout === 'split' ? apart : segmentBytes,
      pageStrideBytes: (layout === 'adjacent' ? 2 * segmentBytes : segmentBytes) + (layout === 'split' ? 0 : gapBytes),
      ...{ dtype, headDim, heads: HEADS, kvRole: role },
    })
    offsetBytes += 2 * apart + PAGES * gapBytes + 128
    return made
  })
  const split = regions.some((each) => each.segments === 2 && each.segmentStrideBytes > each.segmentBytes)
  const codec = { name }
  return rankSpec(regions, { codec, device, pageFirst: pageFirst && !split, allocationBytes: [offsetBytes] })
}
