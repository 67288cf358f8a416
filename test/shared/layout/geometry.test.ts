import test from 'ava'
import fc from 'fast-check'
import { isRefusal } from '../../../src/shared/base/refusal.js'
import { buildRank, LAYERS_MAX, PAGES_MAX } from '../../../src/shared/layout/geometry.js'
import { type ByteRun, findOverlap } from '../../../src/shared/layout/overlap.js'
import type { GroupSpec, RankGeometry, RankSpec, RegionSpec } from '../../../src/shared/layout/regions.js'
import { rankSpec, region } from '../../support/regions.js'

/** Marks every byte of every run; the pair of owners that meet first, or null. */
function naiveOverlap(runs: readonly ByteRun[]): boolean {
  const bytes = new Set<number>()
  for (const run of runs) {
    for (let page = 0; page < run.count; page++) {
      for (let byte = 0; byte < run.bytes; byte++) {
        const at = run.baseBytes + page * run.strideBytes + byte
        if (bytes.has(at)) return true
        bytes.add(at)
      }
    }
  }
  return false
}

const runs = (strides: fc.Arbitrary<number>): fc.Arbitrary<ByteRun[]> =>
  fc
    .array(
      fc.record({
        base: fc.nat(60),
        stride: strides,
        count: fc.integer({ min: 1, max: 5 }),
        bytes: fc.integer({ min: 1, max: 6 }),
      }),
      { minLength: 1, maxLength: 5 },
    )
    .map((list) =>
      list.map(({ base, stride, count, bytes }, owner) => ({
        baseBytes: base,
        strideBytes: stride,
        count,
        bytes: count === 1 ? bytes : Math.min(bytes, stride),
        owner,
      })),
    )

type Finder = (runs: readonly ByteRun[]) => unknown

/** For one stride the answer is exact; for several, what passes shares no byte. */
function exactForOneStride(find: Finder): fc.IProperty<[ByteRun[]]> {
  const oneStride = fc.integer({ min: 2, max: 24 }).chain((stride) => runs(fc.constant(stride)))
  return fc.property(oneStride, (list) => (find(list) !== null) === naiveOverlap(list))
}

test('overlap: among runs of one stride it is found exactly when a byte is shared', (t) => {
  fc.assert(exactForOneStride(findOverlap), { numRuns: 3000 })
  t.pass()
})

test('overlap: runs of several strides that pass share no byte', (t) => {
  let passed = 0
  fc.assert(
    fc.property(runs(fc.integer({ min: 1, max: 24 })), (list) => {
      if (findOverlap(list) !== null) return true
      passed++
      return !naiveOverlap(list)
    }),
    { numRuns: 3000 },
  )
  t.true(passed > 300, `${passed} sets of runs passed`)
})

test('overlap: twins that look at spans or at equal pages alone are caught', (t) => {
  const bySpan: Finder = (list) => {
    const sorted = [...list].sort((a, b) => a.baseBytes - b.baseBytes)
    const endOf = (run: ByteRun): number => run.baseBytes + (run.count - 1) * run.strideBytes + run.bytes
    return sorted.some((run, index) => index > 0 && endOf(sorted[index - 1] as ByteRun) > run.baseBytes) ? 1 : null
  }
  const byPage: Finder = (list) =>
    list.some((a, index) =>
      list.slice(index + 1).some((b) => a.baseBytes < b.baseBytes + b.bytes && b.baseBytes < a.baseBytes + a.bytes),
    )
      ? 1
      : null
  for (const twin of [bySpan, byPage])
    t.true(fc.check(exactForOneStride(twin), { numRuns: 3000, seed: 20261129 }).failed)
})

test('overlap: 4,096 interleaved split layers of 2^24 pages are judged without a look at each page', (t) => {
  const list = Array.from({ length: 8192 }, (_, owner) => ({
    baseBytes: owner * 512,
    strideBytes: 8192 * 512,
    count: PAGES_MAX,
    bytes: 512,
    owner,
  }))
  t.is(findOverlap(list), null)
  t.deepEqual(findOverlap([...list, { ...(list[77] as ByteRun), owner: 9000 }]), {
    first: 77,
    second: 9000,
    proven: true,
  })
})

