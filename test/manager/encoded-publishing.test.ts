import test from 'ava'
import type { SsdWorkerReply, SsdWorkerRequest } from '../../src/actors/ssd-worker/messages.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../../src/manager/options.js'
import { census } from '../../src/manager/storage/census.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { GIB, KIB } from '../../src/shared/base/units.js'
import { COPY, NO_CODE, TARGET } from '../../src/shared/layout/descriptors.js'
import { EMPTY_LIST, listAt, listOf } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { CodedBed, ITEM, LAYERS, NOTHING, OK, RAW_LAYER } from './coded-bed.js'
import { keysOf, SMALL } from './storage/fixture.js'

/** Publications under a codec that go to the SSD by cuFile from where they were coded, with lanes that answer when told. */

const CUFILE = {
  ...MANAGER_DEFAULTS.routes,
  backend: 'cufile',
  readRoute: 'cufile',
  writeRoute: 'cufile',
  evidence: 'compatibility-allowed',
  cause: 'configured',
} as const
const HALF = ITEM / 2
const done = (blocks: number) => [SLOT_STATE.done, OK, blocks * LAYERS.length * ITEM] as const

type Job = Extract<SsdWorkerRequest, { readonly kind: 'encode' }>
type Write = Extract<SsdWorkerRequest, { readonly kind: 'write-codes' }>

class Bed extends CodedBed {
  constructor(options: Partial<ManagerOptions> = {}) {
    const shards = SMALL.shards.slice(0, 1).map((shard) => ({ ...shard, bytes: 1024 * KIB }))
    super({ ssd: true, staging: ['host'], routes: CUFILE, ...options }, { shards, writeQueueBytesMax: GIB })
    this.engine(1)
  }

  requests<K extends SsdWorkerRequest['kind']>(kind: K): Extract<SsdWorkerRequest, { readonly kind: K }>[] {
    return this.manager.log.flatMap((each) =>
      each.kind === 'to-ssd-worker' && 'request' in each && each.request.kind === kind
        ? [each.request as Extract<SsdWorkerRequest, { readonly kind: K }>]
        : [],
    )
  }

  /** The last encoding that the lane was given. */
  get encoding(): Job {
    return this.requests('encode').at(-1) as Job
  }

  get writing(): Write {
    return this.requests('write-codes').at(-1) as Write
  }

  reply(reply: SsdWorkerReply): void {
    this.manager.step({ kind: 'ssd-worker', device: 0, reply })
  }

  /** Everything of a job was coded to half of it, but for what `refused` names by its place among the coded. */
  encoded({ job, list }: Job, held: 0 | 1 = 1, refused: readonly number[] = []): void {
    const said: number[] = []
    let code = 0
    for (let at = 0; at < list.length; at += COPY.doubles) {
      const coded = listAt(list, at + COPY.storedBytes) > 0
      said.push(...(coded && !refused.includes(code++) ? [HALF, 7] : [0, 0]))
    }
    this.reply({ kind: 'encoded', job, status: OK, held, list: listOf(said) })
  }

  written(job: number, statuses: readonly number[], status: number = OK): void {
    const list = statuses.length === 0 ? EMPTY_LIST : listOf([...statuses])
    this.reply({ kind: 'write-done', job, status, list })
  }

  /** Blocks that are written: file offset, bytes and coding of each granule. */
  get targets(): (readonly [object: number, offset: number, bytes: number, code: number])[] {
    const { list } = this.writing
    return Array.from({ length: list.length / TARGET.doubles }, (_, each) => {
      const field = (name: number) => listAt(list, each * TARGET.doubles + name)
      return [field(TARGET.object), field(TARGET.fileOffsetBytes), field(TARGET.bytes), field(TARGET.code)] as const
    })
  }

  get writes(): number {
    return this.manager.machine.ownership()['writesInFlight'] ?? 0
  }
}

test('a block is written from where it was coded once it is known how long it is, and sealed from DRAM meanwhile', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0, 1])
  const { encoding } = bed
  t.is(encoding.list.length / COPY.doubles, 2 * LAYERS.length)
  t.is(bed.writes, 0, 'no extent before lengths are known')
  bed.encoded(encoding)
  const start = bed.targets[0]?.[1] as number
  t.deepEqual(
    bed.targets.slice(0, LAYERS.length),
    [
      [0, start, HALF, 0],
      [0, start + HALF, ITEM, NO_CODE],
      [0, start + HALF + ITEM, HALF, 1],
      [0, start + 2 * HALF + ITEM, HALF, 2],
    ],
    'raw granules come from their pages, the others by their place among the codings',
  )
  t.deepEqual(
    bed.targets.slice(LAYERS.length).map(([object, , , code]) => [object, code]),
    [
      [1, 3],
      [1, NO_CODE],
      [1, 4],
      [1, 5],
    ],
  )
  t.is(bed.writes, 2)
  bed.checked()
  t.true(bed.entry(0) >= 0, 'found in DRAM while the SSD is at work')
  t.deepEqual(bed.ends(), [], 'its pages are in use until the SSD has ended')
  bed.written(encoding.job, [OK, OK])
  t.deepEqual(bed.ends(), [done(2)])
  t.true([0, 1].every((page) => bed.manager.storage.onSsd(bed.entry(page))))
  t.is(bed.writes, 0)
  t.deepEqual(census(bed.manager.storage), [])
  t.deepEqual(bed.owned, NOTHING)
})

test('the SSD may end before the seal: the extent is published with it', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0])
  bed.encoded(bed.encoding)
  bed.written(bed.encoding.job, [OK])
  t.is(bed.writes, 1)
  bed.checked()
  t.true(bed.manager.storage.onSsd(bed.entry(0)))
  t.deepEqual(bed.ends(), [done(1)])
  t.is(bed.writes, 0)
})

