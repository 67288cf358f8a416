import test from 'ava'
import { SSD_WORKER_SERIES } from '../../../src/actors/ssd-worker/counters.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { CODEC_COUNT } from '../../../src/shared/codec/lane-series.js'
import { StagingBed } from '../../support/staging-bed.js'
import { type Block, CODED_TEMPLATE } from '../../support/staging-blocks.js'
import { run, settle } from '../../support/staging-commands.js'
import type { EncodeRecord } from '../../support/staging-jobs.js'

/** Publications under a codec: coded into an arena, held there, written from there. */

const OK = ERROR_CODES.ok

function opened(): StagingBed {
  const bed = new StagingBed()
  bed.openWorker(0)
  return bed
}
const coded = (bed: StagingBed, file = 0): Block => bed.place(CODED_TEMPLATE, file) as Block
const plain = (bed: StagingBed): Block => bed.place(0, 0) as Block
const record = (bed: StagingBed, job: number): EncodeRecord => bed.jobs.get(job) as EncodeRecord

/** Ends whatever copies and codes, until the job has said what came of it. */
function untilSaid(bed: StagingBed, job: number): void {
  while (record(bed, job).said === null) {
    if (!bed.complete(0)) throw new Error('nothing is in flight, and nothing was said')
  }
}

const kinds = (bed: StagingBed) => bed.operations.map(({ effect }) => effect.kind).sort()

test('a block is in DRAM when it is said, and on the SSD when it is written from the arena; raw bytes come from pages', (t) => {
  const bed = opened()
  const job = bed.encode(0, [coded(bed), plain(bed), coded(bed)])
  t.deepEqual(kinds(bed), ['copy', 'copy', 'encode'], 'raw copies go beside the one encoding')
  untilSaid(bed, job)
  t.deepEqual(record(bed, job).said, { status: OK, whole: [0, 1, 2] })
  t.is(bed.gauge('arenasHeld'), 1)
  t.is(bed.tally.at(SSD_WORKER_SERIES.length + CODEC_COUNT.encodeBatches), 1)
  t.is(bed.tally.at(SSD_WORKER_SERIES.length + CODEC_COUNT.encodedBytes), 800)
  t.true(bed.writeCodes(job))
  settle(bed)
  t.like(record(bed, job), { ended: OK, objects: [OK, OK, OK] })
  t.is(bed.gauge('objectsWritten'), 3)
})

test('blocks that a refused coding belongs to are not written, the others are', (t) => {
  const bed = opened()
  const job = bed.encode(0, [coded(bed), coded(bed)])
  for (let left = bed.operations.length; left > 0; left--) {
    const at = bed.operations.findIndex(({ effect }) => effect.kind === 'encode')
    // One stream: the oldest ends first.
    bed.complete(0, at === 0 ? 'refused' : 'ok')
  }
  t.deepEqual(record(bed, job).said, { status: OK, whole: [1] })
  bed.writeCodes(job)
  settle(bed)
  t.deepEqual(record(bed, job).objects, [OK])
})

test('the second encoding waits for the arena until the last chunk of the first has ended', (t) => {
  const bed = opened()
  const [first, second] = [bed.encode(0, [coded(bed)]), bed.encode(0, [coded(bed)])]
  untilSaid(bed, first)
  t.deepEqual(kinds(bed), [], 'the arena is held, so nothing of the second has begun')
  bed.writeCodes(first)
  t.deepEqual(kinds(bed), ['write'])
  bed.complete(0)
  t.is(record(bed, first).ended, OK)
  t.deepEqual(kinds(bed), ['copy', 'encode'])
  untilSaid(bed, second)
  bed.writeCodes(second)
  settle(bed)
  t.is(record(bed, second).ended, OK)
})

test('restores go on while codings are held', (t) => {
  const bed = opened()
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  const block = bed.place(3, 1) as Block
  bed.store(block)
  const restore = bed.restore(0, [{ block }, { block, resident: true }])
  while (bed.complete(0));
  t.is(bed.jobs.get(restore)?.ended, OK)
  t.is(record(bed, job).ended, null)
  bed.writeCodes(job)
  settle(bed)
})

test('nothing to write lets go of the arena', (t) => {
  const bed = opened()
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  bed.writeCodes(job, [])
  t.like(record(bed, job), { ended: OK, objects: [] })
  t.is(bed.gauge('arenasHeld'), 0)
  settle(bed)
})

test('codings that do not fit the arena are made without a hold, and the job ends with what it says', (t) => {
  const bed = opened()
  bed.holdsNothing = true
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  t.like(record(bed, job), { said: { status: OK, whole: null }, ended: OK, objects: [] })
  settle(bed)
})

test('a part without codings holds no arena and is written all the same', (t) => {
  const bed = opened()
  const job = bed.encode(0, [plain(bed)])
  untilSaid(bed, job)
  t.deepEqual(record(bed, job).said, { status: OK, whole: [0] })
  bed.writeCodes(job)
  settle(bed)
  t.deepEqual(record(bed, job).objects, [OK])
})

