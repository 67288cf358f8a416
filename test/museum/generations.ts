import { Entries } from '../../src/manager/storage/entries.js'
import { Storage } from '../../src/manager/storage/storage.js'
import { partsOf, type StorageParts, tablesOf } from '../../src/manager/storage/tables.js'
import { type Fixture, find, fixture, keysOf, publish, SMALL } from '../manager/storage/fixture.js'
import type { Exhibit } from './exhibit.js'
import { demand, named } from './named.js'

const ROUNDS = 50
/** Blocks of the fixture's pool. */
const POOL_BLOCKS = 8

/** A storage, and the parts it is made of. */
interface Subject {
  readonly Class: typeof Storage
  readonly parts: () => StorageParts
}

const SHIPPED: Subject = { Class: Storage, parts: () => partsOf(SMALL) }

function fixtureOf({ Class, parts }: Subject): Fixture {
  const of = fixture()
  const storage = new Class(SMALL, of.lanes, of.tally, parts())
  return { ...of, storage, classId: storage.defineClass('aa', of.geometry) }
}

/** A verdict of an old generation comes when its key has been published again. */
function lateVerdict(subject: Subject, count: () => void): void {
  const of = fixtureOf(subject)
  for (let round = 0; round < ROUNDS; round++) {
    count()
    const old = publish(of, round)
    const generation = of.storage.generationOf(old)
    of.storage.invalidate(old)
    of.lanes.endAll(of.storage)
    const repaired = publish(of, round)
    of.lanes.endAll(of.storage)
    of.storage.invalidateGeneration(repaired, generation)
    demand(find(of, round) === repaired, 'V6: a late verdict hides its own generation alone')
  }
}

/** A block whose read came back damaged is asked for again. */
function failedRead(subject: Subject, count: () => void): void {
  const of = fixtureOf(subject)
  for (let round = 0; round < ROUNDS; round++) {
    count()
    const entry = publish(of, round)
    of.lanes.endAll(of.storage)
    of.storage.dropDram()
    demand(of.storage.fill(entry, round) === 'started', 'a block on the SSD is read')
    of.lanes.endRead(of.storage, 0, 'checksum_mismatch')
    of.lanes.endAll(of.storage)
    demand(find(of, round) === -1, 'V6: a generation that cannot be read is hidden at once')
  }
}

/** A batch of 64 in which one key stands twice. */
function repeatedKey(subject: Subject, count: () => void): void {
  const of = fixtureOf(subject)
  for (let index = 0; index < 64; index++) {
    count()
    const key = index === 40 ? 7 : index
    const { outcome } = of.storage.claim(of.classId, keysOf(key), 0)
    demand(outcome === (index === 40 ? 'assembling' : 'new'), `a key that stands twice is no failure: ${outcome}`)
  }
}

/** Many times the pool, claimed, given memory and aborted. */
function abortedStores(subject: Subject, count: () => void): void {
  const of = fixtureOf(subject)
  for (let round = 0; round < 4 * POOL_BLOCKS; round++) {
    count()
    const { entry } = of.storage.claim(of.classId, keysOf(round), 0)
    demand(of.storage.allocate(entry) === 'ok', 'O2: an abort gives its pages back')
    of.storage.abandon(entry)
  }
}

/** Bugs of which generation is meant, and of what an end gives back. */
export const GENERATIONS: readonly Exhibit[] = [
  named({
    id: 'LMCache#3305',
    what: 'dropping a bad entry compares no generation, so that a late verdict hides the good one',
    where: 'Storage.invalidateGeneration',
    foundBy: 'check: late verdicts',
    shows: /^V6: a late verdict/,
    bound: ROUNDS,
    shipped: SHIPPED,
    twin: {
      ...SHIPPED,
      Class: class extends Storage {
        override invalidateGeneration(entry: number): boolean {
          this.invalidate(entry)
          return true
        }
      },
    },
    check: lateVerdict,
  }),
  named({
    id: 'vllm#49176',
    what: 'a generation that could not be read stays visible and is read again for ever',
    where: 'Entries.hide',
    foundBy: 'check: failed reads',
    shows: /^V6: a generation that cannot be read/,
    bound: ROUNDS,
    shipped: SHIPPED,
    twin: {
      ...SHIPPED,
      parts: () => {
        const tables = tablesOf(SMALL)
        class Forgiving extends Entries {
          override hide(entry: number): void {
            const unread = this.published(entry) && !this.resident(entry) && this.directory.interests(entry) > 0
            if (!unread) super.hide(entry)
          }
        }
        return { entries: new Forgiving(tables), classes: tables.classes }
      },
    },
    check: failedRead,
  }),
  named({
    id: 'Mooncake#2827',
    what: 'one repeated key makes the whole batch fail',
    where: 'Storage.claim',
    foundBy: 'check: a batch of 64 with one duplicate',
    shows: /^a key that stands twice/,
    bound: 64,
    shipped: SHIPPED,
    twin: {
      ...SHIPPED,
      Class: class extends Storage {
        override claim(...args: Parameters<Storage['claim']>): ReturnType<Storage['claim']> {
          const claim = super.claim(...args)
          return claim.outcome === 'new' ? claim : { entry: -1, outcome: 'directory-full' }
        }
      },
    },
    check: repeatedKey,
  }),
  named({
    id: 'sglang#9874, sglang#15439, sglang#37103',
    what: 'aborting a request leaks the pages it had reserved',
    where: 'Storage.abandon',
    foundBy: 'check: aborts at several times the pool',
    shows: /^O2: an abort/,
    bound: 4 * POOL_BLOCKS,
    shipped: SHIPPED,
    twin: {
      ...SHIPPED,
      Class: class extends Storage {
        override abandon(): void {}
      },
    },
    check: abortedStores,
  }),
]
