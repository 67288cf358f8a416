import test from 'ava'
import fc from 'fast-check'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { CodedBed, type Copy, ITEM, LAYERS, NOTHING, OK, PAGES, RAW_LAYER } from './coded-bed.js'

const BLOCK = LAYERS.length * ITEM
const done = (blocks: number) => [SLOT_STATE.done, OK, blocks * BLOCK] as const
const granules = (copies: readonly Copy[]) => copies.map(({ page, granule }) => `${page}/${granule}`)
/** The codec refuses layers of this place and takes the others. */
const refuses =
  (...layers: number[]) =>
  ({ granule }: Copy) =>
    layers.includes(granule) ? 0 : ITEM / 2

test('what is coded goes behind what is copied, into room of its expected length, and only the copied is checksummed', (t) => {
  const bed = new CodedBed()
  bed.engine(1)
  bed.publish(1, 1, [0, 1])
  const { copies } = bed.saved()
  t.deepEqual(granules(copies), ['0/1', '1/1', '0/0', '0/2', '0/3', '1/0', '1/2', '1/3'])
  t.deepEqual(
    copies.map(({ storedBytes }) => storedBytes),
    [0, 0, ...Array(6).fill(ITEM / 2)],
  )
  const { checks } = bed.checked()
  t.deepEqual(
    checks,
    [0, 1].map((copy) => [copies[copy]?.poolOffsetBytes as number, ITEM] as const),
  )
  t.deepEqual(bed.ends(), [done(2)])
  const { storage } = bed.manager
  t.deepEqual(
    LAYERS.map((_, granule) => storage.encoded(bed.entry(1), granule)),
    [true, false, true, true],
  )
  t.is(storage.extentBytes(bed.entry(1)), 2.5 * ITEM)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('a block of which everything was coded is sealed without a checksum', (t) => {
  const bed = new CodedBed()
  bed.engine(1)
  bed.publish(1, 1, [0], { layers: Uint32Array.of(RAW_LAYER) })
  bed.rest()
  bed.publish(1, 2, [0], { layers: Uint32Array.of(0, 2, 3) })
  t.is(bed.saved().copies.length, 3)
  t.is(bed.checked().checks.length, 1, 'the raw layer, whoever brought it')
  t.deepEqual(bed.breaches(), [])
  t.true(bed.entry(0) >= 0)
})

test('a part is one record: longer publications, and longer blocks, take several parts', (t) => {
  for (const descriptorsPerRecordMax of [1, 3, 5, 64]) {
    const bed = new CodedBed({ descriptorsPerRecordMax })
    bed.engine(1)
    bed.publish(1, 1, [0, 1, 2])
    let copied = 0
    for (let [next] = bed.jobs; next !== undefined; [next] = bed.jobs) {
      t.true(next.copies.length <= descriptorsPerRecordMax && next.checks.length <= descriptorsPerRecordMax)
      copied += next.copies.length
      if (next.kind === 'save') bed.saved()
      else bed.checked()
      t.deepEqual(bed.breaches(), [])
    }
    t.is(copied, 3 * LAYERS.length)
    t.deepEqual(bed.ends(), [done(3)])
    t.deepEqual(bed.owned, NOTHING)
    for (const page of [0, 1, 2]) t.true(bed.entry(page) >= 0)
  }
})

test('what the codec refused is copied again as it is, and checksummed with what was never coded', (t) => {
  const bed = new CodedBed()
  bed.engine(1)
  bed.publish(1, 1, [0, 1])
  bed.saved(refuses(2))
  t.deepEqual(bed.breaches(), [])
  t.is(bed.entry(0), -1, 'nothing is found before it is whole')
  const { copies } = bed.saved()
  t.deepEqual(granules(copies), ['0/2', '1/2'], 'only those')
  t.true(copies.every(({ storedBytes }) => storedBytes === 0))
  t.is(bed.checked().checks.length, 4)
  t.deepEqual(bed.ends(), [done(2)])
  const { storage } = bed.manager
  t.is(storage.granule(bed.entry(0), 2).segmentBytes, ITEM)
  t.false(storage.encoded(bed.entry(0), 2))
  t.is(storage.extentBytes(bed.entry(0)), 3 * ITEM)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

/** A pool of exactly one block of which FP8 takes what it can: 2.5 items. */
const TIGHT = { poolBytes: 2.5 * ITEM }

test('a refused item waits for room as any item does, and fails by capacity when none comes', (t) => {
  const bed = new CodedBed({ publishWaitUs: 5_000 }, TIGHT)
  bed.engine(1)
  bed.publish(1, 1, [0])
  bed.saved(refuses(0, 2))
  t.deepEqual(bed.jobs, [], 'two items as they are do not fit where two halves did')
  t.is(bed.owned['publicationsWaiting'], 1)
  bed.manager.tick(5_000)
  t.deepEqual(bed.ends(), [[SLOT_STATE.failed, ERROR_CODES.capacity_pool, 2 * ITEM]])
  t.is(bed.manager.storage.gauges().poolUsedBytes, 0)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('so does one of a publication that is content with a part of it', (t) => {
  const bed = new CodedBed({ publishWaitUs: 5_000 }, TIGHT)
  bed.engine(1)
  bed.publish(1, 1, [0], { partialOk: true })
  bed.saved(refuses(0, 2))
  bed.manager.tick(5_000)
  t.like(bed.ends()[0], [SLOT_STATE.done, OK])
  t.is(bed.manager.storage.gauges().poolUsedBytes, 0)
  t.is(bed.entry(0), -1)
  t.deepEqual(bed.owned, NOTHING)
})

test('a refused item goes on when room comes', (t) => {
  const bed = new CodedBed({ publishWaitUs: 5_000 }, { poolBytes: 5.5 * ITEM })
  bed.engine(1)
  bed.publish(1, 1, [0])
  bed.rest()
  bed.manager.storage.hold(bed.entry(0))
  bed.publish(1, 2, [1])
  bed.saved(refuses(0, 2))
  t.is(bed.owned['publicationsWaiting'], 1, 'block 0 is held')
  bed.manager.storage.drop(bed.entry(0))
  bed.manager.tick(1)
  t.is(bed.entry(0), -1)
  t.deepEqual(granules(bed.saved().copies), ['1/0', '1/2'])
  bed.rest()
  t.deepEqual(bed.ends(), [done(1), done(1)])
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('two engines bring layers of one block: what one was refused, that one brings again', (t) => {
  const bed = new CodedBed()
  bed.engine(1)
  bed.engine(2)
  bed.publish(1, 1, [0], { layers: Uint32Array.of(0, 1) })
  bed.publish(2, 1, [0], { layers: Uint32Array.of(2, 3) })
  bed.saved(refuses(0))
  bed.saved(refuses(3), OK, 0)
  for (let [next] = bed.jobs; next !== undefined; [next] = bed.jobs) {
    if (next.kind === 'save') t.true(next.copies.every(({ storedBytes }) => storedBytes === 0))
    if (next.kind === 'save') bed.saved()
    else bed.checked()
  }
  t.is(bed.ends().length, 2)
  t.true(bed.entry(0) >= 0)
  t.is(bed.manager.storage.extentBytes(bed.entry(0)), 3.5 * ITEM)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('a save that fails in the middle of a block gives it up once, with everything that it had', (t) => {
  const bed = new CodedBed({ descriptorsPerRecordMax: 3 })
  bed.engine(1)
  bed.publish(1, 1, [0, 1])
  bed.saved(refuses(0, 2))
  bed.saved(undefined, ERROR_CODES.io_copy_failed)
  t.deepEqual(bed.jobs, [])
  t.like(bed.ends()[0], [SLOT_STATE.failed, ERROR_CODES.io_copy_failed])
  t.is(bed.manager.storage.gauges().poolUsedBytes, 0)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('a cancelled publication drops what waits to be brought again, and its slot ends when its copies have', (t) => {
  const bed = new CodedBed({ descriptorsPerRecordMax: 2 })
  bed.engine(1)
  bed.publish(1, 1, [0, 1])
  bed.saved(refuses(0))
  bed.manager.ask(1, { kind: 'cancel', slot: 0, generation: 1 })
  t.deepEqual(bed.ends(), [], 'a copy is on its way')
  bed.saved(undefined, ERROR_CODES.cancelled)
  t.like(bed.ends()[0], [SLOT_STATE.cancelled, ERROR_CODES.cancelled])
  t.is(bed.manager.storage.gauges().poolUsedBytes, 0)
  t.deepEqual(bed.breaches(), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('a checksum that fails hides the block, though other jobs of it ended well', (t) => {
  const bed = new CodedBed({ descriptorsPerRecordMax: 2 })
  bed.engine(1)
  bed.publish(1, 1, [0])
  while (bed.jobs.some(({ kind }) => kind === 'save')) bed.saved(() => 0)
  t.deepEqual(
    bed.jobs.map(({ kind, checks }) => [kind, checks.length]),
    [
      ['checksum', 2],
      ['checksum', 2],
    ],
  )
  bed.checked(ERROR_CODES.io_copy_failed)
  t.deepEqual(bed.ends(), [])
  bed.checked()
  t.like(bed.ends()[0], [SLOT_STATE.failed, ERROR_CODES.io_copy_failed])
  t.is(bed.entry(0), -1)
  t.is(bed.manager.storage.gauges().poolUsedBytes, 0)
  t.deepEqual(bed.owned, NOTHING)
})

test('publications end once and leave nothing, whatever lanes, codec, clock and clients do in whatever order', (t) => {
  const command = fc.record({
    kind: fc.constantFrom(
      'publish',
      'publish',
      'save',
      'save',
      'save',
      'check',
      'check',
      'fail',
      'cancel',
      'tick',
      'hold',
    ),
    pick: fc.nat(10_000),
  })
  const seen = { refused: 0, sealed: 0, failed: 0 }
  fc.assert(
    fc.property(
      fc.array(command, { minLength: 40, maxLength: 120, size: 'max' }),
      fc.constantFrom(1, 2, 3, 5, 64),
      fc.constantFrom(2.5, 4, 8, 40),
      (commands, descriptorsPerRecordMax, items) => {
        const bed = new CodedBed({ descriptorsPerRecordMax, publishWaitUs: 3_000 }, { poolBytes: items * ITEM })
        bed.engine(1)
        bed.engine(2)
        const generations = new Map<number, number>()
        const held: number[] = []
        let asked = 0
        for (const { kind, pick } of commands) {
          const slot = pick % 4
          const connection = 1 + (pick % 2)
          const place = connection * 10 + slot
          const at = (of: 'save' | 'checksum') => pick % Math.max(1, bed.jobs.filter((job) => job.kind === of).length)
          if (kind === 'publish') {
            const generation = (generations.get(place) ?? 0) + 1
            const pages = [pick % PAGES, (pick >> 3) % PAGES].filter((page, index, all) => all.indexOf(page) === index)
            const mask = (pick >> 5) % 4
            const layers = mask === 0 ? Uint32Array.of(0, 1) : mask === 1 ? Uint32Array.of(2, 3) : null
            const reply = bed.publish(connection, generation, pages, { slot, layers, partialOk: pick % 3 === 0 })
            if (reply?.kind === 'publishing') {
              generations.set(place, generation)
              asked++
            }
          } else if (kind === 'save' && bed.jobs.some((job) => job.kind === 'save')) {
            bed.saved(
              ({ granule }) => {
                const refused = (pick + granule) % 3 === 0
                if (refused) seen.refused++
                return refused ? 0 : ITEM / 2
              },
              OK,
              at('save'),
            )
          } else if (kind === 'check' && bed.jobs.some((job) => job.kind === 'checksum')) {
            bed.checked(OK, at('checksum'))
          } else if (kind === 'fail' && bed.jobs.length > 0 && pick % 4 === 0) {
            seen.failed++
            if (bed.jobs.some((job) => job.kind === 'save'))
              bed.saved(undefined, ERROR_CODES.io_copy_failed, at('save'))
            else bed.checked(ERROR_CODES.io_copy_failed, at('checksum'))
          } else if (kind === 'cancel' && pick % 4 === 0) {
            bed.manager.ask(connection, { kind: 'cancel', slot, generation: generations.get(place) ?? 1 })
          } else if (kind === 'tick') bed.manager.tick(pick)
          else if (kind === 'hold') {
            const entry = bed.entry(pick % PAGES)
            if (entry >= 0 && held.length < 3) {
              bed.manager.storage.hold(entry)
              held.push(entry)
            } else if (held.length > 0) bed.manager.storage.drop(held.shift() as number)
          }
          const breaches = bed.breaches()
          if (breaches.length > 0) throw new Error(breaches.join('; '))
        }
        for (const entry of held) bed.manager.storage.drop(entry)
        for (let turn = 0; turn < 50; turn++) {
          bed.rest()
          bed.manager.tick(3_000)
        }
        const breaches = bed.breaches()
        if (breaches.length > 0) throw new Error(breaches.join('; '))
        if (bed.ends().length !== asked) throw new Error(`${bed.ends().length} of ${asked} publications ended`)
        const left = Object.entries(bed.owned).filter(([, value]) => value !== 0)
        if (left.length > 0) throw new Error(`left: ${left}`)
        for (let page = 0; page < PAGES; page++) if (bed.entry(page) >= 0) seen.sealed++
        // Parts of blocks that nobody completed are given up by age; then only what is published has memory.
        bed.manager.tick(2_000_000)
        bed.manager.storage.dropDram()
        if (bed.manager.storage.gauges().poolUsedBytes !== 0) throw new Error('room was lost')
      },
    ),
    { numRuns: 150, seed: 11 },
  )
  t.true(seen.refused > 100 && seen.sealed > 100 && seen.failed > 20, JSON.stringify(seen))
})