const smallRegion: fc.Arbitrary<RegionSpec> = fc
  .record({
    layer: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    allocation: fc.nat(2),
    offsetBytes: fc.nat(100),
    pageCount: fc.constantFrom(1, 2, 3, 3, 3),
    pageStrideBytes: fc.integer({ min: 1, max: 24 }),
    segments: fc.constantFrom(1 as const, 2 as const),
    segmentBytes: fc.integer({ min: 1, max: 8 }),
    gap: fc.nat(30),
  })
  .map(({ gap, ...rest }) =>
    region({ ...rest, segmentStrideBytes: rest.segments === 1 ? rest.segmentBytes : rest.segmentBytes + gap }),
  )

/** Every byte of every page lies in its allocation and belongs to one (layer, segment, page) alone. */
function naiveSound(spec: RankSpec): boolean {
  const taken = new Set<string>()
  for (const {
    allocation,
    offsetBytes,
    pageCount,
    pageStrideBytes,
    segments,
    segmentBytes,
    segmentStrideBytes,
  } of spec.regions) {
    for (let page = 0; page < pageCount; page++) {
      for (let segment = 0; segment < segments; segment++) {
        for (let byte = 0; byte < segmentBytes; byte++) {
          const at = offsetBytes + page * pageStrideBytes + segment * segmentStrideBytes + byte
          if (at >= (spec.allocationBytes[allocation] ?? 0) || taken.has(`${allocation}:${at}`)) return false
          taken.add(`${allocation}:${at}`)
        }
      }
    }
  }
  return true
}

test('buildRank: what passes is sound, and what is sound and uniform passes', (t) => {
  const seen = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(
      fc.uniqueArray(smallRegion, { selector: ({ layer }) => layer, minLength: 1, maxLength: 4 }),
      (regions) => {
        const spec = rankSpec(regions, { allocationBytes: [90, 150] })
        const built = buildRank(spec)
        const sound = naiveSound(spec)
        if (isRefusal(built)) seen.refused++
        else seen.accepted++
        if (!isRefusal(built)) return sound
        const uniform = regions.every(
          (each) => each.pageCount === regions[0]?.pageCount && each.pageStrideBytes === regions[0]?.pageStrideBytes,
        )
        const spaced = regions.every((each) => each.pageStrideBytes >= each.segmentBytes)
        return !(sound && uniform && spaced)
      },
    ),
    { numRuns: 4000 },
  )
  t.true(seen.accepted > 100 && seen.refused > 100, JSON.stringify(seen))
})

function errorOf(spec: RankSpec): string {
  const built = buildRank(spec)
  return isRefusal(built) ? built.error : 'accepted'
}

test('buildRank: the last byte may be the last of the allocation and not one further', (t) => {
  const strided = region({
    pageCount: 7,
    pageStrideBytes: 8192,
    segments: 2,
    segmentBytes: 1000,
    segmentStrideBytes: 4096,
  })
  const endBytes = 6 * 8192 + 4096 + 1000
  t.is(errorOf(rankSpec([strided], { allocationBytes: [endBytes] })), 'accepted')
  t.is(errorOf(rankSpec([strided], { allocationBytes: [endBytes - 1] })), 'region_out_of_bounds')
  t.is(errorOf(rankSpec([{ ...strided, offsetBytes: 1 }], { allocationBytes: [endBytes] })), 'region_out_of_bounds')
})

