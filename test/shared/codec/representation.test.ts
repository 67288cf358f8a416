import test from 'ava'
import { MIB } from '../../../src/shared/base/units.js'
import { type ItemCoding, isCoded, RAW } from '../../../src/shared/codec/coding.js'
import { codingsOf, itemCoding } from '../../../src/shared/codec/representation.js'
import { CODEC_NAMES, type CodecDevice, type CodecName } from '../../../src/shared/codec/setting.js'
import type { GroupSpec, RegionSpec } from '../../../src/shared/layout/regions.js'
import { region } from '../../support/regions.js'

const ATTENTION: GroupSpec = { kind: 'full-attention', blockTokens: 16, windowTokens: 0 }
const WINDOW: GroupSpec = { kind: 'sliding-window', blockTokens: 16, windowTokens: 64 }
const STATE: GroupSpec = { kind: 'checkpoint', blockTokens: 4096, windowTokens: 0 }
/** A page of 16 tokens of 8 heads of 128 values, K and V of each side by side. */
const PAGE: Partial<RegionSpec> = { dtype: 'bfloat16', segmentBytes: 65_536, headDim: 128, heads: 8 }
const LAYERS = 7

/** A stage whose layer in the middle is `change`; the rest are packed layers, by default of the same group. */
function stage(change: Partial<RegionSpec>): RegionSpec[] {
  return Array.from({ length: LAYERS }, (_, i) =>
    region({ ...PAGE, layer: `layer.${i}`, ...(i === MIDDLE ? change : {}) }),
  )
}
const MIDDLE = 3

/** What becomes of the layer in the middle: formats of its segments, or why it is raw. */
function middle(name: CodecName, change: Partial<RegionSpec>, device: CodecDevice = 'cuda'): string {
  const found = codingsOf(stage(change), [ATTENTION, WINDOW, STATE], { name }, device, [])[MIDDLE]
  if (found === undefined) throw new Error('every region has an answer')
  if (found.rawReason !== null && found.segments.some(isCoded)) throw new Error('raw layers have raw segments')
  const nameOf = ({ format, scalar, role, bits, headDim, seed }: ItemCoding): string =>
    format === 'turboquant' ? `tq${bits} ${scalar} ${role} ${headDim} ${seed}` : `${format} ${scalar}`
  return found.rawReason ?? found.segments.map(nameOf).join(', ')
}

test('policy: without a codec everything is raw', (t) => {
  for (const dtype of ['bfloat16', 'float8_e4m3fn', '']) t.is(middle('none', { dtype }), 'no-codec')
})

test('policy: FP8 is for 16-bit attention, latent too, and for nothing else', (t) => {
  t.is(middle('fp8', {}), 'fp8 bf16')
  t.is(middle('fp8', { dtype: 'float16', kvRole: 'latent', headDim: 0 }), 'fp8 fp16')
  t.is(middle('fp8', { segments: 2, segmentStrideBytes: 65_536, pageStrideBytes: 131_072 }), 'fp8 bf16, fp8 bf16')
  t.is(middle('fp8', { kvRole: 'k', group: 1 }), 'fp8 bf16', 'a window is attention')
  for (const dtype of ['float32', 'float8_e4m3fn', 'uint8', 'bf16', '']) t.is(middle('fp8', { dtype }), 'dtype')
  for (const kvRole of ['state', 'opaque']) t.is(middle('fp8', { kvRole }), 'role')
  t.is(middle('fp8', { group: 2 }), 'checkpoint')
  t.is(middle('fp8', { offsetBytes: 1 }), 'alignment')
  t.is(middle('fp8', { pageStrideBytes: 65_537 }), 'alignment')
})

test('policy: TurboQuant is for head vectors that are known, never for latent ones', (t) => {
  const seed = 42 + 1337 * MIDDLE
  const split = { segments: 2, segmentBytes: 32_768, segmentStrideBytes: 2 ** 20, pageStrideBytes: 32_768 } as const
  t.is(middle('turboquant-4', {}), `tq4 bf16 packed 128 ${seed}`)
  t.is(middle('turboquant-3', split), `tq3 bf16 k 128 ${seed}, tq3 bf16 v 128 ${seed}`)
  t.is(middle('turboquant-4', { kvRole: 'latent' }), 'role')
  t.is(middle('turboquant-4', { kvRole: 'opaque' }), 'role')
  t.is(middle('turboquant-4', { ...split, kvRole: 'k' }), 'role', 'two segments are K and V')
  t.is(middle('turboquant-4', { dtype: 'float8_e4m3fn' }), 'dtype')
  t.is(middle('turboquant-4', { group: 2 }), 'checkpoint')
  for (const headDim of [0, 16, 80, 96, 127, 512]) t.is(middle('turboquant-4', { headDim }), 'head-layout')
  for (const headDim of [32, 64, 128, 256]) {
    t.is(middle('turboquant-4', { headDim }), `tq4 bf16 packed ${headDim} ${seed}`)
  }
  t.is(middle('turboquant-4', { heads: 0 }), 'head-layout')
  t.is(middle('turboquant-4', { offsetBytes: 3 }), 'alignment')
})

