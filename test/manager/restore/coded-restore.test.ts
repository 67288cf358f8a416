import test from 'ava'
import { MANAGER_DEFAULTS } from '../../../src/manager/options.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { NO_OFFSET, SOURCE, WRITE } from '../../../src/shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt, listOf } from '../../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../../src/shared/layout/slot-states.js'
import { CodedBed, ITEM, NOTHING, OK } from '../coded-bed.js'
import { SMALL } from '../storage/fixture.js'

const SSD = [{ ...(SMALL.shards[0] as (typeof SMALL.shards)[number]), capacityBytes: 64 * ITEM }]

/** An engine that published pages 0 … blocks - 1; of block 0 the codec refused layer 2. */
function published(blocks: number, bed = new CodedBed()): CodedBed {
  bed.engine(1)
  const pages = Array.from({ length: blocks }, (_, page) => page)
  bed.publish(1, 1, pages)
  bed.saved(({ page, granule }) => (page === 0 && granule === 2 ? 0 : ITEM / 2))
  bed.rest()
  return bed
}

/** Asks for blocks in the order of `keys` and restores each into the page of its place. */
function restore(bed: CodedBed, keys: Uint8Array, generation = 2): void {
  const count = keys.length / 32
  const groups = [{ group: 0, firstBlock: 0, keys }]
  const ready = bed.manager.ask(1, { kind: 'query', requestId: generation, revision: 0, allowSsd: true, groups })
  if (ready?.kind !== 'ready') throw new Error(JSON.stringify(ready))
  const pairs = Uint32Array.from(Array.from({ length: count }, (_, i) => [i, i]).flat())
  const { lease } = ready
  const ack = bed.manager.ask(1, {
    kind: 'restore',
    slot: 1,
    generation,
    lease,
    fence: 0,
    groups: [{ group: 0, pairs }],
  })
  if (ack?.kind !== 'ack') throw new Error(JSON.stringify(ack))
}

function keys(...pages: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(pages.length * 32)
  for (const [at, page] of pages.entries()) new DataView(bytes.buffer).setUint32(at * 32, page, true)
  return bytes
}

function rows(list: List, doubles: number, fields: readonly number[]): number[][] {
  return Array.from({ length: list.length / doubles }, (_, row) =>
    fields.map((field) => listAt(list, row * doubles + field)),
  )
}

/** Ends the restore of the dram-worker; `refused`: positions of descriptors that are no coding. */
function ended(bed: CodedBed, status: number, refused: readonly number[]): void {
  const { job } = bed.take('restore')
  const list = refused.length === 0 ? EMPTY_LIST : listOf(refused)
  const reply = { kind: 'restore-done', job, status, bytes: 0, latencyUs: 1, list } as const
  bed.manager.step({ kind: 'dram-worker', device: 0, reply })
}

test('from DRAM what is raw is copied first, and what is encoded is decoded from exactly its stored bytes', (t) => {
  const bed = published(2)
  restore(bed, keys(0, 1))
  const [job] = bed.jobs
  const { storage } = bed.manager
  t.deepEqual(
    job?.copies.map(({ page, granule, storedBytes }) => [page, granule, storedBytes]),
    [
      [0, 1, 0],
      [0, 2, 0],
      [1, 1, 0],
      [0, 0, ITEM / 2],
      [0, 3, ITEM / 2],
      [1, 0, ITEM / 2],
      [1, 2, ITEM / 2],
      [1, 3, ITEM / 2],
    ],
  )
  for (const { page, granule, poolOffsetBytes } of job?.copies ?? []) {
    t.is(poolOffsetBytes, storage.granuleOffset(bed.entry(page), granule))
  }
  ended(bed, OK, [])
  t.is(bed.ends().length, 1, 'the lane has written the slot')
  t.deepEqual(bed.breaches(), [])
})

test('what DRAM has and is no coding hides its generation, and no other, before the slot says so', (t) => {
  const bed = published(3)
  restore(bed, keys(0, 1, 2))
  const from = bed.manager.log.length
  const entries = [0, 1, 2].map((page) => bed.entry(page))
  // Raw: 0/1 0/2 1/1 2/1; encoded: 0/0 0/3, 1/0 1/2 1/3, 2/0 2/2 2/3.
  ended(bed, ERROR_CODES.codec_damaged, [8, 7])
  t.deepEqual(
    [0, 1, 2].map((page) => bed.entry(page)),
    [entries[0], -1, entries[2]],
  )
  const finish = bed.manager.log.slice(from).filter(({ kind }) => kind === 'slot-finish')
  t.is(finish.length, 1)
  t.like(finish[0], { state: SLOT_STATE.failed, errorCode: ERROR_CODES.codec_damaged, firstFailed: 1, bytes: 0 })
  t.deepEqual(bed.breaches(), [])
  // A new publication repairs the key.
  bed.publish(1, 3, [1])
  bed.rest()
  t.true(bed.entry(1) >= 0)
  t.deepEqual(bed.breaches(), [])
})

test('a cancelled restore that met damage hides it too, and ends as cancelled', (t) => {
  const bed = published(1)
  restore(bed, keys(0))
  bed.manager.ask(1, { kind: 'cancel', slot: 1, generation: 2 })
  ended(bed, ERROR_CODES.cancelled, [2])
  t.like(bed.ends().at(-1), [SLOT_STATE.cancelled, ERROR_CODES.cancelled])
  t.is(bed.entry(0), -1)
  t.deepEqual(bed.breaches(), [])
})

