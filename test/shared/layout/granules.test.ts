import test from 'ava'
import fc from 'fast-check'
import { GRANULE_BYTES_MAX } from '../../../src/shared/base/units.js'
import { TEMPLATE_ITEM } from '../../../src/shared/layout/descriptors.js'
import { type GranuleRun, granuleRuns } from '../../../src/shared/layout/granules.js'
import type { GroupGeometry, InstanceGeometry, RankSpec, RegionSpec } from '../../../src/shared/layout/regions.js'
import { templateOf } from '../../../src/shared/layout/templates.js'
import { catches, holds } from '../../support/model-commands.js'
import { instanceOf, rankSpec, region } from '../../support/regions.js'

const GROUPS = 2
const PAGES = 3

/** Layer sizes of all kinds: tiny, unaligned, equal runs that pass 1 MiB, single segments above 1 MiB. */
const layerShape = fc.record({
  segmentBytes: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(512, 65_536, 300_000) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 5000 }) },
    { weight: 1, arbitrary: fc.integer({ min: GRANULE_BYTES_MAX - 600, max: 4 * GRANULE_BYTES_MAX }) },
  ),
  split: fc.boolean(),
  group: fc.nat(GROUPS - 1),
})

/** One world of tp 2 with one or two stages: every layer in its own place, K and V apart where split. */
const instances: fc.Arbitrary<InstanceGeometry> = fc
  .array(layerShape, { minLength: GROUPS, maxLength: 24 })
  .chain((shapes) =>
    fc.record({
      shapes: fc.constant(shapes),
      ppSize: fc.constantFrom(1, 2),
      names: fc.shuffledSubarray(
        shapes.map((_, i) => `l${i}`),
        { minLength: shapes.length },
      ),
    }),
  )
  .map(({ shapes, ppSize, names }) => {
    const specs: RankSpec[] = []
    for (let ppRank = 0; ppRank < ppSize; ppRank++) {
      let offsetBytes = 0
      const regions: RegionSpec[] = []
      for (const [index, { segmentBytes, split, group }] of shapes.entries()) {
        if (index % ppSize !== ppRank) continue
        const apart = segmentBytes * PAGES + 64
        regions.push(
          region({
            layer: names[index] as string,
            group: index < GROUPS ? index : group,
            offsetBytes,
            pageCount: PAGES,
            segmentBytes,
            segments: split ? 2 : 1,
            segmentStrideBytes: split ? apart : segmentBytes,
          }),
        )
        offsetBytes += apart * 2
      }
      const groups = Array.from({ length: GROUPS }, () => ({
        kind: 'full-attention' as const,
        blockTokens: 16,
        windowTokens: 0,
      }))
      for (let tpRank = 0; tpRank < 2; tpRank++) specs.push(rankSpec(regions, { tpRank, ppRank, groups }))
    }
    return instanceOf(specs, { tpSize: 2, ppSize })
  })

/** [rank, layer, segment, offset in the segment, bytes] for every stored piece in the order of the requirement. */
function naiveOrder(
  instance: InstanceGeometry,
  group: number,
): { rank: number; layer: string; address: number; bytes: number }[] {
  return instance.ranks.flatMap((rank, ordinal) =>
    [...rank.layers]
      .filter((layer) => layer.group === group)
      .sort((a, b) => (a.layer < b.layer ? -1 : 1))
      .flatMap((layer) =>
        Array.from({ length: layer.segments }, (_, segment) => ({
          rank: ordinal,
          layer: layer.layer,
          address: layer.offsetBytes + segment * layer.segmentStrideBytes,
          bytes: layer.segmentBytes,
        })),
      ),
  )
}

test('granules: they tile the extent in order, each within 1 MiB, each of equal padded strides', (t) => {
  t.true(
    holds(
      fc.property(instances, (instance) =>
        instance.groups.every((geometry) => {
          let offset = 0
          let item = 0
          let rank = 0
          for (const granule of geometry.granules) {
            if (granule.rank !== rank) item = 0
            if (granule.rank < rank || granule.firstItem !== item || granule.extentOffsetBytes !== offset) return false
            if (granule.bytes > GRANULE_BYTES_MAX || granule.bytes !== granule.itemCount * granule.segmentStrideBytes)
              return false
            if (granule.segmentStrideBytes !== Math.ceil(granule.segmentBytes / 512) * 512) return false
            rank = granule.rank
            item += granule.itemCount
            offset += granule.bytes
          }
          return offset === geometry.extentBytes
        }),
      ),
      300,
    ),
  )
})

