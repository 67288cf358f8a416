import test from 'ava'
import fc from 'fast-check'
import { StoredLengths } from '../../../src/manager/storage/stored-lengths.js'
import { alignUp, PAGE_BYTES, SECTOR_BYTES } from '../../../src/shared/base/units.js'
import { RAW } from '../../../src/shared/codec/coding.js'
import { expectEqual, holds } from '../../support/model-commands.js'
import { ANS, codedGeometry, FP8, fixture } from './fixture.js'

const ITEM_BYTES = 20_480
const GRANULES = 6
const SPECS = codedGeometry(ITEM_BYTES, [FP8, ANS, RAW, FP8, ANS, FP8]).granules
const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

test('StoredLengths: offsets and totals are sums over the lengths, whatever was set in whatever order, row by row', (t) => {
  const change = fc.record({
    row: fc.nat(40),
    granule: fc.nat(GRANULES - 1),
    bytes: fc.oneof(fc.integer({ min: 1, max: ITEM_BYTES }), fc.constantFrom(1, 511, 512, 513, 4096, 4097, ITEM_BYTES)),
    begin: fc.integer({ min: 0, max: 9 }).map((luck) => luck === 0),
  })
  t.true(
    holds(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const lengths = new StoredLengths(SPECS, 64)
        const model = new Map<number, number[]>()
        const begin = (row: number) => {
          lengths.begin(row)
          model.set(
            row,
            SPECS.map(({ expectedBytes }) => expectedBytes),
          )
        }
        for (const { row, granule, bytes, begin: again } of changes) {
          if (again || !model.has(row)) begin(row)
          ;(model.get(row) as number[])[granule] = bytes
          lengths.set(row, granule, bytes)
        }
        for (const [row, stored] of model) {
          const sectors = stored.map((bytes) => alignUp(bytes, SECTOR_BYTES))
          expectEqual('extentBytes', lengths.extentBytes(row), sum(sectors))
          expectEqual('dramBytes', lengths.dramBytes(row), sum(stored.map((bytes) => alignUp(bytes, PAGE_BYTES))))
          for (const [granule, bytes] of stored.entries()) {
            expectEqual('offset', lengths.extentOffsetBytes(row, granule), sum(sectors.slice(0, granule)))
            const room = sectors[granule] as number
            const shape = { bytes: room, segmentBytes: bytes, segmentStrideBytes: room }
            expectEqual('granule', lengths.granule(row, granule), shape)
            expectEqual('encoded', lengths.encoded(row, granule), bytes < ITEM_BYTES)
          }
        }
      }),
      200,
    ),
  )
})

test('StoredLengths: a length is whole bytes, some, and no more than the item has', (t) => {
  const lengths = new StoredLengths(SPECS, 1)
  lengths.begin(0)
  for (const bytes of [0, -1, 1.5, Number.NaN, ITEM_BYTES + 1]) {
    t.throws(() => lengths.set(0, 0, bytes), { code: 'invariant' }, `${bytes} bytes`)
  }
  t.throws(() => lengths.set(0, GRANULES, 1), { code: 'invariant' })
  t.is(lengths.storedBytes(0, 0), ITEM_BYTES / 2, 'and nothing was changed by it')
})

test('Storage: a class in which nothing is coded keeps no lengths, and goes by its geometry', (t) => {
  const plain = fixture()
  t.is(plain.storage.entries.shape(plain.storage.claim(plain.classId, new Uint8Array(32), 0).entry).lengths, null)
  const raw = fixture({}, codedGeometry(ITEM_BYTES, [RAW, RAW]))
  const { entry } = raw.storage.claim(raw.classId, new Uint8Array(32), 0)
  t.is(raw.storage.entries.shape(entry).lengths, null)
  t.is(raw.storage.extentBytes(entry), 2 * ITEM_BYTES)
  t.like(raw.storage.granule(entry, 1), { bytes: ITEM_BYTES, segmentBytes: ITEM_BYTES, segmentStrideBytes: ITEM_BYTES })
})
