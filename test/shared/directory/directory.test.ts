import test from 'ava'
import fc from 'fast-check'
import {
  CLASSES_MAX,
  Directory,
  ENTRIES_MAX,
  ENTRY_STATE,
  GENERATION_MAX,
  NONE,
} from '../../../src/shared/directory/directory.js'
import { hashKey, KEY_WORDS } from '../../../src/shared/directory/key-hash.js'
import { KeyCounter, keysOf } from '../../support/keys.js'
import { catches, holds, modelProperty, step } from '../../support/model-commands.js'

const CAPACITY = 24
const NAMES = 20
const CLASSES = 2

/** Rows as plain objects, the index as a map from text to row. */
interface ModelRow {
  readonly entry: number
  readonly name: string
  readonly generation: number
  state: number
  flags: number
  interests: number
  extent: number
  shard: number
  dramSlot: number
  crcSlot: number
}

class Model {
  readonly rows = new Map<number, ModelRow>()
  readonly index = new Map<string, ModelRow>()
  generations = 0

  pick(nth: number, fits: (row: ModelRow) => boolean): ModelRow | undefined {
    const fitting = [...this.rows.values()].filter(fits)
    return fitting[nth % Math.max(1, fitting.length)]
  }
}

const anyRow = (): boolean => true
const assertSame = (what: string, real: unknown, model: unknown): void => {
  if (real !== model) throw new Error(`${what}: directory ${real}, model ${model}`)
}

function compare(model: Model, real: Directory): void {
  assertSame('live', real.live, model.rows.size)
  assertSame('indexed', real.indexed, model.index.size)
  const entries = new Int32Array(NAMES)
  for (let classId = 0; classId < CLASSES; classId++) {
    const found = real.lookup(classId, keysOf(NAMES), NAMES, entries)
    let expected = 0
    for (let key = 0; key < NAMES; key++) {
      const row = model.index.get(`${classId}/${key}`)
      if (row !== undefined) expected++
      assertSame(`lookup ${classId}/${key}`, entries[key], row?.entry ?? NONE)
    }
    assertSame('found', found, expected)
  }
  for (const row of model.rows.values()) {
    for (const name of ['state', 'flags', 'interests', 'extent', 'dramSlot', 'crcSlot', 'generation'] as const) {
      assertSame(`${name} of ${row.entry}`, real[name](row.entry), row[name])
    }
    if (row.extent !== NONE) assertSame('shard', real.shard(row.entry), row.shard)
    const key = new Uint8Array(32)
    real.copyKey(row.entry, key, 0)
    const [classId, index] = row.name.split('/').map(Number) as [number, number]
    assertSame('class', real.classId(row.entry), classId)
    assertSame(
      'key',
      key.toString(),
      keysOf(NAMES)
        .subarray(index * 32, index * 32 + 32)
        .toString(),
    )
  }
}

const nth = fc.nat(50)
const indexedRow = (row: ModelRow): boolean =>
  row.state === ENTRY_STATE.assembling || row.state === ENTRY_STATE.published

const steps = [
  fc.tuple(fc.nat(CLASSES - 1), fc.nat(NAMES - 1)).map(([classId, key]) =>
    step<Model, Directory>(
      `insert ${classId}/${key}`,
      (model, real) => {
        const name = `${classId}/${key}`
        const entry = real.insert(classId, keysOf(NAMES), key)
        assertSame('insert has room', entry !== NONE, model.rows.size < CAPACITY)
        if (entry === NONE) return
        if (model.rows.has(entry)) throw new Error(`row ${entry} given out twice`)
        const row: ModelRow = {
          entry,
          name,
          generation: ++model.generations,
          state: ENTRY_STATE.assembling,
          flags: 0,
          interests: 0,
          extent: NONE,
          shard: 0,
          dramSlot: NONE,
          crcSlot: NONE,
        }
        model.rows.set(entry, row)
        model.index.set(name, row)
      },
      (model) => !model.index.has(`${classId}/${key}`),
    ),
  ),
  ...(
    [
      [
        'publish',
        (row) => row.state === ENTRY_STATE.assembling,
        (row, real) => {
          real.publish(row.entry)
          row.state = ENTRY_STATE.published
        },
      ],
      [
        'unindex',
        indexedRow,
        (row, real, model) => {
          real.unindex(row.entry)
          row.state = ENTRY_STATE.invalid
          model.index.delete(row.name)
        },
      ],
      [
        'free',
        (row) => row.state === ENTRY_STATE.invalid && row.interests === 0,
        (row, real, model) => {
          real.clearExtent(row.entry)
          real.setDramSlot(row.entry, NONE)
          real.setCrcSlot(row.entry, NONE)
          real.free(row.entry)
          model.rows.delete(row.entry)
        },
      ],
      [
        'hold',
        anyRow,
        (row, real) => {
          real.hold(row.entry)
          row.interests++
        },
      ],
      [
        'drop',
        (row) => row.interests > 0,
        (row, real) => {
          row.interests--
          assertSame('left', real.drop(row.entry), row.interests)
        },
      ],
    ] as [string, (row: ModelRow) => boolean, (row: ModelRow, real: Directory, model: Model) => void][]
  ).map(([label, fits, act]) =>
    nth.map((n) =>
      step<Model, Directory>(
        `${label} ${n}`,
        (model, real) => act(model.pick(n, fits) as ModelRow, real, model),
        (model) => model.pick(n, fits) !== undefined,
      ),
    ),
  ),
  fc
    .record({
      n: nth,
      flags: fc.nat(63),
      shard: fc.nat(255),
      extent: fc.integer({ min: 0, max: 2 ** 31 }),
      dram: fc.integer({ min: -1, max: 2 ** 24 - 3 }),
      crc: fc.integer({ min: -1, max: 2 ** 31 }),
    })
    .map((values) =>
      step<Model, Directory>(
        `set ${JSON.stringify(values)}`,
        (model, real) => {
          const row = model.pick(values.n, anyRow) as ModelRow
          real.setFlags(row.entry, values.flags)
          real.setDramSlot(row.entry, values.dram)
          real.setExtent(row.entry, values.shard, values.extent)
          real.setCrcSlot(row.entry, values.crc)
          Object.assign(row, {
            flags: values.flags,
            shard: values.shard,
            extent: values.extent,
            dramSlot: values.dram,
            crcSlot: values.crc,
          })
        },
        (model) => model.rows.size > 0,
      ),
    ),
]

