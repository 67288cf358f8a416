import { createHash } from 'node:crypto'
import test from 'ava'
import fc from 'fast-check'
import {
  type NamespaceGeometry,
  type NamespaceSlot,
  namespaceDigest,
  namespaceStream,
  type PlainInputs,
  plainDigest,
} from '../../../src/shared/layout/namespace.js'
import { catches, holds } from '../../support/model-commands.js'
import { instanceOf, rankSpec, region } from '../../support/regions.js'

const sha256 = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(bytes).digest())
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const text = fc.string({ maxLength: 3, unit: fc.constantFrom('a', 'b', '\0', 'é') })
const small = fc.nat(3)
const plainInputs: fc.Arbitrary<PlainInputs> = fc
  .uniqueArray(fc.tuple(text, fc.uint8Array({ max: 3, maxLength: 3 })), { selector: ([tag]) => tag, maxLength: 3 })
  .map((fields) => new Map(fields))
const slot: fc.Arbitrary<NamespaceSlot> = fc.record({
  layer: text,
  group: small,
  tpRank: small,
  ppRank: small,
  segmentBytes: fc.constantFrom(1, 512, 2 ** 33),
  paddedBytes: fc.constantFrom(512, 2 ** 33),
  split: fc.boolean(),
  dtype: text,
  kvRole: text,
  headDim: small,
  heads: small,
  storageFormat: text,
})
const geometry: fc.Arbitrary<NamespaceGeometry> = fc.record({
  pageFirst: fc.boolean(),
  groups: fc.array(fc.record({ kind: text, blockTokens: small, windowTokens: small }), { maxLength: 2 }),
  slots: fc.array(slot, { maxLength: 2 }),
})

/** Equality of what is digested, without any encoding of ours. */
function canonical(plain: PlainInputs, shape: NamespaceGeometry): string {
  return JSON.stringify([
    [...plain].map(([tag, value]) => [tag, [...value]]).sort((a, b) => (`${a[0]}` < `${b[0]}` ? -1 : 1)),
    shape,
  ])
}

type Stream = (plain: PlainInputs, shape: NamespaceGeometry) => Uint8Array

/** Few symbols, in tags and values alike, so that two lists often join to the same bytes. */
const ambiguous: fc.Arbitrary<PlainInputs> = fc
  .uniqueArray(
    fc.tuple(
      fc.string({ maxLength: 2, unit: fc.constantFrom('a', '\0') }),
      fc.array(fc.constantFrom(97, 0), { maxLength: 2 }).map((value) => Uint8Array.from(value)),
    ),
    { selector: ([tag]) => tag, minLength: 1, maxLength: 2 },
  )
  .map((fields) => new Map(fields))

/** Two field lists give one stream exactly when they are equal. */
function injective(stream: Stream): fc.IProperty<[PlainInputs, PlainInputs]> {
  const shape: NamespaceGeometry = { pageFirst: false, groups: [], slots: [] }
  return fc.property(
    ambiguous,
    ambiguous,
    (a, b) => (hex(stream(a, shape)) === hex(stream(b, shape))) === (canonical(a, shape) === canonical(b, shape)),
  )
}

test('namespace: no two field lists give the same stream', (t) => {
  t.true(holds(injective(namespaceStream), 3000))
  const whole = fc.property(plainInputs, geometry, plainInputs, geometry, (plainA, a, plainB, b) => {
    return (
      (hex(namespaceStream(plainA, a)) === hex(namespaceStream(plainB, b))) ===
      (canonical(plainA, a) === canonical(plainB, b))
    )
  })
  t.true(holds(whole, 2000))
})

test('namespace: twins without lengths, or with separators in their place, are caught', (t) => {
  const joined =
    (separator: string): Stream =>
    (plain) => {
      const fields = [...plain].sort(([a], [b]) => (a < b ? -1 : 1))
      return Buffer.from(
        fields.map(([tag, value]) => tag + separator + Buffer.from(value).toString('latin1')).join(separator),
      )
    }
  t.true(catches(injective(joined('')), 3000))
  t.true(catches(injective(joined('\0')), 3000))
})

test('namespace: any one field that changes changes the digest', (t) => {
  const base = fc.record({
    plain: plainInputs,
    shape: geometry.filter(({ groups, slots }) => groups.length > 0 && slots.length > 0),
  })
  const property = fc.property(base, fc.nat(15), ({ plain, shape }, which) => {
    const first = shape.slots[0] as NamespaceSlot
    const names = Object.keys(first) as (keyof NamespaceSlot)[]
    const name = names[which]
    const changed: NamespaceGeometry =
      name !== undefined
        ? { ...shape, slots: [{ ...first, [name]: other(first[name]) }, ...shape.slots.slice(1)] }
        : which === 12
          ? { ...shape, pageFirst: !shape.pageFirst }
          : which === 13
            ? { ...shape, groups: shape.groups.map((group) => ({ ...group, blockTokens: group.blockTokens + 1 })) }
            : which === 14
              ? { ...shape, groups: shape.groups.map((group) => ({ ...group, windowTokens: group.windowTokens + 1 })) }
              : { ...shape, slots: [...shape.slots, first] }
    return hex(sha256(namespaceStream(plain, shape))) !== hex(sha256(namespaceStream(plain, changed)))
  })
  t.true(holds(property, 1000))
})

function other(value: string | number | boolean): string | number | boolean {
  return typeof value === 'string' ? `${value}x` : typeof value === 'number' ? value + 1 : !value
}

test('namespace: the order of inputs and of registration changes nothing; salt and dtype do', (t) => {
  const ranks = [0, 1].map((tpRank) =>
    rankSpec([region({ layer: 'b', offsetBytes: 65_536 }), region({ layer: 'a' })], { tpRank }),
  )
  const turned = [...ranks].reverse().map((spec) => ({ ...spec, regions: [...spec.regions].reverse() }))
  const world = { tpSize: 2, ppSize: 1 }
  const model: [string, Uint8Array] = ['model', Buffer.from('m')]
  const salt: [string, Uint8Array] = ['salt', Buffer.from('s')]
  const digest = hex(namespaceDigest(sha256, new Map([model, salt]), instanceOf(ranks, world)))
  t.is(digest, hex(namespaceDigest(sha256, new Map([salt, model]), instanceOf(turned, world))))
  t.not(digest, hex(namespaceDigest(sha256, new Map([model]), instanceOf(ranks, world))))
  const fp8 = ranks.map((spec) => ({ ...spec, regions: spec.regions.map((each) => ({ ...each, dtype: 'fp8' })) }))
  t.not(digest, hex(namespaceDigest(sha256, new Map([model, salt]), instanceOf(fp8, world))))
  t.not(digest, hex(plainDigest(sha256, new Map([model, salt]))))
})

test('namespace: the plain stream is these bytes, for every other implementation', (t) => {
  const stream = namespaceStream(
    new Map([
      ['b', Uint8Array.of(9)],
      ['a', new Uint8Array(0)],
    ]),
    { pageFirst: false, groups: [], slots: [] },
  )
  t.is(
    hex(stream),
    [
      Buffer.from('orbitkv-namespace').toString('hex'),
      '03000000',
      '02000000',
      '0100000061',
      '00000000',
      '0100000062',
      '0100000009',
      `0a000000${Buffer.from('page_first').toString('hex')}`,
      '080000000000000000000000',
      '00000000',
      '00000000',
    ].join(''),
  )
})
