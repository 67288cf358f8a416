import test from 'ava'
import type { Context } from '../../../src/manager/context.js'
import type { Operation, Session } from '../../../src/manager/sessions/session.js'
import { checkSlot, occupySlot, releaseSlot } from '../../../src/manager/sessions/slots.js'
import { isRefusal } from '../../../src/shared/base/refusal.js'
import { SLOT_STATE } from '../../../src/shared/layout/slot-states.js'
import { slotWord } from '../../../src/shared/layout/wire/slots.js'

/** One bound session with two slots; `words` are the Manager's words as any thread of it wrote them. */
function bound() {
  const words = [0, 0]
  const session = {
    phase: 'bound',
    hold: { slotTable: { slots: 7 } },
    slots: words.map(() => ({ generation: 0, operation: null })),
    operations: new Set<Operation>(),
  } as unknown as Session
  const context = {
    ports: { slotWord: (_: number, slot: number) => words[slot] },
    out: [] as unknown[],
    sessions: { has: () => true },
  } as unknown as Context
  const start = (slot: number, slotGeneration: number): Operation => {
    const operation: Operation = { session, slot, slotGeneration, cancel: () => {} }
    occupySlot(context, operation)
    words[slot] = slotWord(slotGeneration, SLOT_STATE.running)
    return operation
  }
  const refusal = (slot: number, generation: number) => {
    const answer = checkSlot(context, session, slot, generation)
    return answer !== null && isRefusal(answer) ? answer.error : null
  }
  return { words, session, context, start, refusal }
}

test('slots: a slot is refused while its operation runs, and free when it was released', (t) => {
  const { start, refusal, context } = bound()
  const first = start(0, 5)
  t.is(refusal(0, 6), 'slot_busy')
  t.is(refusal(1, 1), null)
  releaseSlot(context, first)
  t.is(refusal(0, 5), 'slot_stale_generation')
  t.is(refusal(0, 6), null)
  t.is(refusal(2, 1), 'slot_out_of_range')
})

test('slots: a slot that its lane has ended may be used again before the lane reports', (t) => {
  const { words, session, start, refusal, context } = bound()
  const first = start(0, 5)
  for (const state of [SLOT_STATE.done, SLOT_STATE.failed, SLOT_STATE.cancelled]) {
    words[0] = slotWord(5, state)
    t.is(refusal(0, 6), null)
    t.is(refusal(0, 5), 'slot_stale_generation')
  }
  const second = start(0, 6)
  t.is(session.operations.size, 2, 'the first is open until its reply')
  releaseSlot(context, first)
  t.is(session.slots[0]?.operation, second, 'the late reply of the first leaves the slot to the second')
  t.is(refusal(0, 7), 'slot_busy')
  releaseSlot(context, second)
  t.is(refusal(0, 7), null)
  t.is(session.operations.size, 0)
})

test('slots: the end of an earlier generation frees nothing, and no operation ends twice', (t) => {
  const { words, start, refusal, context } = bound()
  const first = start(1, 9)
  words[1] = slotWord(8, SLOT_STATE.done)
  t.is(refusal(1, 10), 'slot_busy')
  releaseSlot(context, first)
  t.throws(() => releaseSlot(context, first), { message: /an operation ends once/ })
})
