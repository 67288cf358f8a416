import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { KIB } from '../../../src/shared/base/units.js'
import { BED_SLOT_BYTES, type Block, type Outcome, StagingBed } from '../../support/staging-bed.js'

type Command =
  | { act: 'restore'; worker: number; blocks: BlockSpec[]; cut: number; fence: number }
  | { act: 'write'; worker: number; blocks: BlockSpec[]; cut: number; fence: number }
  | { act: 'again'; worker: number; picks: number[] }
  | { act: 'complete'; pick: number; outcome: Outcome }
  | { act: 'fence'; pick: number }
  | { act: 'cancel'; pick: number }
  | { act: 'stray'; tag: number }

interface BlockSpec {
  template: number
  file: number
  gapPages: number
  resident: boolean
}

const block = fc.record({
  template: fc.nat({ max: 2 }),
  file: fc.nat({ max: 1 }),
  gapPages: fc.constantFrom(0, 0, 0, 2),
  resident: fc.constantFrom(false, false, false, true),
})
const job = {
  worker: fc.nat({ max: 1 }),
  blocks: fc.array(block, { maxLength: 6 }),
  cut: fc.nat({ max: 9 }),
  fence: fc.constantFrom(0, 0, 3),
}
const pick = fc.nat({ max: 99 })
const well = fc.record({ act: fc.constant('complete' as const), pick, outcome: fc.constant<Outcome>('ok') })
const FAULTS: Outcome[] = ['short', 'lost', 'io-error', 'not-registered', 'rotten', 'stale']
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ act: fc.constant('restore' as const), ...job }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('write' as const), ...job }) },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('again' as const),
      worker: job.worker,
      picks: fc.array(pick, { maxLength: 5 }),
    }),
  },
  { weight: 12, arbitrary: well },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('complete' as const), pick, outcome: fc.constantFrom(...FAULTS) }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('fence' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('cancel' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('stray' as const), tag: fc.constantFrom(-7, 3, 2 ** 30 + 5) }) },
)

/** Write jobs of one worker that have not ended: the manager keeps them within its permits. */
function writesOpen(bed: StagingBed): number {
  return [...bed.jobs.values()].filter(({ kind, ended }) => kind === 'write' && ended === null).length
}

function run(bed: StagingBed, commands: readonly Command[], faults = true): void {
  bed.openWorker(0)
  bed.openWorker(1)
  const stored: Block[] = []
  for (const each of commands) obey(bed, each, stored, faults)
}

function obey(bed: StagingBed, command: Command, stored: Block[], faults: boolean): void {
  switch (command.act) {
    case 'restore': {
      const blocks = placed(bed, command.blocks)
      for (const { block } of blocks) bed.store(block)
      stored.push(...blocks.map(({ block }) => block))
      bed.restore(command.worker, blocks, command.fence, command.cut)
      return
    }
    case 'again': {
      if (stored.length === 0) return
      const picked = command.picks.map((at) => ({ block: stored[at % stored.length] as Block }))
      bed.restore(command.worker, picked)
      return
    }
    case 'write':
      if (writesOpen(bed) >= 8) return
      bed.write(
        command.worker,
        placed(bed, command.blocks).map(({ block }) => block),
        command.fence,
        command.cut,
      )
      return
    case 'complete':
      bed.nowUs += 3
      bed.complete(command.pick, faults ? command.outcome : 'ok')
      return
    case 'fence': {
      const jobs = [...bed.jobs.keys()]
      const job = jobs[command.pick % Math.max(1, jobs.length)]
      if (job !== undefined) bed.reachFence(job, 3)
      return
    }
    case 'cancel': {
      if (!faults) return
      const jobs = [...bed.jobs.keys()]
      const job = jobs[command.pick % Math.max(1, jobs.length)]
      if (job !== undefined) bed.request({ kind: 'cancel', job })
      return
    }
    case 'stray':
      bed.step({ kind: 'completed', tag: command.tag, result: 0 })
      return
  }
}

function placed(bed: StagingBed, specs: readonly BlockSpec[]): { block: Block; resident: boolean }[] {
  return specs.flatMap(({ template, file, gapPages, resident }) => {
    const block = bed.place(template, file, gapPages)
    return block === null ? [] : [{ block, resident }]
  })
}

/** Lets everything end and requires that nothing is left. */
function settle(bed: StagingBed): void {
  bed.finish()
  for (const [number, { ended }] of bed.jobs) if (ended === null) throw new Error(`job ${number} never ended`)
  bed.request({ kind: 'close-worker', worker: 0 })
  bed.request({ kind: 'stop' })
  if (bed.stopped !== 1 || !bed.machine.stopped || bed.closed[0] !== 0) throw new Error('the lane does not stop once')
  for (const name of ['batchesInFlight', 'writesInFlight', 'copiesInFlight', 'jobsActive', 'jobsFenced'] as const) {
    if (bed.gauge(name) !== 0) throw new Error(`${name} is ${bed.gauge(name)} at rest`)
  }
  if (bed.gauge('stagingBytes') !== 0) throw new Error('staging memory is left')
  bed.checkGuards()
}

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

// Twins: planted bugs of others that the same property must catch.

function catches(t: ExecutionContext, bed: () => StagingBed): void {
  const found = new Set<string>()
  const failed = fc.check(
    fc.property(fc.array(command, { maxLength: 60, size: 'max' }), (commands) => {
      const each = bed()
      try {
        run(each, commands)
        settle(each)
      } catch (error) {
        found.add(error instanceof Error ? error.message : String(error))
        throw error
      }
    }),
    { numRuns: 500, endOnFailure: true },
  )
  t.true(failed.failed)
  t.true(
    [...found].some((message) => /wrong bytes|other bytes/.test(message)),
    [...found].join('; '),
  )
}

test('twin (dynamo#15079): a failed registration that is ignored hands out the bytes of somebody else', (t) => {
  catches(
    t,
    () => new StagingBed({ distort: (result, wanted) => (result === -5027 ? wanted : result), unverified: true }),
  )
})

test('twin (nixl#2146): a completion whose status is not read makes a failed read or write a success', (t) => {
  catches(t, () => new StagingBed({ distort: (result, wanted) => (result < 0 ? wanted : result), unverified: true }))
})

test('twin (MagnumIO#18): an operation whose count is ignored makes a short one a success', (t) => {
  catches(t, () => new StagingBed({ distort: (result, wanted) => (result >= 0 ? wanted : result), unverified: true }))
})

test('checksums catch the same three bugs on a read: nothing wrong reaches a page', (t) => {
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
