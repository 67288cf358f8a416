import test from 'ava'
import fc from 'fast-check'
import type { SlotLines } from '../../src/client/link.js'
import { type Operation, Operations } from '../../src/client/operations.js'
import { CapacityError, ClosedError } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { SLOT_GENERATION_MAX, slotStateOf, slotWord } from '../../src/shared/layout/wire/slots.js'

/**
 * Operations against a naive model of who owns which line: the Manager from submit until it says a terminal state,
 * the request is refused, or its process ends. Freeing a line that the Manager owns is the one thing that must not be.
 */

const SLOTS = 3

/** Lines in plain memory that know the model. */
class ModelLines implements SlotLines {
  readonly words = new Float64Array(SLOTS)
  /** Generation that the Manager owns, or 0. */
  readonly owned = new Float64Array(SLOTS)
  readonly last = new Float64Array(SLOTS)
  breach: string | null = null

  submit(index: number, generation: number): void {
    if (this.owned[index] !== 0) this.breach ??= `line ${index} was submitted while owned`
    if (generation <= (this.last[index] as number)) this.breach ??= `generation ${generation} came back`
    this.owned[index] = generation
    this.last[index] = generation
  }
  raiseFence(): void {}
  free(index: number, generation: number): void {
    if (this.owned[index] === generation) this.breach ??= `line ${index} was freed while generation ${generation} runs`
  }
  poll(index: number): number {
    return this.words[index] as number
  }
  close(): void {}
}

/** Two twins of a client that believe what they should not, as lines that lie to the real one. */
const TWINS = {
  'takes any terminal word for its own': (lines: ModelLines): SlotLines => ({
    submit: (i, g) => lines.submit(i, g),
    raiseFence: () => {},
    free: (i, g) => lines.free(i, g),
    poll: (i) => slotWord(lines.last[i] as number, slotStateOf(lines.poll(i))),
    close: () => {},
  }),
  'takes running for done': (lines: ModelLines): SlotLines => ({
    submit: (i, g) => lines.submit(i, g),
    raiseFence: () => {},
    free: (i, g) => lines.free(i, g),
    poll: (i) => {
      const word = lines.poll(i)
      return slotStateOf(word) === SLOT_STATE.running ? word - SLOT_STATE.running + SLOT_STATE.done : word
    },
    close: () => {},
  }),
}

const action = fc.record({
  what: fc.constantFrom('submit', 'run', 'finish', 'stale', 'refuse', 'poll', 'exit'),
  slot: fc.nat(SLOTS - 1),
  state: fc.constantFrom(SLOT_STATE.done, SLOT_STATE.failed, SLOT_STATE.cancelled),
})

async function run(
  actions: readonly { what: string; slot: number; state: number }[],
  liesOf: (lines: ModelLines) => SlotLines = (lines) => lines,
): Promise<string | null> {
  const lines = new ModelLines()
  const operations = new Operations(liesOf(lines), SLOTS)
  const current = new Map<number, Operation>()
  const ended = new Set<Operation>()
  let submitted = 0
  for (const { what, slot, state } of actions) {
    const owned = lines.owned[slot] as number
    if (what === 'submit') {
      try {
        const operation = operations.submit(++submitted)
        current.set(operation.slot, operation)
        operation.ended.catch(() => {}).finally(() => ended.add(operation))
      } catch (error) {
        if (!(error instanceof CapacityError)) return `threw ${String(error)}`
        if (operations.outstanding < SLOTS) return 'refused a line although one was free'
      }
    } else if (what === 'run' && owned > 0) {
      lines.words[slot] = slotWord(owned, SLOT_STATE.running)
    } else if (what === 'finish' && owned > 0) {
      lines.words[slot] = slotWord(owned, state)
      lines.owned[slot] = 0
    } else if (what === 'stale' && owned > 1) {
      lines.words[slot] = slotWord(owned - 1, state)
    } else if (what === 'refuse' && owned > 0) {
      lines.owned[slot] = 0
      operations.refuse(current.get(slot) as Operation, new ClosedError('session_closed', 'refused'))
    } else if (what === 'poll') {
      operations.poll()
    }
    if (lines.breach !== null) return lines.breach
  }
  lines.owned.fill(0)
  operations.abandon(new ClosedError('manager_gone', 'gone'))
  operations.close()
  await new Promise<void>((resolve) => setImmediate(resolve))
  for (const operation of current.values()) if (!ended.has(operation)) return 'an operation never ended'
  return lines.breach
}

const programs = fc.array(action, { maxLength: 40 })

test('operations: no line is freed or used again while the Manager may write through it', async (t) => {
  await fc.assert(
    fc.asyncProperty(programs, async (actions) => {
      const breach = await run(actions)
      if (breach !== null) throw new Error(breach)
    }),
    { numRuns: 500 },
  )
  t.pass()
})

for (const [name, liesOf] of Object.entries(TWINS)) {
  test(`operations: the same programs catch a twin that ${name}`, async (t) => {
    const result = await fc.check(
      fc.asyncProperty(programs, async (actions) => (await run(actions, liesOf)) === null),
      { numRuns: 2000, seed: 3 },
    )
    t.true(result.failed)
  })
}

test('operations: a line whose generations are used up is retired, never wrapped', (t) => {
  const lines = new ModelLines()
  const operations = new Operations(lines, 1, SLOT_GENERATION_MAX - 1)
  const last = operations.submit(1)
  t.is(last.generation, SLOT_GENERATION_MAX)
  lines.owned[0] = 0
  lines.words[0] = slotWord(SLOT_GENERATION_MAX, SLOT_STATE.done)
  t.true(operations.poll())
  const error = t.throws(() => operations.submit(2), { instanceOf: CapacityError })
  t.is(error?.values['retired'], 1)
})
