import test from 'ava'
import fc from 'fast-check'
import { READ_BURST, StagingTurns } from '../../../src/shared/scheduling/staging-turns.js'

type Command = { act: 'read' } | { act: 'write' } | { act: 'take'; again: boolean } | { act: 'written' }

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ act: fc.constant('read' as const) }),
  fc.record({ act: fc.constant('read' as const) }),
  fc.record({ act: fc.constant('write' as const) }),
  fc.record({ act: fc.constant('take' as const), again: fc.boolean() }),
  fc.record({ act: fc.constant('take' as const), again: fc.boolean() }),
  fc.record({ act: fc.constant('written' as const) }),
)

interface Turns {
  addRead(job: number): void
  addWrite(job: number): void
  take(writeInFlight: boolean): { kind: 'read' | 'write'; job: number } | null
}

/** Plays commands and compares with two plain queues and the reads that passed the oldest waiting write. */
function play(turns: Turns, commands: readonly Command[]): void {
  const reads: number[] = []
  const writes: number[] = []
  let next = 1
  let passed = 0
  let writing = false
  for (const each of commands) {
    if (each.act === 'written') writing = false
    else if (each.act === 'read') {
      turns.addRead(next)
      reads.push(next++)
    } else if (each.act === 'write') {
      turns.addWrite(next)
      writes.push(next++)
    } else {
      const turn = turns.take(writing)
      const writeDue = !writing && writes.length > 0 && (reads.length === 0 || passed >= READ_BURST)
      const expected = writeDue ? 'write' : reads.length > 0 ? 'read' : null
      if ((turn?.kind ?? null) !== expected) throw new Error(`a ${turn?.kind} goes where a ${expected} should`)
      if (turn === null) continue
      const queue = turn.kind === 'read' ? reads : writes
      if (queue.shift() !== turn.job) throw new Error('jobs do not rotate')
      if (turn.kind === 'read') passed += writes.length > 0 ? 1 : 0
      else {
        passed = 0
        writing = true
      }
      if (!each.again) continue
      queue.push(turn.job)
      if (turn.kind === 'read') turns.addRead(turn.job)
      else turns.addWrite(turn.job)
    }
  }
}

test('reads first, a waiting write after four of them, never two writes, jobs in rotation', (t) => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200, size: 'max' }), (commands) =>
      play(new StagingTurns<number, number>(), commands),
    ),
  )
  t.pass()
})

test('twin: a turn that forgets how many reads have passed starves a write, and is caught', (t) => {
  class Starving extends StagingTurns<number, number> {
    override take(writeInFlight: boolean) {
      return this.readsWaiting > 0 ? super.take(true) : super.take(writeInFlight)
    }
  }
  t.throws(() =>
    fc.assert(
      fc.property(fc.array(command, { maxLength: 200, size: 'max' }), (commands) => play(new Starving(), commands)),
    ),
  )
})
