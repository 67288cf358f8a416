import test from 'ava'
import fc from 'fast-check'
import { isRefusal } from '../../../src/shared/base/refusal.js'
import { allows, type BoundarySet, best, boundaries, intersect } from '../../../src/shared/planning/recovery.js'
import { catches, holds } from '../../support/model-commands.js'

const LIMIT = 120

const sets: fc.Arbitrary<BoundarySet> = fc.oneof(
  fc.record({ stepTokens: fc.integer({ min: 1, max: 12 }), blocks: fc.nat(10) }).map(({ stepTokens, blocks }) => ({
    kind: 'prefix' as const,
    stepTokens,
    lastTokens: stepTokens * blocks,
  })),
  fc
    .uniqueArray(fc.integer({ min: 1, max: LIMIT }), { maxLength: 12 })
    .map((tokens) => ({ kind: 'list' as const, tokens: tokens.sort((a, b) => a - b) })),
)

/** The boundaries as plain numbers, 0 left out. */
function naive(set: BoundarySet): Set<number> {
  if (set.kind === 'list') return new Set(set.tokens)
  const tokens = new Set<number>()
  for (let at = set.stepTokens; at <= set.lastTokens; at += set.stepTokens) tokens.add(at)
  return tokens
}

type Intersect = (a: BoundarySet, b: BoundarySet) => BoundarySet

function isIntersection(of: Intersect): fc.IProperty<[BoundarySet, BoundarySet]> {
  return fc.property(sets, sets, (a, b) => {
    const common = of(a, b)
    const expected = [...naive(a)].filter((tokens) => naive(b).has(tokens)).sort((x, y) => x - y)
    return JSON.stringify([...naive(common)]) === JSON.stringify(expected)
  })
}

test('recovery: sets of all shapes are intersected as sets', (t) => {
  t.true(holds(isIntersection(intersect), 2000))
})

test('recovery: a twin that takes the least of the largest boundaries is caught', (t) => {
  const least: Intersect = (a, b) => (best(a, LIMIT) <= best(b, LIMIT) ? a : b)
  t.true(catches(isIntersection(least)))
})

test('recovery: allows and best agree with the set', (t) => {
  const property = fc.property(sets, fc.nat(LIMIT), (set, limit) => {
    const members = naive(set)
    const expected = Math.max(0, ...[...members].filter((tokens) => tokens <= limit))
    return best(set, limit) === expected && allows(set, limit) === (limit === 0 || members.has(limit))
  })
  t.true(holds(property, 2000))
})

test('recovery: full attention is legal at every prefix that all groups and ranks have', (t) => {
  const group = (blockTokens: number, leadingBlocks: number) => ({
    kind: 'full-attention' as const,
    blockTokens,
    leadingBlocks,
  })
  t.deepEqual(boundaries([group(16, 5), group(16, 3)]), { kind: 'prefix', stepTokens: 16, lastTokens: 48 })
  t.deepEqual(boundaries([group(16, 5), group(64, 1)]), { kind: 'prefix', stepTokens: 64, lastTokens: 64 })
  t.deepEqual(boundaries([group(16, 3), group(64, 1)]), { kind: 'prefix', stepTokens: 64, lastTokens: 0 })
})

test('recovery: kinds that are not supported are refused, alone and beside others', (t) => {
  for (const kind of ['sliding-window', 'checkpoint', 'new-kind'] as const) {
    const set = boundaries([
      { kind: 'full-attention', blockTokens: 16, leadingBlocks: 4 },
      { kind: kind as 'checkpoint', blockTokens: 16, leadingBlocks: 4 },
    ])
    t.true(isRefusal(set) && set.error === 'group_unsupported')
  }
})
