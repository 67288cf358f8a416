import { createHash } from 'node:crypto'
import test from 'ava'
import fc from 'fast-check'
import { isRefusal } from '../../../src/shared/base/refusal.js'
import { GRANULE_BYTES_MAX } from '../../../src/shared/base/units.js'
import { isCoded, savesEnough, storedBytesOf, vectorBytes } from '../../../src/shared/codec/coding.js'
import { CODEC_NAMES, type CodecName, NO_CODEC } from '../../../src/shared/codec/setting.js'
import {
  ITEM_CODING,
  ITEM_FORMAT,
  ITEM_ROLE,
  ITEM_SCALAR,
  TEMPLATE_ITEM,
} from '../../../src/shared/layout/descriptors.js'
import { buildRank } from '../../../src/shared/layout/geometry.js'
import { granuleRuns } from '../../../src/shared/layout/granules.js'
import { namespaceDigest, namespaceGeometry } from '../../../src/shared/layout/namespace.js'
import type { InstanceGeometry, RankSpec, RegionSpec } from '../../../src/shared/layout/regions.js'
import { templateOf } from '../../../src/shared/layout/templates.js'
import { codedRank, codedWorlds } from '../../support/coded-worlds.js'
import { holds } from '../../support/model-commands.js'
import { instanceOf, rankSpec, region } from '../../support/regions.js'

const sha256 = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(bytes).digest())

/** Where a piece of a page is: its first byte in the allocation, and how many. */
type Piece = readonly [address: number, bytes: number]

function segmentsOf(spec: RankSpec): Piece[] {
  return [...spec.regions]
    .sort((a, b) => (a.layer < b.layer ? -1 : 1))
    .flatMap(({ segments, offsetBytes, segmentStrideBytes, segmentBytes }) =>
      Array.from({ length: segments }, (_, s): Piece => [offsetBytes + s * segmentStrideBytes, segmentBytes]),
    )
}

/** The items of the template, joined where one segment was cut. */
function itemsJoined(items: Float64Array, segments: readonly Piece[]): Piece[] {
  const starts = new Set(segments.map(([address]) => address))
  const joined: [number, number][] = []
  for (let at = 0; at < items.length; at += TEMPLATE_ITEM.doubles) {
    const address = items[at + TEMPLATE_ITEM.baseBytes] as number
    const bytes = items[at + TEMPLATE_ITEM.bytes] as number
    const last = joined[joined.length - 1]
    if (last !== undefined && last[0] + last[1] === address && !starts.has(address)) last[1] += bytes
    else joined.push([address, bytes])
  }
  return joined
}

test('coded geometry: every item is a granule, in the order of segments, and no vector is cut', (t) => {
  const property = fc.property(codedWorlds, (world) => {
    const spec = codedRank(world)
    const instance = instanceOf([spec])
    const [group] = instance.groups
    const template = templateOf(instance, 0, 0, [7])
    if (group === undefined || template === null || instance.pageFirst || group.pageFirst) return false
    let offset = 0
    for (const [index, granule] of group.granules.entries()) {
      if (granule.firstItem !== index || granule.itemCount !== 1 || granule.extentOffsetBytes !== offset) return false
      if (granule.bytes !== granule.segmentStrideBytes || granule.bytes > GRANULE_BYTES_MAX) return false
      if (granule.bytes !== Math.ceil(granule.segmentBytes / 512) * 512) return false
      if (template.items[index * TEMPLATE_ITEM.doubles + TEMPLATE_ITEM.granuleOffsetBytes] !== 0) return false
      offset += granule.bytes
    }
    const segments = segmentsOf(spec)
    const joined = JSON.stringify(itemsJoined(template.items, segments)) === JSON.stringify(segments)
    const payload = segments.reduce((sum, [, bytes]) => sum + bytes, 0)
    return joined && offset === group.extentBytes && payload === group.payloadBytes
  })
  t.true(holds(property, 300))
})