const directoryModel = (make: () => Directory): fc.IProperty<[Iterable<fc.Command<Model, Directory>>]> =>
  modelProperty(steps, () => ({ model: new Model(), real: make() }), compare, 80)

test('Directory: equal to a map of texts through any commands, every column included', (t) => {
  let seed = 0
  t.true(
    holds(
      directoryModel(() => new Directory({ entriesMax: CAPACITY, seed: [seed++, 77] })),
      400,
    ),
  )
})

/** Compares nothing but the tag. */
class TagOnly extends Directory {
  protected override matches(): boolean {
    return true
  }
}

/** Forgets that classes share keys. */
class Classless extends Directory {
  protected override matches(entry: number, _classId: number, index: number): boolean {
    return super.matches(entry, this.classId(entry), index)
  }
}

/** Compares the first half of the key. */
class HalfKey extends Directory {
  protected override matches(entry: number, classId: number, index: number): boolean {
    const row = this.rows.wordOf(entry)
    const words = this.rows.segmentOf(entry)
    const same = [0, 1, 2, 3].every((word) => words[row + word] === this.staged[index * KEY_WORDS + word])
    return same && this.classId(entry) === classId
  }
}

/** Present keys are found and absent ones are not, when tags are as short as they get. */
function exactAtVolume(make: (seed: number) => Directory): fc.IProperty<[number, boolean]> {
  return fc.property(fc.integer(), fc.boolean(), (seed, alike) => {
    const directory = make(seed)
    // Alike: all keys, present and absent, share their first half, as a peer may choose.
    const keys = new KeyCounter(seed, alike)
    const present = keys.take(600)
    for (let key = 0; key < 600; key++) directory.insert(1, present, key)
    const probes = new Uint8Array(1800 * 32)
    probes.set(present)
    // Neighbours of present keys: equal but for the last byte. Then keys that nobody has.
    for (let key = 0; key < 600; key++) {
      probes.set(present.subarray(key * 32, key * 32 + 32), (600 + key) * 32)
      probes[(600 + key) * 32 + 31] = (present[key * 32 + 31] as number) ^ 1
    }
    probes.set(keys.take(600), 1200 * 32)
    const entries = new Int32Array(1800)
    const found = directory.lookup(1, probes, 1800, entries)
    if (found !== 600) return false
    return entries.every((entry, index) => (index < 600 ? entry === index : entry === NONE))
  })
}

/** A key of one class is absent in every other: some of those share its bucket and its short tag. */
function classesApart(make: (seed: number) => Directory): fc.IProperty<[number]> {
  return fc.property(fc.integer(), (seed) => {
    const directory = make(seed)
    const entry = directory.insert(0, keysOf(1), 0)
    const entries = new Int32Array(1)
    for (let classId = 1; classId < CLASSES_MAX; classId++) {
      if (directory.lookup(classId, keysOf(1), 1, entries) !== 0) return false
    }
    return directory.lookup(0, keysOf(1), 1, entries) === 1 && entries[0] === entry
  })
}

test('Directory: at any seed present keys are found and their neighbours are not', (t) => {
  t.true(
    holds(
      exactAtVolume((seed) => new Directory({ entriesMax: ENTRIES_MAX, seed: [seed, 1] })),
      30,
    ),
  )
  t.true(
    holds(
      exactAtVolume((seed) => new Directory({ entriesMax: 600, seed: [seed, 1] })),
      30,
    ),
  )
})

test('Directory: twins that compare the tag alone, half a key or no class are caught', (t) => {
  const shortTags = (seed: number) => ({ entriesMax: ENTRIES_MAX, seed: [seed, 1] as const })
  t.true(
    holds(
      classesApart((seed) => new Directory(shortTags(seed))),
      10,
    ),
  )
  t.true(
    catches(
      classesApart((seed) => new Classless(shortTags(seed))),
      10,
    ),
  )
  t.true(
    catches(
      exactAtVolume((seed) => new TagOnly(shortTags(seed))),
      30,
    ),
  )
  t.true(
    catches(
      exactAtVolume((seed) => new HalfKey(shortTags(seed))),
      30,
    ),
  )
})