test('a block with a refused item is not written from there: it comes back raw by DRAM, and is written from DRAM', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0, 1])
  bed.encoded(bed.encoding, 1, [1])
  t.deepEqual([...new Set(bed.targets.map(([object]) => object))], [0], 'the other block alone')
  bed.written(bed.encoding.job, [OK])
  bed.saved()
  bed.rest()
  t.deepEqual(bed.ends(), [done(2)])
  t.is(bed.writes, 1, 'by io_uring')
  t.true(bed.manager.storage.onSsd(bed.entry(1)))
})

test('codings that are not held are written from DRAM, and nothing is asked of the lane', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0])
  bed.encoded(bed.encoding, 0)
  bed.written(bed.encoding.job, [])
  bed.rest()
  t.deepEqual(bed.requests('write-codes'), [])
  t.deepEqual(bed.ends(), [done(1)])
  t.is(bed.writes, 1)
})

test('a write that fails leaves its block in DRAM, and does not offer it again', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0, 1])
  bed.encoded(bed.encoding)
  bed.written(bed.encoding.job, [OK, ERROR_CODES.io_write_failed], ERROR_CODES.io_write_failed)
  bed.checked()
  t.deepEqual(bed.ends(), [done(2)])
  t.deepEqual(
    [0, 1].map((page) => bed.manager.storage.onSsd(bed.entry(page))),
    [true, false],
  )
  t.is(bed.writes, 0)
})

test('a cancelled encoding asks for no write, and ends with its lane', (t) => {
  for (const when of ['before', 'after'] as const) {
    const bed = new Bed()
    bed.publish(1, 1, [0])
    if (when === 'after') bed.encoded(bed.encoding)
    bed.manager.ask(1, { kind: 'cancel', slot: 0, generation: 1 })
    // Its coding had ended when the lane heard of it.
    if (when === 'before') bed.encoded(bed.encoding)
    t.is(bed.requests('write-codes').length, when === 'after' ? 1 : 0)
    t.deepEqual(bed.ends(), [])
    bed.written(bed.encoding.job, when === 'after' ? [ERROR_CODES.cancelled] : [], ERROR_CODES.cancelled)
    bed.rest()
    t.deepEqual(
      bed.ends().map(([state]) => state),
      [SLOT_STATE.cancelled],
    )
    // What was whole when the cancel came is sealed, and written from DRAM.
    t.deepEqual(bed.owned, { ...NOTHING, interests: when === 'before' ? 1 : 0 })
  }
})

test('staging that cannot be had fails the publication by its name, and gives back what it had', (t) => {
  const bed = new Bed()
  bed.publish(1, 1, [0])
  const { job } = bed.encoding
  bed.reply({ kind: 'encoded', job, status: ERROR_CODES.io_open_failed, held: 0, list: EMPTY_LIST })
  bed.written(job, [], ERROR_CODES.io_open_failed)
  t.deepEqual(
    bed.ends().map(([state, error]) => [state, error]),
    [[SLOT_STATE.failed, ERROR_CODES.io_open_failed]],
  )
  t.deepEqual(bed.owned, NOTHING)
  t.deepEqual(bed.breaches(), [])
})

test('a block that does not come whole goes by DRAM, and one that does not fit begins the next part', (t) => {
  const bed = new Bed({ descriptorsPerRecordMax: 2 * LAYERS.length + 1 })
  bed.publish(1, 1, [0], { layers: Uint32Array.of(RAW_LAYER) })
  t.deepEqual(bed.requests('encode'), [])
  bed.rest()
  bed.publish(1, 2, [1, 2, 3])
  t.is(bed.encoding.list.length / COPY.doubles, 2 * LAYERS.length, 'two whole blocks, and nothing of the third')
  bed.encoded(bed.encoding)
  t.is(bed.requests('encode').length, 1, 'the arena is taken')
  bed.saved()
  t.is(
    bed.encoding.list.length / COPY.doubles,
    2 * LAYERS.length,
    'and the third is saved before the disk has the others',
  )
  bed.written(bed.encoding.job, [OK, OK])
  bed.rest()
  t.is(bed.ends().length, 2)
  t.deepEqual(bed.owned, { ...NOTHING, interests: 1 }, 'the third is on its way from DRAM')

  // A block of more granules than one record has goes by DRAM.
  const narrow = new Bed({ descriptorsPerRecordMax: LAYERS.length - 1 })
  narrow.publish(1, 1, [0])
  t.deepEqual(narrow.requests('encode'), [])
  narrow.rest()
  t.deepEqual(narrow.ends(), [done(1)])
})

test('while one is under way the others of the rank go by DRAM, and one has its turn again when it has ended', (t) => {
  const bed = new Bed({ publishPartBytes: 1 })
  bed.publish(1, 1, [0, 1, 2])
  const [first] = bed.requests('encode') as [Job]
  bed.encoded(first)
  bed.saved()
  bed.saved()
  const publishOther = (slot: number, key: number) => {
    const items = { keys: keysOf(key), pages: Uint32Array.of(0) }
    const groups = [{ group: 0, layers: null, items }]
    bed.manager.ask(1, { kind: 'publish', slot, generation: 1, fence: 0, partialOk: false, groups })
  }
  publishOther(1, 100)
  t.is(bed.requests('encode').length, 1)
  bed.saved()
  bed.written(first.job, [OK])
  publishOther(2, 101)
  t.is(bed.requests('encode').length, 2)
})
