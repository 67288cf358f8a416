import test from 'ava'
import fc from 'fast-check'
import { SSD_WORKER_SERIES } from '../../../src/actors/ssd-worker/counters.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { KIB } from '../../../src/shared/base/units.js'
import { CODEC_COUNT } from '../../../src/shared/codec/lane-series.js'
import { READ_BURST } from '../../../src/shared/scheduling/staging-turns.js'
import { StagingBed } from '../../support/staging-bed.js'
import type { Block } from '../../support/staging-blocks.js'
import { command, run, settle } from '../../support/staging-commands.js'
import { BED_SLOT_BYTES } from '../../support/staging-device.js'

test('any jobs, faults, cancels and orders: exact bytes or none, one end each, nothing left', (t) => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60, size: 'max' }), (commands) => {
      const bed = new StagingBed()
      run(bed, commands)
      settle(bed)
    }),
    { numRuns: 200 },
  )
  t.pass()
})

test('without faults every job succeeds', (t) => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 40, size: 'max' }), (commands) => {
      const bed = new StagingBed()
      run(bed, commands, false)
      settle(bed)
      for (const [number, { ended }] of bed.jobs) if (ended !== ERROR_CODES.ok) throw new Error(`job ${number} failed`)
      if (bed.routeFailures.length > 0) throw new Error('a route failed')
    }),
    { numRuns: 100 },
  )
  t.pass()
})

// Bugs of others are planted in test/museum/staging.ts, where nothing is checksummed.

test('a device that claims what it has not done is caught by checksums: nothing wrong reaches a page', (t) => {
  for (const outcome of ['not-registered', 'lost', 'short', 'stale'] as const) {
    const bed = new StagingBed({ distort: (_, wanted) => wanted })
    bed.openWorker(0)
    const block = bed.place(0, 0) as Block
    bed.store(block)
    const job = bed.restore(0, [{ block }])
    bed.complete(0, outcome)
    t.is(bed.jobs.get(job)?.ended, ERROR_CODES.checksum_mismatch, outcome)
  }
})

test('nixl#2146: the second completion of one operation changes nothing', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(0, 0) as Block
  bed.store(block)
  const job = bed.restore(0, [{ block }])
  const tag = bed.operations[0]?.tag ?? -1
  bed.complete(0)
  bed.step({ kind: 'completed', tag, result: BED_SLOT_BYTES })
  t.is(bed.gauge('completionsStray'), 1)
  t.is(bed.jobs.get(job)?.ended, null)
  settle(bed)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
})

// Shapes of reads

const PAGE = 2

test('four adjoining pages of four leases are one read', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = Array.from({ length: 4 }, () => bed.place(PAGE, 0) as Block)
  for (const block of blocks) bed.store(block)
  bed.restore(
    0,
    blocks.map((block) => ({ block })),
  )
  settle(bed)
  t.deepEqual(
    bed.reads.map(({ bytes }) => bytes),
    [16 * KIB],
  )
})

test('pages of two files are two reads', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = [0, 1, 0, 1].map((file) => bed.place(PAGE, file) as Block)
  for (const block of blocks) bed.store(block)
  bed.restore(
    0,
    blocks.map((block) => ({ block })),
  )
  settle(bed)
  t.deepEqual(
    bed.reads.map(({ file, bytes }) => [file, bytes]),
    [
      [0, 8 * KIB],
      [1, 8 * KIB],
    ],
  )
})

test('alternating pages are read without the gaps between them', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = Array.from({ length: 4 }, () => bed.place(PAGE, 0) as Block)
  for (const block of blocks) bed.store(block)
  bed.restore(0, [{ block: blocks[0] as Block }, { block: blocks[2] as Block }])
  settle(bed)
  t.deepEqual(
    bed.reads.map(({ bytes }) => bytes),
    [4 * KIB, 4 * KIB],
  )
})

test('a checkpoint larger than a slot is cut between granules and restored exactly', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(1, 0) as Block
  bed.store(block)
  const job = bed.restore(0, [{ block }])
  settle(bed)
  t.true(bed.reads.length >= 2)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
})

// Codings

const CODED = 3

/** Ends the oldest operations until one of this kind is among those that may end, and says which. */
function reach(bed: StagingBed, kind: string): number {
  const at = () => heads(bed).findIndex(({ effect }) => effect.kind === kind)
  while (at() < 0) bed.complete(0)
  return at()
}

test('raw granules of a slot go in one copy, codings in parts; the slot is free after the last of them', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(CODED, 0) as Block
  bed.store(block)
  const job = bed.restore(0, [{ block }])
  bed.complete(0)
  t.deepEqual(
    bed.operations.map(({ effect }) => effect.kind),
    ['scatter', 'decode', 'decode'],
  )
  bed.complete(0)
  bed.complete(0)
  t.is(bed.gauge('batchesInFlight'), 1)
  bed.complete(0)
  t.is(bed.gauge('batchesInFlight'), 0)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
  const count = (position: number) => bed.tally.at(SSD_WORKER_SERIES.length + position)
  t.is(count(CODEC_COUNT.decodeBatches), 2)
  t.is(count(CODEC_COUNT.decodedBytes), 300 + 512 + 77 + 78)
})