for (const [outcome, status] of [
  ['io-error', ERROR_CODES.io_copy_failed],
  ['no-room', ERROR_CODES.capacity_codec],
] as const) {
  test(`an encoding that ends with ${outcome} is said with its status, holds nothing, and the next one goes`, (t) => {
    const bed = opened()
    const job = bed.encode(0, [coded(bed)])
    while (bed.operations.length > 0) bed.complete(0, bed.operations[0]?.effect.kind === 'encode' ? outcome : 'ok')
    t.like(record(bed, job), { said: { status, whole: null }, ended: status, objects: [] })
    const next = bed.encode(0, [coded(bed)])
    untilSaid(bed, next)
    t.is(record(bed, next).said?.status, OK)
    settle(bed)
  })
}

test('a write that fails or comes short fails its block and those behind it, and lets go of the arena', (t) => {
  for (const [outcome, status, code] of [
    ['io-error', ERROR_CODES.io_write_failed, -5044],
    ['short', ERROR_CODES.io_short, -5],
  ] as const) {
    const bed = opened()
    const job = bed.encode(0, [coded(bed), coded(bed)])
    untilSaid(bed, job)
    bed.writeCodes(job)
    bed.complete(0, outcome)
    t.like(record(bed, job), { ended: status, objects: [status, ERROR_CODES.cancelled] })
    t.deepEqual(bed.routeFailures, [code])
    t.is(bed.gauge('arenasHeld'), 0)
    settle(bed)
  }
})

test('cancel in every state: what was submitted ends, the arena goes after that, and the end comes once', (t) => {
  const states: Record<string, (bed: StagingBed, job: number) => void> = {
    encoding: () => {},
    'half encoded': (bed) => bed.complete(0),
    held: untilSaid,
    writing: (bed, job) => {
      untilSaid(bed, job)
      bed.writeCodes(job)
    },
  }
  for (const [name, reach] of Object.entries(states)) {
    const bed = opened()
    const job = bed.encode(0, [coded(bed), coded(bed)])
    reach(bed, job)
    const before = bed.operations.length
    bed.cancel(job)
    t.is(bed.operations.length, before, `${name}: nothing starts`)
    if (before > 0) t.is(record(bed, job).ended, null, `${name}: not before it has ended`)
    while (bed.complete(0));
    t.is(record(bed, job).ended, ERROR_CODES.cancelled, name)
    settle(bed)
  }
})

test('an encoding whose fence is never reached holds up nobody, and ends when it is cancelled', (t) => {
  const bed = opened()
  const fenced = bed.encode(0, [coded(bed)], 3)
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  bed.writeCodes(job)
  while (bed.complete(0));
  t.is(record(bed, job).ended, OK)
  bed.cancel(fenced)
  t.like(record(bed, fenced), { ended: ERROR_CODES.cancelled, objects: [] })
  settle(bed)
})

test('stop and close: what is held is let go, what is written is written to its end', (t) => {
  for (const writing of [false, true]) {
    const bed = opened()
    const job = bed.encode(0, [coded(bed)])
    untilSaid(bed, job)
    if (writing) bed.writeCodes(job)
    bed.request({ kind: 'stop' })
    while (bed.complete(0));
    t.is(record(bed, job).ended, writing ? OK : ERROR_CODES.draining)
    t.is(bed.stopped, 1)
    t.true(bed.machine.stopped)
  }
  const bed = opened()
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  bed.request({ kind: 'close-worker', worker: 0 })
  t.deepEqual(bed.closed, [], 'a job that holds something is open')
  bed.writeCodes(job)
  while (bed.complete(0));
  t.deepEqual(bed.closed, [0])
})

test('staging that cannot be had fails encodings that wait, and the next one tries again', (t) => {
  const bed = new StagingBed()
  bed.openCode = -5013
  bed.openWorker(0)
  const job = bed.encode(0, [coded(bed)])
  t.like(record(bed, job), { ended: ERROR_CODES.io_open_failed })
  t.deepEqual(bed.routeFailures, [-5013])
  bed.openCode = 0
  const next = bed.encode(0, [coded(bed)])
  untilSaid(bed, next)
  settle(bed)
})

test('the bed catches an arena that is let go, or coded into, while its codings are wanted', (t) => {
  const bed = opened()
  const job = bed.encode(0, [coded(bed)])
  untilSaid(bed, job)
  bed.writeCodes(job)
  bed.releaseEarly(0)
  t.throws(() => bed.complete(0), { message: /that nobody holds/ })
})

test('any commands reach held codings, written ones and refused holds', (t) => {
  const bed = new StagingBed()
  const blocks = [{ template: CODED_TEMPLATE, file: 0, gapPages: 0, resident: false }]
  run(bed, [
    { act: 'encode', worker: 0, blocks, cut: 0, fence: 0 },
    { act: 'complete', pick: 0, outcome: 'ok' },
    { act: 'complete', pick: 0, outcome: 'ok' },
    { act: 'codes', pick: 0, places: [0] },
    { act: 'complete', pick: 0, outcome: 'ok' },
    { act: 'holds', nothing: true },
    { act: 'encode', worker: 1, blocks, cut: 0, fence: 0 },
  ])
  t.is(bed.gauge('objectsWritten'), 1)
  settle(bed)
})