test('coded geometry: what is coded can be coded, saves its eighth by formula, and is told to the addon', (t) => {
  let coded = 0
  let raw = 0
  const property = fc.property(codedWorlds, (world) => {
    const instance = instanceOf([codedRank(world)])
    const granules = instance.groups[0]?.granules ?? []
    const { codings } = templateOf(instance, 0, 0, [7]) ?? { codings: undefined }
    if ((codings === undefined) === granules.some(({ coding }) => isCoded(coding))) return false
    if (codings !== undefined && codings.length !== granules.length * ITEM_CODING.doubles) return false
    return granules.every(({ coding, expectedBytes, segmentBytes }, index) => {
      const fields = codings?.subarray(index * ITEM_CODING.doubles, (index + 1) * ITEM_CODING.doubles)
      const told: number[] = [ITEM_FORMAT[coding.format], ITEM_SCALAR[coding.scalar], ITEM_ROLE[coding.role]]
      told.push(coding.bits, coding.headDim, coding.seed)
      if (fields !== undefined && JSON.stringify([...fields]) !== JSON.stringify(told)) return false
      if (coding.format === 'raw' || coding.format === 'ans') {
        raw++
        return expectedBytes === segmentBytes
      }
      coded++
      const unit = coding.format === 'fp8' ? 2 : vectorBytes(coding)
      const exact = expectedBytes === storedBytesOf(coding, segmentBytes) && Number.isInteger(expectedBytes)
      return exact && segmentBytes % unit === 0 && savesEnough(expectedBytes, segmentBytes)
    })
  })
  t.true(holds(property, 300))
  t.true(coded > 100 && raw > 100, `${coded} coded items, ${raw} others`)
})

test('coded geometry: layers are published one by one, also by an engine that asked for page-first', (t) => {
  const layers = Array.from({ length: 6 }, (_, i) =>
    region({ layer: `layer.${i}`, dtype: 'bfloat16', segmentBytes: 65_536, offsetBytes: i * 262_144 }),
  )
  const spec = { pageFirst: true, codec: { name: 'turboquant-4' } } as const
  const instance = instanceOf([rankSpec(layers, spec)])
  const [group] = instance.groups
  t.is(instance.pageFirst, false)
  t.deepEqual(group && granuleRuns(group, 0, [1, 2, 5]), [
    { granule: 1, firstItem: 0, itemCount: 1 },
    { granule: 2, firstItem: 0, itemCount: 1 },
    { granule: 5, firstItem: 0, itemCount: 1 },
  ])
  const pair = (64 + 2 + 64 + 4) * (65_536 / 512)
  t.deepEqual(
    group?.granules.map(({ expectedBytes }) => expectedBytes),
    [65_536, 65_536, pair, pair, 65_536, 65_536],
  )
  t.is(instanceOf([rankSpec(layers, { pageFirst: true })]).pageFirst, true)
})

test('coded geometry: pieces of a large segment end on whole kibibytes, each with its own coding', (t) => {
  const heads = { headDim: 128, heads: 8, dtype: 'bfloat16' }
  const segmentBytes = 3 * 1_048_576 + 4096
  const layers = Array.from({ length: 5 }, (_, i) =>
    region({ ...heads, layer: `layer.${i}`, segmentBytes, offsetBytes: i * 16_777_216 }),
  )
  const [group] = instanceOf([rankSpec(layers, { codec: { name: 'turboquant-4' } })]).groups
  const middle = group?.granules.filter(({ coding }) => isCoded(coding)) ?? []
  t.deepEqual(
    middle.map((granule) => granule.segmentBytes),
    [787_456, 787_456, 787_456, 787_456],
  )
  t.is(
    middle.reduce((sum, { expectedBytes }) => sum + expectedBytes, 0),
    (segmentBytes / 512) * 134,
  )
})

test('coded geometry: heads that contradict the segment are refused where a codec would cut into them', (t) => {
  const wrong = region({ dtype: 'bfloat16', segmentBytes: 65_536, headDim: 128, heads: 3 })
  const built = (name: CodecName, change: Partial<RegionSpec> = {}) =>
    buildRank(rankSpec([{ ...wrong, ...change }], { codec: { name } }))
  for (const name of ['turboquant-4', 'turboquant-3'] as const) {
    const refused = built(name)
    t.true(isRefusal(refused))
    if (isRefusal(refused)) {
      t.is(refused.error, 'geometry_invalid')
      t.like(refused.values, { layer: 'layer.0', headDim: 128, heads: 3, tokenBytes: 1536 })
      t.regex(refused.message, /3 heads of 128 values take 1536 bytes a token.*head_dim 0$/)
    }
    for (const change of [{ headDim: 0 }, { heads: 0 }, { dtype: 'float32' }, { kvRole: 'latent' }, { headDim: 96 }]) {
      t.false(isRefusal(built(name, change)), `${name} does not use ${JSON.stringify(change)}`)
    }
    t.false(isRefusal(built(name, { heads: 4 })))
  }
  for (const name of ['none', 'fp8', 'ans'] as const) t.false(isRefusal(built(name)), name)
})

