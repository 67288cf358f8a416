import test from 'ava'
import { Entries } from '../../../src/manager/storage/entries.js'
import { Storage } from '../../../src/manager/storage/storage.js'
import { tablesOf } from '../../../src/manager/storage/tables.js'
import { KIB } from '../../../src/shared/base/units.js'
import { ENTRY_STATE } from '../../../src/shared/directory/directory.js'
import { ExtentShard } from '../../../src/shared/extents/extent-shard.js'
import { ExtentStore } from '../../../src/shared/extents/extent-store.js'
import { type Fixture, fixture, SMALL } from './fixture.js'
import { caught, commandsOf, DIRECT_WEIGHTS } from './model.js'

/** A fixture over entries that are broken in one way. */
function over(make: (tables: ReturnType<typeof tablesOf>) => Entries): Fixture {
  const options = { ...SMALL, poolBytes: 5 * 64 * KIB }
  const tables = tablesOf(options)
  return fixture(options, undefined, { entries: make(tables), classes: tables.classes })
}

/** Lets a replica go while a write, a lease or a copy still needs it. */
class Careless extends Entries {
  override evictable(entry: number): boolean {
    return this.resident(entry) && this.published(entry)
  }
}

/** Does not hold an entry that is being assembled, so that giving it up frees memory under its copies. */
class Hasty extends Entries {
  override hold(entry: number): void {
    if (!this.is(entry, ENTRY_STATE.assembling)) super.hold(entry)
  }

  override drop(entry: number): void {
    if (!this.is(entry, ENTRY_STATE.assembling)) super.drop(entry)
  }
}

/** Keeps a damaged entry visible. */
class Trusting extends Entries {
  override hide(entry: number): void {
    if (this.is(entry, ENTRY_STATE.assembling)) super.hide(entry)
  }
}

/** Never lets go of an extent. */
class Clinging extends ExtentShard {
  override unpin(): void {}
}

/** Overwrites extents that a reader needs. */
class Ruthless extends ExtentShard {
  protected override mayOverwrite(extent: number): boolean {
    return this.published(extent)
  }
}

/** Shows blocks that are still being put together. */
class Eager extends Storage {
  override published(entry: number): boolean {
    return entry >= 0 && !this.entries.is(entry, ENTRY_STATE.invalid)
  }
}

/** Takes every write from pages for a whole one. */
class Believing extends Storage {
  override directEnded(entry: number): void {
    super.directEnded(entry, true)
  }
}

/** Keeps an extent that nobody writes to. */
class Greedy extends Storage {
  override abortDirect(): void {}
}

const shardsOf = (Kind: typeof ExtentShard): ExtentStore =>
  new ExtentStore([0, 1].map(() => new Kind(3 * 64 * KIB, 512, 64)))

const TWINS: Record<string, () => Fixture> = {
  'evicts what a write or a lease still needs': () => over((tables) => new Careless(tables)),
  'frees memory under a copy': () => over((tables) => new Hasty(tables)),
  'goes on showing what was found damaged': () => over((tables) => new Trusting(tables)),
  'forgets to unpin': () => over((tables) => new Entries({ ...tables, extents: shardsOf(Clinging) })),
  'overwrites pinned extents': () => over((tables) => new Entries({ ...tables, extents: shardsOf(Ruthless) })),
  'shows blocks before they are whole': () => {
    const of = fixture()
    const storage = new Eager(of.options, of.lanes, of.tally)
    return { ...of, storage, classId: storage.defineClass('aa', of.geometry) }
  },
}

test('the control of the twins, the same fixture over sound entries, is not caught', (t) => {
  t.false(caught(() => over((tables) => new Entries({ ...tables, extents: shardsOf(ExtentShard) })), 20))
})

for (const [name, make] of Object.entries(TWINS)) {
  test(`a storage that ${name} is caught by the model`, (t) => {
    t.true(caught(make, 40))
  })
}

for (const [name, Kind] of [
  ['takes every write from pages for a whole one', Believing],
  ['keeps an extent that nobody writes to', Greedy],
] as const) {
  test(`a storage that ${name} is caught by the model`, (t) => {
    const make = () => {
      const of = fixture()
      const storage = new Kind(of.options, of.lanes, of.tally)
      return { ...of, storage, classId: storage.defineClass('aa', of.geometry) }
    }
    t.true(caught(make, 40, commandsOf(DIRECT_WEIGHTS)))
  })
}
