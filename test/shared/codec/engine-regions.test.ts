import { readFileSync } from 'node:fs'
import test from 'ava'
import type { ItemCoding } from '../../../src/shared/codec/coding.js'
import type { CodecName } from '../../../src/shared/codec/setting.js'
import type { RegionSpec } from '../../../src/shared/layout/regions.js'
import { instanceOf, rankSpec } from '../../support/regions.js'

/** What the Python client registers for tensors of engines: five layers each. Its tests hold it to the same file. */
const CASES = JSON.parse(
  readFileSync(new URL('../../../../test/golden/engine-regions.json', import.meta.url), 'utf8'),
) as readonly { readonly name: string; readonly regions: readonly RegionSpec[] }[]

const ALLOCATION_BYTES = 2 ** 24

function nameOf({ format, scalar, role, bits, headDim }: ItemCoding): string {
  return format === 'turboquant' ? `${scalar} ${role} ${headDim} x ${bits}` : format === 'raw' ? 'raw' : scalar
}

/** Codings of the items of an instance of this case on a CUDA device, each once, in the order of items. */
function codingsOf(regions: readonly RegionSpec[], name: CodecName): string {
  const allocations = Math.max(...regions.map(({ allocation }) => allocation)) + 1
  const allocationBytes = new Array<number>(allocations).fill(ALLOCATION_BYTES)
  const instance = instanceOf([rankSpec(regions, { codec: { name }, device: 'cuda', allocationBytes })])
  const items = instance.groups.flatMap(({ granules }) => granules.map(({ coding }) => nameOf(coding)))
  return [...new Set(items)].join(', ')
}

/** Per case: under fp8, turboquant-4, ans. Four of five layers are at the ends of the stage, and raw under TurboQuant. */
const EXPECTED: Readonly<Record<string, string[]>> = {
  'vLLM, packed': ['bf16', 'raw, bf16 packed 128 x 4', 'bf16'],
  'vLLM, packed, fp8': ['raw', 'raw', 'e4m3'],
  'vLLM, K and V apart': ['fp16', 'raw, fp16 k 128 x 4, fp16 v 128 x 4', 'fp16'],
  'vLLM, K and V of a page side by side': ['bf16', 'raw, bf16 k 64 x 4, bf16 v 64 x 4', 'bf16'],
  'vLLM, latent': ['bf16', 'raw', 'bf16'],
  'SGLang, a pool for keys and one for values': ['bf16', 'raw, bf16 k 128 x 4, bf16 v 128 x 4', 'bf16'],
  'SGLang, latent': ['bf16', 'raw', 'bf16'],
}

for (const { name, regions } of CASES) {
  test(`what engines register: ${name} is coded as it may be`, (t) => {
    const found = (['fp8', 'turboquant-4', 'ans'] as const).map((codec) => codingsOf(regions, codec))
    t.deepEqual(found, EXPECTED[name])
    t.is(codingsOf(regions, 'none'), 'raw')
  })
}

test('what engines register: one layer of a stage of five is in the middle, K and V of it alike', (t) => {
  for (const { name, regions } of CASES) {
    const allocationBytes = new Array<number>(10).fill(ALLOCATION_BYTES)
    const rank = rankSpec(regions, { codec: { name: 'turboquant-3' }, device: 'cuda', allocationBytes })
    const coded = instanceOf([rank]).ranks[0]?.layers.filter(({ coding }) => coding.rawReason === null) ?? []
    const middle = coded.every(({ layer }) => layer.startsWith('model.layers.2.'))
    t.true(middle, name)
    const seeds = coded.flatMap(({ coding }) => coding.segments.map(({ seed }) => seed))
    t.true(
      seeds.every((seed) => seed === 42 + 2 * 1337),
      name,
    )
    t.is(coded.length > 0, !name.includes('latent') && !name.includes('fp8'), name)
  }
})