test('templates: items bring every byte of a page to the extent once, in stored order', (t) => {
  const property = fc.property(instances, (instance) => {
    for (const geometry of instance.groups) {
      const moved: { rank: number; address: number; bytes: number }[] = []
      for (const rank of instance.ranks.keys()) {
        const template = templateOf(instance, geometry.group, rank, [7])
        const [first, end] = geometry.rankGranules[rank] as readonly [number, number]
        if (template === null) {
          if (first !== end) return false
          continue
        }
        for (let granule = first; granule < end; granule++) {
          const spec = geometry.granules[granule]
          const from = template.granuleFirstItem[granule - first] as number
          const to = template.granuleFirstItem[granule - first + 1] as number
          if (spec === undefined || to - from !== spec.itemCount) return false
          for (let item = from; item < to; item++) {
            const at = item * TEMPLATE_ITEM.doubles
            const value = (name: keyof typeof TEMPLATE_ITEM): number =>
              template.items[at + TEMPLATE_ITEM[name]] as number
            if (
              value('mapping') !== 7 ||
              value('bytes') !== spec.segmentBytes ||
              value('paddedBytes') !== spec.segmentStrideBytes
            )
              return false
            if (value('granuleOffsetBytes') !== (item - from) * spec.segmentStrideBytes || value('pageCount') !== PAGES)
              return false
            const last = moved[moved.length - 1]
            if (last !== undefined && last.rank === rank && last.address + last.bytes === value('baseBytes'))
              last.bytes += value('bytes')
            else moved.push({ rank, address: value('baseBytes'), bytes: value('bytes') })
          }
        }
      }
      const expected = naiveOrder(instance, geometry.group)
      if (
        JSON.stringify(moved) !== JSON.stringify(expected.map(({ rank, address, bytes }) => ({ rank, address, bytes })))
      )
        return false
      if (geometry.payloadBytes !== expected.reduce((sum, { bytes }) => sum + bytes, 0)) return false
    }
    return true
  })
  t.true(holds(property, 300))
})

type Runs = (geometry: GroupGeometry, rank: number, ordinals: number[]) => GranuleRun[]

/** Runs name exactly the items of the chosen layers, no run leaves its granule, and no two could be one. */
function namesTheItems(runsOf: Runs): fc.IProperty<[InstanceGeometry, boolean[]]> {
  return fc.property(instances, fc.array(fc.boolean(), { minLength: 24, maxLength: 24 }), (instance, chosen) =>
    instance.groups.every((geometry) =>
      geometry.rankLayers.every((layers, rank) => {
        const ordinals = [...layers.keys()].filter((ordinal) => chosen[ordinal])
        const firsts = geometry.layerFirstItem[rank] as readonly number[]
        const expected = ordinals.flatMap((ordinal) => {
          const first = firsts[ordinal] as number
          return Array.from({ length: (firsts[ordinal + 1] as number) - first }, (_, index) => first + index)
        })
        const runs = runsOf(geometry, rank, ordinals)
        const named = runs.flatMap(({ granule, firstItem, itemCount }) => {
          const spec = geometry.granules[granule]
          const inside = spec !== undefined && spec.rank === rank && firstItem + itemCount <= spec.itemCount
          return inside ? Array.from({ length: itemCount }, (_, index) => spec.firstItem + firstItem + index) : [-1]
        })
        const apart = runs.every((run, index) => {
          const before = runs[index - 1]
          return (
            before === undefined ||
            before.granule !== run.granule ||
            before.firstItem + before.itemCount < run.firstItem
          )
        })
        return apart && JSON.stringify(named) === JSON.stringify(expected)
      }),
    ),
  )
}

test('granuleRuns: a fragment names the items of its layers and no other', (t) => {
  t.true(holds(namesTheItems(granuleRuns), 300))
})

test('granuleRuns: twins that take whole granules or count items from the rank are caught', (t) => {
  const whole: Runs = (geometry, rank, ordinals) =>
    granuleRuns(geometry, rank, ordinals).map((run) => ({
      ...run,
      firstItem: 0,
      itemCount: geometry.granules[run.granule]?.itemCount ?? 0,
    }))
  const absolute: Runs = (geometry, rank, ordinals) =>
    granuleRuns(geometry, rank, ordinals).map((run) => ({
      ...run,
      firstItem: run.firstItem + (geometry.granules[run.granule]?.firstItem ?? 0),
    }))
  for (const twin of [whole, absolute]) t.true(catches(namesTheItems(twin)))
})

test('granules: 36 layers of 64 KiB are three granules of twelve, a 3 MiB segment is three pieces', (t) => {
  const layers = Array.from({ length: 36 }, (_, index) =>
    region({ layer: `l${index}`, segmentBytes: 65_536, offsetBytes: index * 262_144 }),
  )
  const [group] = instanceOf([rankSpec(layers)]).groups
  t.deepEqual(
    group?.granules.map(({ itemCount, bytes }) => [itemCount, bytes]),
    [
      [12, 786_432],
      [12, 786_432],
      [12, 786_432],
    ],
  )
  const [large] = instanceOf([rankSpec([region({ segmentBytes: 3 * GRANULE_BYTES_MAX })])]).groups
  t.deepEqual(
    large?.granules.map(({ bytes, extentOffsetBytes }) => [bytes, extentOffsetBytes]),
    [
      [GRANULE_BYTES_MAX, 0],
      [GRANULE_BYTES_MAX, GRANULE_BYTES_MAX],
      [GRANULE_BYTES_MAX, 2 * GRANULE_BYTES_MAX],
    ],
  )
})

test('granules: a recurrent state of 9 MiB is cut into pieces of equal size beside its small tensors', (t) => {
  const STATE_BYTES = 9 * 2 ** 20
  const state = { kind: 'checkpoint' as const, blockTokens: 4096, windowTokens: 0 }
  const conv = region({ layer: 'conv', segmentBytes: 12_288, kvRole: 'state' })
  const temporal = region({ layer: 'temporal', segmentBytes: STATE_BYTES, offsetBytes: 2 ** 20, kvRole: 'state' })
  const instance = instanceOf([rankSpec([conv, temporal], { groups: [state] })])
  const [group] = instance.groups
  t.like(group, { ...state, payloadBytes: 12_288 + STATE_BYTES, extentBytes: 12_288 + STATE_BYTES })
  t.deepEqual(
    group?.granules.map(({ bytes }) => bytes),
    [12_288, ...new Array<number>(9).fill(2 ** 20)],
  )
})