const TP2 = { tpSize: 2, ppSize: 1 }

/** Three layers, one of each layout. */
function mixed(change: Partial<RankSpec>, layers: Partial<RegionSpec> = {}): InstanceGeometry {
  const regions = [
    region({ segments: 2, segmentBytes: 8192, pageStrideBytes: 16_384, dtype: 'bfloat16', ...layers }),
    region({
      layer: 'layer.1',
      segments: 2,
      segmentBytes: 8192,
      segmentStrideBytes: 65_536,
      pageStrideBytes: 8192,
      offsetBytes: 1 << 20,
      dtype: 'bfloat16',
    }),
    region({ layer: 'layer.2', offsetBytes: 2 << 20, kvRole: 'latent', dtype: 'float16' }),
  ]
  return instanceOf(
    [0, 1].map((tpRank) => rankSpec(regions, { tpRank, ...change })),
    TP2,
  )
}

const digestOf = (instance: InstanceGeometry): string =>
  Buffer.from(namespaceDigest(sha256, new Map([['model', Uint8Array.of(1, 2, 3)]]), instance)).toString('hex')

test('namespace: without a codec it is what it was before there were codecs', (t) => {
  t.is(digestOf(mixed({ codec: NO_CODEC })), '3037ebb4e4e6c02fde0de5133a2f1ce09794703d4009d924c20c9ea01d806793')
  t.is(digestOf(mixed({ codec: NO_CODEC, device: 'cuda' })), digestOf(mixed({})))
})

test('namespace: slots name the stored form; no two settings share one, unless nothing is coded under either', (t) => {
  const formats = (name: CodecName, device: 'host' | 'cuda') =>
    namespaceGeometry(mixed({ codec: { name }, device }))
      .slots.filter(({ tpRank }) => tpRank === 1)
      .map(({ storageFormat }) => storageFormat)
  t.deepEqual(formats('none', 'cuda'), ['raw', 'raw', 'raw'])
  t.deepEqual(formats('fp8', 'host'), ['fp8-v1', 'fp8-v1', 'fp8-v1'])
  t.deepEqual(
    formats('ans', 'cuda'),
    ['bf16', 'bf16', 'fp16'].map((scalar) => `ans-nvcomp5.3-v1/${scalar}`),
  )
  t.deepEqual(formats('ans', 'host'), ['raw/item', 'raw/item', 'raw/item'])
  t.deepEqual(formats('turboquant-4', 'cuda'), ['raw/item', 'raw/item', 'raw/item'])
  const digests = CODEC_NAMES.map((name) => digestOf(mixed({ codec: { name }, device: 'cuda' })))
  t.is(new Set(digests).size, CODEC_NAMES.length - 1, 'three layers are all protected: 3 and 4 bits store the same')
})

test('namespace: role, head dimension, bits and seed are in the name of a TurboQuant slot', (t) => {
  const stage = (count: number, headDim: number) =>
    Array.from({ length: count }, (_, i) =>
      region({
        layer: `layer.${i}`,
        ...{ dtype: 'bfloat16', headDim, heads: 1, segments: 2, segmentBytes: 8192 },
        ...{ pageStrideBytes: 16_384, offsetBytes: i * 65_536 },
      }),
    )
  const named = (name: CodecName, headDim: number) =>
    namespaceGeometry(instanceOf([rankSpec(stage(6, headDim), { codec: { name } })])).slots.map((s) => s.storageFormat)
  t.is(named('turboquant-4', 128)[2], 'turboquant4-v1/k/128/2716+turboquant4-v1/v/128/2716')
  t.is(named('turboquant-3', 64)[3], 'turboquant3-v1/k/64/4053+turboquant3-v1/v/64/4053')
  t.is(named('turboquant-3', 64)[1], 'raw/item')
})
