import test from 'ava'
import fc from 'fast-check'
import { isRefusal } from '../../../src/shared/base/refusal.js'
import type { RankGeometry, RankSpec } from '../../../src/shared/layout/regions.js'
import { GRANULES_MAX, rankOrdinal, sealInstance, type WorldShape } from '../../../src/shared/layout/seal.js'
import { holds } from '../../support/model-commands.js'
import { rankOf, rankSpec, region } from '../../support/regions.js'

const WORLD = { tpSize: 2, ppSize: 2 }

function world(change: (spec: RankSpec) => RankSpec = (spec) => spec): RankGeometry[] {
  const ranks: RankGeometry[] = []
  for (let tpRank = 0; tpRank < 2; tpRank++) {
    for (let ppRank = 0; ppRank < 2; ppRank++) {
      const regions = [0, 1].map((index) =>
        region({ layer: `layer.${ppRank * 2 + index}`, offsetBytes: index * 65_536 }),
      )
      ranks.push(rankOf(change(rankSpec(regions, { tpRank, ppRank }))))
    }
  }
  return ranks
}

function errorOf(ranks: readonly RankGeometry[], shape: WorldShape = WORLD): string {
  const sealed = sealInstance(ranks, shape)
  return isRefusal(sealed) ? sealed.error : 'sealed'
}

/** Changes the first region of rank (tp, pp). */
function onRank(tpRank: number, ppRank: number, change: object): RankGeometry[] {
  return world((spec) =>
    spec.tpRank === tpRank && spec.ppRank === ppRank
      ? { ...spec, regions: spec.regions.map((each, index) => (index === 0 ? { ...each, ...change } : each)) }
      : spec,
  )
}

test('seal: the order in which ranks registered changes nothing', (t) => {
  const expected = sealInstance(world(), WORLD)
  t.false(isRefusal(expected))
  const orders = fc.shuffledSubarray(world(), { minLength: 4 })
  t.true(
    holds(
      fc.property(orders, (ranks) => JSON.stringify(sealInstance(ranks, WORLD)) === JSON.stringify(expected)),
      50,
    ),
  )
  if (isRefusal(expected)) return
  t.deepEqual(expected.layers, ['layer.0', 'layer.1', 'layer.2', 'layer.3'])
  t.deepEqual(
    expected.ranks.map(({ tpRank, ppRank }) => rankOrdinal(WORLD, tpRank, ppRank)),
    [0, 1, 2, 3],
  )
  t.is(rankOrdinal(WORLD, 2, 0), -1)
})

test('seal: every (layer, tp) cell has exactly one owner', (t) => {
  t.is(errorOf(world()), 'sealed')
  t.is(errorOf(world().slice(1)), 'instance_not_sealed')
  t.is(errorOf([...world(), world()[2] as RankGeometry]), 'rank_taken')
  t.is(errorOf(world(), { tpSize: 1, ppSize: 2 }), 'geometry_conflict')
  t.is(errorOf(onRank(1, 0, { layer: 'layer.9' })), 'geometry_conflict')
  t.is(errorOf(onRank(0, 1, { layer: 'layer.0' })), 'geometry_conflict')
  const holes = world().map((rank) =>
    rank.tpRank === 1 && rank.ppRank === 1 ? { ...rank, layers: rank.layers.slice(1) } : rank,
  )
  t.is(errorOf(holes), 'geometry_conflict')
})

test('seal: shards of one layer agree in everything but their addresses', (t) => {
  for (const change of [
    { segmentBytes: 2048, segmentStrideBytes: 2048 },
    { segments: 2, segmentStrideBytes: 16_384 },
    { dtype: 'fp8' },
    { kvRole: 'latent' },
    { heads: 4 },
    { headDim: 64 },
  ])
    t.is(errorOf(onRank(1, 0, change)), 'geometry_conflict', JSON.stringify(change))
  t.is(errorOf(onRank(1, 0, { offsetBytes: 2 ** 20, pageStrideBytes: 8192 })), 'sealed')
})

test('seal: ranks agree on groups, padding and page-first, and no group is empty', (t) => {
  const group = { kind: 'full-attention' as const, blockTokens: 16, windowTokens: 0 }
  t.is(errorOf(world((spec) => ({ ...spec, pageFirst: spec.tpRank === 1 }))), 'geometry_conflict')
  t.is(
    errorOf(world((spec) => ({ ...spec, groups: [{ ...group, blockTokens: 16 + spec.tpRank }] }))),
    'geometry_conflict',
  )
  const window = { kind: 'sliding-window' as const, blockTokens: 16 }
  t.is(errorOf(world((spec) => ({ ...spec, groups: [{ ...window, windowTokens: 64 }] }))), 'sealed')
  t.is(
    errorOf(world((spec) => ({ ...spec, groups: [{ ...window, windowTokens: 64 + spec.tpRank }] }))),
    'geometry_conflict',
  )
  t.is(
    errorOf(world((spec) => ({ ...spec, groups: spec.ppRank === 0 ? [group] : [group, group] }))),
    'geometry_conflict',
  )
  t.is(errorOf(world((spec) => ({ ...spec, groups: [group, group] }))), 'geometry_invalid')
  const perStage = (spec: RankSpec): RankSpec => ({
    ...spec,
    groups: [group, group],
    regions: spec.regions.map((each) => ({ ...each, group: spec.ppRank })),
  })
  t.is(errorOf(world(perStage)), 'sealed')
  t.is(errorOf(world((spec) => ({ ...perStage(spec), pageFirst: true }))), 'geometry_invalid')
})

test('seal: a block of more granules than the cap is refused before anything is built for it', (t) => {
  const large = (granules: number): RankGeometry[] => {
    const bytes = granules * 2 ** 20
    return [rankOf(rankSpec([region({ segmentBytes: bytes, pageCount: 1 })], { allocationBytes: [bytes] }))]
  }
  t.is(errorOf(large(GRANULES_MAX), { tpSize: 1, ppSize: 1 }), 'sealed')
  t.is(errorOf(large(GRANULES_MAX + 1), { tpSize: 1, ppSize: 1 }), 'geometry_invalid')
  t.is(errorOf(large(2 ** 30), { tpSize: 1, ppSize: 1 }), 'geometry_invalid')
})