test('what is in DRAM is decoded beside I/O, on the stream for copies', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const job = bed.restore(0, [{ block: bed.place(CODED, 0) as Block, resident: true }])
  t.true(bed.operations.every(({ slot }) => slot < 0))
  settle(bed)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
  t.is(bed.reads.length, 0)
})

test('a coding that is refused is damaged, from a slot and from DRAM alike, and says nothing of the route', (t) => {
  for (const resident of [false, true]) {
    const bed = new StagingBed()
    bed.openWorker(0)
    const block = bed.place(CODED, 0) as Block
    bed.store(block)
    const job = bed.restore(0, [{ block, resident }])
    bed.complete(reach(bed, 'decode'), 'refused')
    settle(bed)
    t.is(bed.jobs.get(job)?.ended, ERROR_CODES.codec_damaged)
    t.is(bed.gauge('damagedGenerations'), 1)
    t.deepEqual(bed.routeFailures, [])
  }
})

test('a workspace without room fails the restore, damages nothing and says nothing of the route', (t) => {
  for (const resident of [false, true]) {
    const bed = new StagingBed()
    bed.openWorker(0)
    const block = bed.place(CODED, 0) as Block
    bed.store(block)
    const job = bed.restore(0, [{ block, resident }])
    bed.complete(reach(bed, 'decode'), 'no-room')
    settle(bed)
    t.is(bed.jobs.get(job)?.ended, ERROR_CODES.capacity_codec)
    t.is(bed.gauge('damagedGenerations'), 0)
    t.deepEqual(bed.routeFailures, [])
    t.is(bed.tally.at(SSD_WORKER_SERIES.length + CODEC_COUNT.decodeFailures), 1)
  }
})

test('a device that fails while it decodes from a slot fails the route', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(CODED, 0) as Block
  bed.store(block)
  const job = bed.restore(0, [{ block }])
  bed.complete(reach(bed, 'decode'), 'lost')
  settle(bed)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.io_copy_failed)
  t.deepEqual(bed.routeFailures, [-5])
})

test('the bed catches a lane that takes a refused coding for done, and one that takes no room for done', (t) => {
  const restored = (bed: StagingBed, outcome: 'refused' | 'no-room', resident: boolean) => {
    bed.openWorker(0)
    const block = bed.place(CODED, 0) as Block
    bed.store(block)
    bed.restore(0, [{ block, resident }])
    bed.complete(reach(bed, 'decode'), outcome)
    settle(bed)
  }
  for (const resident of [false, true]) {
    t.throws(() => restored(new StagingBed({ deaf: true }), 'refused', resident), { message: /is not named/ })
  }
  const hopeful = new StagingBed({ distort: (result) => (result === -12 ? 0 : result) })
  t.throws(() => restored(hopeful, 'no-room', true), { message: /succeeded with wrong bytes/ })
})

test('one stored block for more pages than a slot has results is decoded in rounds', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(CODED, 0) as Block
  bed.store(block)
  const job = bed.restore(
    0,
    Array.from({ length: 5 }, () => ({ block })),
  )
  bed.complete(reach(bed, 'read'))
  const parts = () => bed.operations.filter(({ effect }) => effect.kind === 'decode').length
  t.is(parts(), 4)
  settle(bed)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
  t.is(bed.reads.length, 1)
  t.is(bed.tally.at(SSD_WORKER_SERIES.length + CODEC_COUNT.decodeBatches), 10)
})

// Turns

test('a read goes on while a write is held, and a second write waits for the first', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  bed.write(0, [bed.place(PAGE, 0) as Block])
  bed.write(0, [bed.place(PAGE, 0) as Block])
  const block = bed.place(PAGE, 1) as Block
  bed.store(block)
  const job = bed.restore(0, [{ block }])
  t.deepEqual(
    bed.operations.filter(({ slot }) => slot >= 0).map(({ effect }) => effect.kind),
    ['write', 'read'],
  )
  t.is(bed.gauge('batchesInFlight'), 2)
  t.is(bed.gauge('writesInFlight'), 1)
  const read = () => bed.operations.findIndex(({ effect }) => effect.kind === 'read' || effect.kind === 'scatter')
  const headOf = (at: number) => heads(bed).indexOf(bed.operations[at] as (typeof bed.operations)[number])
  bed.complete(headOf(read()))
  bed.complete(headOf(read()))
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok)
  t.is(bed.gauge('writesInFlight'), 1)
  settle(bed)
})

function heads(bed: StagingBed): (typeof bed.operations)[number][] {
  return bed.operations.filter(
    (each, at) => bed.operations.findIndex(({ worker, slot }) => worker === each.worker && slot === each.slot) === at,
  )
}

