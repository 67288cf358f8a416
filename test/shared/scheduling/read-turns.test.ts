import test from 'ava'
import fc from 'fast-check'
import { READ_EVERYTHING, type ReadLimits, ReadTurns } from '../../../src/shared/scheduling/read-turns.js'

interface Run {
  readonly bytes: readonly number[]
  readonly limits: ReadLimits
  /** How long each batch takes, and in which order its items end. */
  readonly tookUs: readonly number[]
  readonly stopAfter: number
}

const runs: fc.Arbitrary<Run> = fc.record({
  bytes: fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 40 }),
  limits: fc.record({
    batchBytes: fc.nat(60),
    batchesMax: fc.nat(5),
    deadlineUs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(200)),
  }),
  tookUs: fc.array(fc.nat(60), { minLength: 1, maxLength: 10 }),
  stopAfter: fc.oneof(fc.constant(99), fc.nat(4)),
})

/** What the limits say, computed at once: the batches as lists of items, and how it ended. */
function naive({ bytes, limits, tookUs, stopAfter }: Run): { batches: number[][]; late: boolean } {
  const batches: number[][] = []
  let nowUs = 0
  let next = 0
  while (next < bytes.length) {
    if (batches.length >= stopAfter) return { batches, late: false }
    if (nowUs >= limits.deadlineUs) return { batches, late: true }
    if (limits.batchesMax > 0 && batches.length === limits.batchesMax) return { batches, late: false }
    const batch = [next]
    let sum = bytes[next++] as number
    while (next < bytes.length && (limits.batchBytes === 0 || sum + (bytes[next] as number) <= limits.batchBytes)) {
      sum += bytes[next] as number
      batch.push(next++)
    }
    batches.push(batch)
    nowUs += tookUs[batches.length % tookUs.length] as number
  }
  return { batches, late: false }
}

function drive(turns: ReadTurns, { bytes, tookUs, stopAfter }: Run): { batches: number[][]; late: boolean } {
  const batches: number[][] = []
  let nowUs = 0
  turns.plan(bytes)
  for (;;) {
    if (batches.length >= stopAfter) turns.stop()
    const turn = turns.next(nowUs)
    if (turn === null) break
    batches.push(Array.from({ length: turn.end - turn.first }, (_, i) => turn.first + i))
    for (let left = turn.end - turn.first; left > 0; left--) {
      if (left < turn.end - turn.first && turns.next(nowUs) !== null) throw new Error('a batch overtakes another')
      turns.ended()
    }
    nowUs += tookUs[batches.length % tookUs.length] as number
  }
  if (!turns.settled) throw new Error('nothing is outstanding and it does not rest')
  return { batches, late: turns.late }
}

const equals = (make: (limits: ReadLimits) => ReadTurns) =>
  fc.property(runs, (run) => JSON.stringify(drive(make(run.limits), run)) === JSON.stringify(naive(run)))

test('ReadTurns: batches, their order and the stop are what the limits say', (t) => {
  fc.assert(
    equals((limits) => new ReadTurns(limits)),
    { numRuns: 2_000 },
  )
  t.pass()
})

test('broken twins: a deadline that is not looked at, a bound that lets one batch more through are caught', (t) => {
  const failed = (make: (limits: ReadLimits) => ReadTurns) =>
    fc.check(equals(make), { seed: 20, numRuns: 500, endOnFailure: true }).failed
  t.true(failed((limits) => new ReadTurns({ ...limits, deadlineUs: Number.POSITIVE_INFINITY })))
  t.true(failed((limits) => new ReadTurns({ ...limits, batchesMax: limits.batchesMax + 1 })))
  t.true(failed((limits) => new ReadTurns({ ...limits, batchBytes: limits.batchBytes * 2 })))
})

test('ReadTurns: a new plan replaces what was not submitted; what was submitted still ends', (t) => {
  const turns = new ReadTurns({ ...READ_EVERYTHING, batchBytes: 2 })
  turns.plan([1, 1, 1, 1])
  t.deepEqual(turns.next(0), { first: 0, end: 2 })
  turns.plan([5])
  t.is(turns.next(0), null, 'its batch is outstanding')
  turns.ended()
  turns.ended()
  t.deepEqual(turns.next(0), { first: 0, end: 1 }, 'a batch has at least one item')
  t.throws(
    () => {
      turns.ended()
      turns.ended()
    },
    { code: 'invariant' },
  )
})

test('ReadTurns: without batches a new plan is submitted while the old is outstanding', (t) => {
  const turns = new ReadTurns(READ_EVERYTHING)
  turns.plan([1, 1])
  t.deepEqual(turns.next(0), { first: 0, end: 2 })
  turns.plan([1])
  t.deepEqual(turns.next(0), { first: 0, end: 1 })
  t.is(turns.outstanding, 3)
})
