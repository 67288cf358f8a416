import test from 'ava'
import fc from 'fast-check'
import { STORAGE_COUNT, STORAGE_SERIES } from '../../../src/manager/storage/counters.js'
import type { StorageOptions } from '../../../src/manager/storage/ports.js'
import { KIB } from '../../../src/shared/base/units.js'
import { RAW } from '../../../src/shared/codec/coding.js'
import type { GroupGeometry } from '../../../src/shared/layout/regions.js'
import { ANS, codedGeometry, type Fixture, FP8, fixture, geometryOf } from './fixture.js'
import { commandsOf, DIRECT_WEIGHTS, type Driver, drive } from './model.js'

const BLOCK = 64 * KIB
/** Two shards of three and of two blocks: newer blocks overwrite older ones all the time. */
const TIGHT: Partial<StorageOptions> = {
  poolBytes: 7 * BLOCK,
  shards: [
    { file: 10, capacityBytes: 3 * BLOCK, store: 0, writer: 0 },
    { file: 11, capacityBytes: 2 * BLOCK, store: 1, writer: 1 },
  ],
  writeQueueBytesMax: 2 * BLOCK,
  writeWindowBytes: BLOCK,
}

/** Runs the model on fresh fixtures; returns what they counted together. */
function explore(
  make: () => Fixture,
  numRuns: number,
  commands = commandsOf(),
  ended: (driver: Driver) => void = () => {},
): (counter: number) => number {
  const sums = STORAGE_SERIES.map(() => 0)
  fc.assert(
    fc.property(commands, (list) => {
      const of = make()
      ended(drive(of, list))
      STORAGE_SERIES.forEach((_, counter) => {
        sums[counter] = (sums[counter] as number) + of.tally.of(counter)
      })
    }),
    // One seed, so that what must have happened has; the simulation draws new ones.
    { numRuns, seed: 20 },
  )
  return (counter) => sums[counter] as number
}

test('Storage: under any order of commands and replies it agrees with a naive model, and its census is exact', (t) => {
  const counted = explore(() => fixture(), 30)
  for (const name of ['insertions', 'evictions', 'invalidations', 'fillsDone', 'fillsFailed', 'fillsJoined'] as const) {
    t.true(counted(STORAGE_COUNT[name]) > 20, `${name} happened`)
  }
})

test('Storage: so it does when shards are so small that blocks overwrite each other and pins stand in the way', (t) => {
  const counted = explore(() => fixture(TIGHT), 30, commandsOf({ write: 5, hold: 12, 'drop-dram': 1 }))
  for (const name of ['ssdOverwrites', 'blocksLost', 'dropQueueFull', 'dropNoSpacePinned', 'dropFailed'] as const) {
    t.true(counted(STORAGE_COUNT[name]) > 3, `${name} happened`)
  }
})

/** Items of five pages: two are halved, which is no whole pages, one becomes something or other, one stays as it is. */
const CODED = codedGeometry(20_480, [FP8, ANS, RAW, FP8])

for (const [how, options] of [
  ['', {}],
  [', in a pool and in files that are full all the time', { ...TIGHT, poolBytes: 5 * BLOCK }],
  [
    ', with extents of whole pages, admission by frequency and protected blocks',
    { ...TIGHT, extentAlignmentBytes: 4096, cache: { protectedBytesMax: 2 * BLOCK, lfuAdmission: true } },
  ],
] as const) {
  test(`Storage: so it does when a codec shortens some granules and refuses others${how}`, (t) => {
    const codings = { coded: 0, refused: 0 }
    const make = () => fixture(options, CODED)
    const counted = explore(make, 25, commandsOf({ bring: 30, abandon: 2 }), (driver) => {
      codings.coded += driver.codings.coded
      codings.refused += driver.codings.refused
    })
    t.true(codings.coded > 500 && codings.refused > 100, JSON.stringify(codings))
    for (const name of ['insertions', 'fillsDone', 'writesCommitted', 'evictions'] as const) {
      t.true(counted(STORAGE_COUNT[name]) > 20, `${name} happened`)
    }
  })
}

/** Room for three protected blocks of seven. */
const PROTECTED = { protectedBytesMax: 3 * BLOCK, lfuAdmission: false }

for (const [how, options] of [
  ['', {}],
  [', with room for few extents', TIGHT],
  [', by reuse', { writePolicy: 'reuse' }],
] as const) {
  test(`Storage: so it does when blocks are written from their pages while they are copied${how}`, (t) => {
    const counted = explore(() => fixture(options), 20, commandsOf({ ...DIRECT_WEIGHTS, write: 4 }))
    for (const name of ['writesCommitted', 'dropFailed', 'dropInvalidated'] as const) {
      t.true(counted(STORAGE_COUNT[name]) > 3, `${name} happened`)
    }
  })
}

test('Storage: so it does with a protected segment that uses fill and demote all the time', (t) => {
  const make = () => fixture({ ...TIGHT, shards: fixture().options.shards, cache: PROTECTED })
  const counted = explore(make, 30, commandsOf({ use: 20, guess: 12, 'drop-dram': 1 }))
  for (const name of ['evictedReclaimable', 'evictedProbationary', 'warmRestoredBytes', 'warmUnusedBytes'] as const) {
    t.true(counted(STORAGE_COUNT[name]) > 3, `${name} happened`)
  }
  t.true(counted(STORAGE_COUNT.admissionRejections) === 0)
})

test('Storage: so it does when admission is by frequency and writes are by reuse', (t) => {
  const cache = { ...PROTECTED, lfuAdmission: true }
  const make = () => fixture({ ...TIGHT, shards: fixture().options.shards, cache, writePolicy: 'reuse' })
  const counted = explore(make, 30, commandsOf({ bring: 40, use: 12, 'drop-dram': 1 }))
  for (const name of ['admissionRejections', 'skipCold', 'skipResident', 'skipPending', 'writesAdmitted'] as const) {
    t.true(counted(STORAGE_COUNT[name]) > 3, `${name} happened`)
  }
})

test('Storage: so it does when the directory is full all the time', (t) => {
  const counted = explore(() => fixture({ ...TIGHT, entriesMax: 6 }), 30)
  t.true(counted(STORAGE_COUNT.directoryEvictions) > 50)
})

test('Storage: so it does when blocks have more granules than a reader takes at once', (t) => {
  const wide: GroupGeometry = geometryOf({ ranks: 1, perRank: 150, bytes: 4 * KIB, items: 1 })
  const capacityBytes = 40 * wide.extentBytes
  const options: Partial<StorageOptions> = {
    poolBytes: 8 * wide.extentBytes,
    shards: [{ file: 10, capacityBytes, store: 0, writer: 0 }],
    writeQueueBytesMax: 4 * wide.extentBytes,
    writeWindowBytes: 2 * wide.extentBytes,
  }
  const counted = explore(() => fixture(options, wide), 6, commandsOf({ fill: 25, 'drop-dram': 6, leave: 6, hold: 1 }))
  t.true(counted(STORAGE_COUNT.fillsCancelled) > 0)
  t.true(counted(STORAGE_COUNT.fillsDone) > 10)
})
