import test from 'ava'
import { PoolMemory } from '../../../src/manager/cache/pool-memory.js'
import { Entries, type EntryTables } from '../../../src/manager/storage/entries.js'
import { Storage } from '../../../src/manager/storage/storage.js'
import type { StoredGranule } from '../../../src/manager/storage/stored-lengths.js'
import { type StorageParts, tablesOf } from '../../../src/manager/storage/tables.js'
import { KIB } from '../../../src/shared/base/units.js'
import { RAW } from '../../../src/shared/codec/coding.js'
import { PoolAllocator } from '../../../src/shared/pool/pool-allocator.js'
import { ANS, codedGeometry, type Fixture, FP8, fixture, SMALL } from './fixture.js'
import { caught, commandsOf } from './model.js'

/** Items of five pages, of which FP8 makes two and a half. */
const CODED = codedGeometry(20 * KIB, [FP8, ANS, RAW, FP8])
const OPTIONS = { ...SMALL, poolBytes: 5 * 80 * KIB }
const COMMANDS = commandsOf({ bring: 30 })

/** A fixture of coded blocks over parts that are broken in one way. */
function over(make: (tables: ReturnType<typeof tablesOf>) => StorageParts, Kind = Storage): Fixture {
  const of = fixture(OPTIONS, CODED)
  const storage = new Kind(OPTIONS, of.lanes, of.tally, make(tablesOf(OPTIONS)))
  return { ...of, storage, classId: storage.defineClass('aa', CODED) }
}

const entriesOf = (Kind: typeof Entries) => (tables: ReturnType<typeof tablesOf>) => ({
  ...tables,
  entries: new Kind(tables),
})

const memoryOf = (Kind: typeof PoolMemory) => (tables: EntryTables) => ({
  ...tables,
  entries: new Entries({ ...tables, memory: new Kind(new PoolAllocator(OPTIONS.poolBytes)) }),
})

/** Does not give the room of a refused granule back. */
class Hoarding extends PoolMemory {
  override release(): void {}
}

/** Forgets the room of a refused granule. */
class Leaking extends PoolMemory {
  override release(shape: Parameters<PoolMemory['release']>[0], slot: number, granule: number): void {
    super.release(shape, slot, granule)
    this.pool.allocate(1)
  }
}

/** Does not give back what a coding needs no more. */
class Uncut extends PoolMemory {
  override shrink(): void {}
}

/** Gives back what a coding still needs. */
class Overcut extends PoolMemory {
  override shrink(shape: Parameters<PoolMemory['shrink']>[0], slot: number, granule: number, bytes: number): void {
    super.shrink(shape, slot, granule, Math.max(1, bytes - 4096))
  }
}

/** Looks for granules where they would be if nothing were coded. */
class Misplacing extends Entries {
  override extentOffsetBytes(entry: number, granule: number): number {
    return this.shape(entry).geometry.granules[granule]?.extentOffsetBytes ?? 0
  }
}

/** Takes every granule for as long as its item. */
class Uniform extends Entries {
  override granule(entry: number, granule: number): StoredGranule {
    return this.shape(entry).geometry.granules[granule] as StoredGranule
  }
}

/** Decodes what is raw. */
class Decoding extends Entries {
  override encoded(): boolean {
    return true
  }
}

/** Charges an extent as if nothing were coded. */
class Overcharging extends Entries {
  override extentBytes(entry: number): number {
    return this.shape(entry).geometry.extentBytes
  }
}

/** Offers the codec again what it has refused. */
class Insisting extends Storage {
  override codedRoom(entry: number, granule: number): number {
    return CODED.granules[granule]?.coding === RAW ? 0 : this.entries.granule(entry, granule).bytes
  }
}

/** Gives the room back and does not note why. */
class Careless extends Storage {
  override keepRaw(entry: number, granule: number): void {
    if (this.assemblies.has(entry)) this.entries.keepRaw(entry, granule)
  }
}

/** A new entry takes over the lengths of the one whose row it has. */
function stale(tables: ReturnType<typeof tablesOf>): StorageParts {
  const { classes } = tables
  const define = classes.define.bind(classes)
  classes.define = (namespaceHex, geometry) => {
    const id = define(namespaceHex, geometry)
    const { lengths } = classes.get(id)
    if (lengths === null) return id
    const begin = lengths.begin.bind(lengths)
    const begun = new Set<number>()
    lengths.begin = (row) => {
      if (!begun.has(row)) begin(row)
      begun.add(row)
    }
    return id
  }
  return { classes, entries: new Entries(tables) }
}

test('the control of the twins, the same fixture over sound parts, is not caught', (t) => {
  t.false(caught(() => over(entriesOf(Entries)), 20, COMMANDS))
  t.false(caught(() => over(memoryOf(PoolMemory)), 20, COMMANDS))
})

const TWINS: Record<string, () => Fixture> = {
  'keeps the room of what the codec refused': () => over(memoryOf(Hoarding)),
  'loses the room of what the codec refused': () => over(memoryOf(Leaking)),
  'keeps all the room of what was coded': () => over(memoryOf(Uncut)),
  'gives back room that a coding needs': () => over(memoryOf(Overcut)),
  'takes the offsets of the geometry for those of the entry': () => over(entriesOf(Misplacing)),
  'takes the lengths of the geometry for those of the entry': () => over(entriesOf(Uniform)),
  'says of raw granules that they are encoded': () => over(entriesOf(Decoding)),
  'charges extents by the geometry': () => over(entriesOf(Overcharging)),
  'offers the codec again what it refused': () => over(entriesOf(Entries), Insisting),
  'forgets that the codec refused': () => over(entriesOf(Entries), Careless),
  'begins an entry with the lengths of another generation': () => over(stale),
}

for (const [name, make] of Object.entries(TWINS)) {
  test(`a storage that ${name} is caught by the model`, (t) => {
    t.true(caught(make, 20, COMMANDS))
  })
}