test('Directory: the model catches a twin that keeps a freed interest', (t) => {
  class Leaky extends Directory {
    override drop(entry: number): number {
      const left = super.drop(entry)
      if (left === 1) this.hold(entry)
      return left
    }
  }
  t.true(catches(directoryModel(() => new Leaky({ entriesMax: CAPACITY, seed: [1, 2] }))))
})

test('Directory: a hundred thousand entries survive growth and the removal of every other one', (t) => {
  const count = 100_000
  const directory = new Directory({ entriesMax: count, seed: [3, 4] })
  const keys = new KeyCounter(9).take(count)
  const entries = new Int32Array(count)
  for (let key = 0; key < count; key++) directory.insert(0, keys, key)
  t.is(directory.insert(0, new KeyCounter(10).take(1), 0), NONE)
  t.is(directory.lookup(0, keys, count, entries), count)
  for (let key = 0; key < count; key += 2) {
    directory.unindex(entries[key] as number)
    directory.free(entries[key] as number)
  }
  const after = new Int32Array(count)
  t.is(directory.lookup(0, keys, count, after), count / 2)
  t.true(after.every((entry, key) => entry === (key % 2 === 0 ? NONE : entries[key])))
  const reservedBytes = directory.bytesReserved
  for (let key = 0; key < count; key += 2) directory.insert(0, keys, key)
  t.is(directory.bytesReserved, reservedBytes)
  t.is(directory.lookup(0, keys, count, after), count)
  t.true(reservedBytes / count < 66, `${reservedBytes / count} bytes an entry`)
})

test('Directory: generations ascend, pass 2^32 exactly, and end in a refusal instead of a wrap', (t) => {
  const keys = keysOf(4)
  const middle = new Directory({ entriesMax: 4, seed: [0, 0], firstGeneration: 2 ** 32 - 1 })
  t.deepEqual(
    [0, 1, 2].map((key) => middle.generation(middle.insert(65_535, keys, key))),
    [2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1],
  )
  t.is(middle.classId(1), 65_535)
  const last = new Directory({ entriesMax: 4, seed: [0, 0], firstGeneration: GENERATION_MAX })
  t.is(last.generation(last.insert(0, keys, 0)), GENERATION_MAX)
  t.is(last.insert(0, keys, 1), NONE)
})

test('Directory: what only a bug could do stops at once', (t) => {
  const directory = new Directory({ entriesMax: 4, seed: [0, 0] })
  const entry = directory.insert(0, keysOf(4), 0)
  const invariant = { instanceOf: Error, message: /^Broken invariant/ }
  t.throws(() => directory.insert(0, keysOf(4), 0), invariant)
  t.throws(() => directory.free(entry), invariant)
  t.throws(() => directory.drop(entry), invariant)
  directory.hold(entry)
  directory.unindex(entry)
  t.throws(() => directory.unindex(entry), invariant)
  t.throws(() => directory.publish(entry), invariant)
  t.throws(() => directory.free(entry), invariant)
  directory.drop(entry)
  directory.setExtent(entry, 0, 0)
  t.throws(() => directory.free(entry), invariant)
  directory.clearExtent(entry)
  directory.free(entry)
  t.throws(() => directory.hold(entry), invariant)
})

test('hashKey: keys that differ in one counted word spread over buckets and tags as chance would', (t) => {
  for (let word = 0; word <= KEY_WORDS; word++) {
    const buckets = new Uint32Array(1024)
    const tops = new Uint32Array(1024)
    const key = new Uint32Array(KEY_WORDS)
    for (let value = 0; value < 16_384; value++) {
      if (word < KEY_WORDS) key[word] = value * 4096
      const hash = hashKey(key, 0, word === KEY_WORDS ? value : 5, 0x1234567, 0x89abcdef)
      buckets[hash & 1023] = (buckets[hash & 1023] as number) + 1
      tops[hash >>> 22] = (tops[hash >>> 22] as number) + 1
    }
    // Mean 16, deviation 4: 44 is seven deviations up.
    t.true(Math.max(...buckets) < 44 && Math.min(...buckets) > 0, `word ${word}`)
    t.true(Math.max(...tops) < 44 && Math.min(...tops) > 0, `word ${word}`)
  }
})

test('hashKey: keys that share a bucket under one seed part under another', (t) => {
  const counter = new KeyCounter(5)
  const keys = new Uint32Array(counter.take(40_000).buffer)
  const together: number[] = []
  for (let at = 0; at < keys.length; at += KEY_WORDS) if ((hashKey(keys, at, 0, 1, 2) & 1023) === 7) together.push(at)
  t.true(together.length > 20)
  const others = new Set(together.map((at) => hashKey(keys, at, 0, 1, 3) & 1023))
  t.true(others.size > together.length * 0.8)
})