test('buildRank: ends above 2^53 are refused, whichever factor causes them', (t) => {
  const most = Number.MAX_SAFE_INTEGER
  const huge = { allocationBytes: [most] }
  t.is(errorOf(rankSpec([region({ pageCount: PAGES_MAX, pageStrideBytes: 2 ** 31 })], huge)), 'region_out_of_bounds')
  t.is(errorOf(rankSpec([region({ offsetBytes: most - 100 })], huge)), 'region_out_of_bounds')
  t.is(errorOf(rankSpec([region({ segments: 2, segmentStrideBytes: most })], huge)), 'region_out_of_bounds')
  t.is(errorOf(rankSpec([region({ pageCount: 1, offsetBytes: most - 4096 })], huge)), 'accepted')
  for (const bad of [2 ** 53, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    for (const name of [
      'offsetBytes',
      'pageStrideBytes',
      'segmentBytes',
      'segmentStrideBytes',
      'pageCount',
      'group',
      'allocation',
      'heads',
      'headDim',
    ]) {
      t.not(errorOf(rankSpec([region({ [name]: bad })], huge)), 'accepted', `${name} = ${bad}`)
    }
  }
})

test('buildRank: caps hold at the cap and at one more', (t) => {
  const layers = (count: number): RegionSpec[] =>
    Array.from({ length: count }, (_, index) => region({ layer: `l${index}`, pageCount: 1, offsetBytes: index * 4096 }))
  const room = { allocationBytes: [2 ** 40] }
  t.is(errorOf(rankSpec(layers(LAYERS_MAX), room)), 'accepted')
  t.is(errorOf(rankSpec(layers(LAYERS_MAX + 1), room)), 'geometry_invalid')
  t.is(errorOf(rankSpec([], room)), 'geometry_invalid')
  t.is(errorOf(rankSpec([region({ pageCount: PAGES_MAX })], room)), 'accepted')
  t.is(errorOf(rankSpec([region({ pageCount: PAGES_MAX + 1 })], room)), 'geometry_invalid')
  t.is(errorOf(rankSpec([region({ layer: 'é'.repeat(128) })], room)), 'accepted')
  t.is(errorOf(rankSpec([region({ layer: `${'é'.repeat(128)}x` })], room)), 'geometry_invalid')
  t.is(errorOf(rankSpec([region({ layer: '' })], room)), 'geometry_invalid')
  t.is(
    errorOf(rankSpec([region({ layer: 'a' }), region({ layer: 'a', offsetBytes: 2 ** 30 })], room)),
    'geometry_invalid',
  )
})

test('buildRank: groups are declared, of a supported kind, and have one page count', (t) => {
  const room = { allocationBytes: [2 ** 30] }
  t.is(errorOf(rankSpec([region({ group: 1 })], room)), 'geometry_invalid')
  const withGroup = (kind: string, blockTokens: number, windowTokens: number) =>
    errorOf(
      rankSpec([region({})], { ...room, groups: [{ kind: kind as GroupSpec['kind'], blockTokens, windowTokens }] }),
    )
  t.is(withGroup('new-kind', 16, 0), 'group_unsupported')
  t.is(errorOf(rankSpec([region({})], { ...room, groups: [] })), 'geometry_invalid')
  for (const kind of ['full-attention', 'sliding-window', 'checkpoint']) {
    const window = kind === 'sliding-window' ? 1 : 0
    t.is(withGroup(kind, 16, window), 'accepted')
    t.is(withGroup(kind, 0, window), 'geometry_invalid')
    t.is(withGroup(kind, 2 ** 20 + 1, window), 'geometry_invalid')
    t.is(withGroup(kind, 16, 1 - window), 'geometry_invalid', `${kind} with a window of ${1 - window}`)
  }
  for (const window of [-1, 0.5, Number.NaN, 2 ** 32]) t.is(withGroup('sliding-window', 16, window), 'geometry_invalid')
  const other = region({ layer: 'b', offsetBytes: 2 ** 29, pageCount: 5 })
  t.is(errorOf(rankSpec([region({ layer: 'a', pageCount: 4 }), other], room)), 'geometry_invalid')
})

test('buildRank: adjacent K and V become one segment, split ones stay two and are refused page-first', (t) => {
  const room = { allocationBytes: [2 ** 30] }
  const adjacent = region({ segments: 2, segmentBytes: 3000, segmentStrideBytes: 3000, pageStrideBytes: 6000 })
  const built = buildRank(rankSpec([adjacent], { ...room, pageFirst: true })) as RankGeometry
  t.like(built.layers[0], { segments: 1, segmentBytes: 6000, paddedBytes: 6144 })
  t.is(errorOf(rankSpec([{ ...adjacent, pageStrideBytes: 5999 }], room)), 'region_overlap')
  const split = region({ segments: 2, segmentBytes: 3000, segmentStrideBytes: 2 ** 20, pageStrideBytes: 3000 })
  t.like((buildRank(rankSpec([split], room)) as RankGeometry).layers[0], { segments: 2, paddedBytes: 3072 })
  t.is(errorOf(rankSpec([split], { ...room, pageFirst: true })), 'geometry_invalid')
})