test('a restore that had no room to decode in, or met an error of the device, hides nothing', (t) => {
  for (const status of [ERROR_CODES.capacity_codec, ERROR_CODES.io_copy_failed]) {
    const bed = published(2)
    restore(bed, keys(0, 1))
    const before = bed.ends().length
    ended(bed, status, [])
    t.is(bed.ends().length, before, 'the lane has written the slot')
    t.true(bed.entry(0) >= 0 && bed.entry(1) >= 0)
    t.deepEqual(bed.breaches(), [])
  }
})

test('a lane that refuses what it was not to decode breaks an invariant', (t) => {
  for (const position of [0, 2, 8, -1, 1.5]) {
    const bed = published(2)
    restore(bed, keys(0, 1))
    t.throws(() => ended(bed, ERROR_CODES.codec_damaged, [position]), { code: 'invariant' }, `position ${position}`)
  }
})

test('from the SSD each granule is read where its own generation has it, in its own length', (t) => {
  const routes = { ...MANAGER_DEFAULTS.routes, readRoute: 'uring' } as const
  const bed = published(2, new CodedBed({ ssd: true, routes }, { shards: SSD }))
  const { manager } = bed
  const written = new Map<number, { readonly offset: number; readonly bytes: readonly number[] }>()
  for (const effect of [...manager.log]) {
    if (effect.kind !== 'to-writeback' || effect.request.kind !== 'write') continue
    const { job, fileOffsetBytes, list } = effect.request
    const bytes = rows(list, WRITE.doubles, [WRITE.bytes]).flat()
    written.set(bytes.includes(ITEM) && bytes[2] === ITEM ? 0 : 1, { offset: fileOffsetBytes, bytes })
    const sum = bytes.reduce((total, each) => total + each, 0)
    const reply = { kind: 'write-done', job, status: OK, bytes: sum, latencyUs: 1 } as const
    manager.step({ kind: 'writeback', store: 0, reply })
  }
  t.deepEqual(written.get(0)?.bytes, [ITEM / 2, ITEM, ITEM, ITEM / 2])
  t.deepEqual(written.get(1)?.bytes, [ITEM / 2, ITEM, ITEM / 2, ITEM / 2])
  manager.storage.dropDram()
  t.is(manager.storage.gauges().poolUsedBytes, 0)
  restore(bed, keys(0, 1))
  const sent = manager.log.flatMap((each) =>
    each.kind === 'to-host-restore' && each.request.kind === 'restore' ? [each.request.list] : [],
  )[0]
  const fields = [
    SOURCE.pair,
    SOURCE.granule,
    SOURCE.fileOffsetBytes,
    SOURCE.bytes,
    SOURCE.segmentBytes,
    SOURCE.segmentStrideBytes,
    SOURCE.encoded,
  ]
  const half = (pair: number, granule: number, offset: number) => {
    const at = (written.get(pair)?.offset ?? 0) + offset
    return [pair, granule, at, ITEM / 2, ITEM / 2, ITEM / 2, 1]
  }
  const whole = (pair: number, granule: number, offset: number) => {
    const at = (written.get(pair)?.offset ?? 0) + offset
    return [pair, granule, at, ITEM, ITEM, ITEM, 0]
  }
  t.deepEqual(rows(sent ?? EMPTY_LIST, SOURCE.doubles, fields), [
    whole(0, 1, ITEM / 2),
    whole(0, 2, 1.5 * ITEM),
    whole(1, 1, ITEM / 2),
    half(0, 0, 0),
    half(0, 3, 2.5 * ITEM),
    half(1, 0, 0),
    half(1, 2, 1.5 * ITEM),
    half(1, 3, 2 * ITEM),
  ])
  t.true(rows(sent ?? EMPTY_LIST, SOURCE.doubles, [SOURCE.poolOffsetBytes]).every(([at]) => at === NO_OFFSET))
  t.true(rows(sent ?? EMPTY_LIST, SOURCE.doubles, [SOURCE.crc32]).every(([crc]) => crc === 7))
})

test('a query is charged what its blocks take as they are stored', (t) => {
  const bed = published(2)
  const { storage, machine } = bed.manager
  const before = machine.context.queryBudget.total.chargedBytes
  const groups = [{ group: 0, firstBlock: 0, keys: keys(0, 1) }]
  const ready = bed.manager.ask(1, { kind: 'query', requestId: 9, revision: 0, allowSsd: true, groups })
  t.is(ready?.kind, 'ready')
  const blocks = [0, 1].map((page) => storage.extentBytes(bed.entry(page)))
  t.deepEqual(blocks, [3 * ITEM, 2.5 * ITEM])
  t.is(machine.context.queryBudget.total.chargedBytes - before, 5.5 * ITEM)
  if (ready?.kind === 'ready') bed.manager.ask(1, { kind: 'release', what: 'lease', id: ready.lease })
  t.is(machine.context.queryBudget.total.chargedBytes, 0)
  t.deepEqual(bed.owned, NOTHING)
})

test('a query that not all blocks fit gets the largest boundary that fits as stored', (t) => {
  const options = { queryBudgetBytes: 3 * ITEM, queryInstanceBudgetBytes: 3 * ITEM }
  const bed = published(2, new CodedBed(options))
  const ask = (...pages: number[]) => {
    const groups = [{ group: 0, firstBlock: 0, keys: keys(...pages) }]
    return bed.manager.ask(1, { kind: 'query', requestId: 9, revision: 0, allowSsd: true, groups })
  }
  const ready = ask(0, 1)
  t.is(ready?.kind, 'ready')
  t.is(bed.manager.machine.context.queryBudget.total.chargedBytes, 3 * ITEM, 'block 0, which is 3 items, and not 4')
})