test('cancel with both slots busy: both end before the reply, nothing else starts', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = Array.from({ length: 12 }, () => bed.place(PAGE, 0, 1) as Block)
  for (const block of blocks) bed.store(block)
  const job = bed.restore(
    0,
    blocks.map((block) => ({ block })),
  )
  t.is(bed.gauge('batchesInFlight'), 2)
  bed.request({ kind: 'cancel', job })
  t.is(bed.jobs.get(job)?.ended, null)
  bed.complete(0)
  t.is(bed.jobs.get(job)?.ended, null)
  bed.complete(0)
  t.is(bed.jobs.get(job)?.ended, ERROR_CODES.cancelled)
  t.is(bed.reads.length, 2)
  settle(bed)
})

test('close with both slots busy waits for them', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = Array.from({ length: 2 }, () => bed.place(PAGE, 0, 1) as Block)
  for (const block of blocks) bed.store(block)
  bed.restore(
    0,
    blocks.map((block) => ({ block })),
  )
  bed.request({ kind: 'close-worker', worker: 0 })
  t.deepEqual(bed.closed, [])
  bed.finish()
  t.deepEqual(bed.closed, [0])
})

test('a job keeps its pages until its copy and its write have ended, whichever is last', (t) => {
  for (const last of ['copy', 'write'] as const) {
    const bed = new StagingBed()
    bed.openWorker(0)
    const job = bed.write(0, [bed.place(PAGE, 0) as Block])
    const other = () => heads(bed).findIndex(({ effect }) => effect.kind !== last)
    bed.complete(other())
    t.is(bed.jobs.get(job)?.ended, null, last)
    bed.complete(0)
    t.is(bed.jobs.get(job)?.ended, ERROR_CODES.ok, last)
  }
})

test('a job ends with its own copy and write: the copies of a later one, on the same stream, do not hold it', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const first = bed.write(0, [bed.place(PAGE, 0) as Block])
  const second = bed.write(0, [bed.place(PAGE, 0) as Block])
  t.is(bed.gauge('copiesInFlight'), 2)
  for (const kind of ['copy', 'write'] as const)
    bed.complete(heads(bed).findIndex(({ effect }) => effect.kind === kind))
  t.is(bed.jobs.get(first)?.ended, ERROR_CODES.ok)
  t.is(bed.gauge('copiesInFlight'), 1)
  t.is(bed.jobs.get(second)?.ended, null)
  settle(bed)
})

test('a write that waits has the slot after four reads, however many restores there are', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const restores = Array.from({ length: 8 }, () => bed.place(PAGE, 1, 1) as Block)
  for (const block of restores) {
    bed.store(block)
    bed.restore(0, [{ block }])
  }
  bed.write(0, [bed.place(PAGE, 0) as Block])
  const inFlight = () => bed.operations.filter(({ slot }) => slot >= 0).map(({ effect }) => effect.kind)
  while (!inFlight().includes('write')) bed.complete(heads(bed).findIndex(({ slot }) => slot >= 0))
  // Two had the slots before the write came.
  t.is(bed.reads.length, 2 + READ_BURST)
  settle(bed)
})

test('a short write fails its object and what follows; what was written before stays', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const blocks = Array.from({ length: 3 }, () => bed.place(PAGE, 0) as Block)
  const job = bed.write(0, blocks)
  const write = () => heads(bed).findIndex(({ effect }) => effect.kind === 'write')
  bed.complete(write())
  bed.complete(write(), 'short')
  settle(bed)
  const record = bed.jobs.get(job)
  t.true(record?.kind === 'write')
  if (record?.kind !== 'write') return
  t.deepEqual(record.objects, [ERROR_CODES.ok, ERROR_CODES.io_short, ERROR_CODES.cancelled])
  t.is(record.copied, ERROR_CODES.ok)
  t.is(bed.gauge('writeFailures'), 1)
  t.deepEqual(bed.routeFailures, [-5])
})

test('a buffer that is not registered fails the jobs that wait, and the next job tries again', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  bed.openCode = -5016
  const block = bed.place(PAGE, 0) as Block
  bed.store(block)
  const first = bed.restore(0, [{ block }])
  t.is(bed.jobs.get(first)?.ended, ERROR_CODES.io_open_failed)
  t.deepEqual(bed.routeFailures, [-5016])
  bed.openCode = 0
  const second = bed.restore(0, [{ block }])
  settle(bed)
  t.is(bed.jobs.get(second)?.ended, ERROR_CODES.ok)
})

test('physical bytes are counted, alignment included, and seconds from submission to the end of the scatter', (t) => {
  const bed = new StagingBed()
  bed.openWorker(0)
  const block = bed.place(0, 0) as Block
  bed.store(block)
  bed.restore(0, [{ block }])
  bed.tick(40)
  bed.complete(0)
  bed.tick(2)
  bed.complete(0)
  t.is(bed.gauge('readBytes'), 12 * KIB)
  t.is(bed.gauge('stagingBytes'), 2 * BED_SLOT_BYTES)
  t.deepEqual(bed.tally.observed[0], [42])
  settle(bed)
})