test('policy: the first and last two layers of a stage are exact under TurboQuant, in the order of numbers', (t) => {
  const layers = Array.from({ length: 12 }, (_, i) => region({ ...PAGE, layer: `layer.${i}` }))
  // As names sort: layer.0, layer.1, layer.10, layer.11, layer.2 ...
  const sorted = [...layers].sort((a, b) => (a.layer < b.layer ? -1 : 1))
  const found = codingsOf(sorted, [ATTENTION], { name: 'turboquant-4' }, 'host', [])
  const raw = sorted.filter((_, i) => found[i]?.rawReason === 'protected').map(({ layer }) => layer)
  t.deepEqual(raw.sort(), ['layer.0', 'layer.1', 'layer.10', 'layer.11'])
  for (const [i, { layer }] of sorted.entries()) {
    const [coding] = found[i]?.segments ?? []
    t.is(coding?.seed, raw.includes(layer) ? 0 : 42 + 1337 * Number(layer.slice('layer.'.length)))
  }
  const four = codingsOf(layers.slice(0, 4), [ATTENTION], { name: 'turboquant-4' }, 'host', [])
  t.true(four.every(({ rawReason }) => rawReason === 'protected'))
})

test('policy: K and V of a layer in regions of their own have the place of their layer; states have none', (t) => {
  const half = { ...PAGE, segmentBytes: 32_768 }
  const layers = Array.from({ length: 5 }, (_, i) => [
    region({ ...half, layer: `layer.${i}.k`, kvRole: 'k' }),
    region({ ...half, layer: `layer.${i}.v`, kvRole: 'v' }),
    region({ layer: `layer.${i}.index`, kvRole: 'opaque', dtype: 'uint8' }),
    region({ layer: `layer.${i}.conv`, kvRole: 'state', group: 1 }),
  ]).flat()
  const found = codingsOf(layers, [ATTENTION, STATE], { name: 'turboquant-3' }, 'host', [])
  const coded = layers.filter((_, i) => found[i]?.rawReason === null).map(({ layer }) => layer)
  t.deepEqual(coded, ['layer.2.k', 'layer.2.v'])
  const seeds = found.filter(({ rawReason }) => rawReason === null).map(({ segments }) => segments[0]?.seed)
  t.deepEqual(seeds, [42 + 2 * 1337, 42 + 2 * 1337])
})

test('policy: ANS takes all bytes of a CUDA device, by the statistics of their type', (t) => {
  t.is(middle('ans', {}), 'ans bf16')
  t.is(middle('ans', { dtype: 'float16', kvRole: 'latent' }), 'ans fp16')
  for (const dtype of ['float8_e4m3fn', 'fp8']) t.is(middle('ans', { dtype }), 'ans e4m3')
  t.is(middle('ans', { dtype: 'float32' }), 'ans bytes')
  t.is(middle('ans', { kvRole: 'state', group: 2 }), 'ans bytes', 'lossless: recurrent state too')
  t.is(middle('ans', { kvRole: 'opaque' }), 'ans bytes')
  t.is(middle('ans', { segmentBytes: 65_535, pageStrideBytes: 65_536 }), 'ans bytes', 'no whole values')
  t.is(middle('ans', {}, 'host'), 'device')
  t.is(middle('ans', { segmentBytes: 4095, pageStrideBytes: 4096 }), 'small')
  t.is(middle('ans', { segmentBytes: 4096 }), 'ans bf16')
  t.is(middle('ans', { offsetBytes: 4 }), 'alignment')
  t.is(middle('ans', { pageStrideBytes: 65_540 }), 'alignment')
  for (const [offset, raw] of [
    [512, false],
    [4, true],
  ] as const) {
    const [found] = codingsOf(stage({}), [ATTENTION], { name: 'ans' }, 'cuda', [offset])
    t.is(found?.rawReason === 'alignment', raw, `memory that begins ${offset} bytes into its allocation`)
  }
})

test('policy: a segment above 16 MiB is raw under every codec, one of 16 MiB is not', (t) => {
  for (const name of CODEC_NAMES.filter((each) => each !== 'none')) {
    t.is(middle(name, { segmentBytes: 16 * MIB + 1024, pageStrideBytes: 17 * MIB }), 'large')
    t.not(middle(name, { segmentBytes: 16 * MIB }), 'large')
  }
})

test('policy: an item that is no whole vectors, or would not save an eighth, is raw', (t) => {
  const fp8: ItemCoding = { ...RAW, format: 'fp8', scalar: 'bf16' }
  const packed: ItemCoding = { ...RAW, format: 'turboquant', scalar: 'bf16', role: 'packed', bits: 4, headDim: 128 }
  const ans: ItemCoding = { ...RAW, format: 'ans', scalar: 'bf16' }
  t.is(itemCoding(fp8, 1024), fp8)
  t.is(itemCoding(fp8, 512), RAW, 'a sector stays a sector')
  t.is(itemCoding(fp8, 2049), RAW)
  t.is(itemCoding(packed, 1024), packed)
  t.is(itemCoding(packed, 1024 + 256), RAW)
  t.is(itemCoding(packed, 512), RAW)
  t.is(itemCoding(ans, 4096), ans)
  t.is(itemCoding(ans, 4095), RAW)
  t.is(itemCoding(RAW, 65_536), RAW)
})
