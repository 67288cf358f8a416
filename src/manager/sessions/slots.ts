import { invariant } from '../../shared/base/invariant.js'
import { type Refusal, refuse } from '../../shared/base/refusal.js'
import { SLOT_STATE, type TerminalSlotState } from '../../shared/layout/slot-states.js'
import { isTerminal, NONE_FAILED, slotGeneration, slotStateOf } from '../../shared/layout/wire/slots.js'
import type { Context } from '../context.js'
import { settle } from './leaving.js'
import type { Operation, Session, SlotUse } from './session.js'

/**
 * A client picks a slot and a generation greater than every earlier one of that slot. Refused without side effects:
 * a slot out of range, one that still has an operation, a generation seen before.
 */
export function checkSlot(context: Context, session: Session, slot: number, generation: number): Refusal | null {
  const use = session.slots[slot]
  if (use === undefined) {
    return refuse('slot_out_of_range', `Cannot use slot ${slot}: the session has ${session.slots.length}`, { slot })
  }
  if (use.operation !== null && !endedByLane(context, session, slot, use)) {
    return refuse('slot_busy', `Cannot use slot ${slot}: its operation of generation ${use.generation} has not ended`, {
      slot,
      generation: use.generation,
    })
  }
  if (generation <= use.generation) {
    return refuse(
      'slot_stale_generation',
      `Cannot use generation ${generation} of slot ${slot}: ${use.generation} was used before`,
      { slot, generation, used: use.generation },
    )
  }
  return null
}

/**
 * A lane ends the slot of a restore itself and then reports: a quick client may use the slot again before that reply
 * is here. Everything of the old operation has drained by then; only our books still have it.
 */
function endedByLane(context: Context, session: Session, slot: number, use: SlotUse): boolean {
  if (session.hold === null) return false
  const word = context.ports.slotWord(session.hold.slotTable.slots, slot)
  return slotGeneration(word) === use.generation && isTerminal(slotStateOf(word))
}

/** The slot belongs to `operation` from here until it ends; its word says RUNNING. Call after checkSlot. */
export function occupySlot(context: Context, operation: Operation): void {
  const { session, slot, slotGeneration } = operation
  const use = session.slots[slot]
  invariant(use !== undefined && session.hold !== null, 'a slot is checked before it is used')
  use.generation = slotGeneration
  use.operation = operation
  session.operations.add(operation)
  context.out.push({
    kind: 'slot-state',
    slots: session.hold.slotTable.slots,
    slot,
    generation: slotGeneration,
    state: SLOT_STATE.running,
  })
}

/** Writes the terminal state of an operation that no lane finished. Everything of it must have drained. */
export function finishSlot(
  context: Context,
  operation: Operation,
  state: TerminalSlotState,
  errorCode: number,
  bytes: number,
  admitUs: number,
  firstFailed = NONE_FAILED,
): void {
  const hold = operation.session.hold
  invariant(hold !== null, 'a session keeps its slots while operations are open')
  context.out.push({
    kind: 'slot-finish',
    slots: hold.slotTable.slots,
    slot: operation.slot,
    generation: operation.slotGeneration,
    state,
    errorCode,
    firstFailed,
    bytes,
    admitUs,
    doneUs: context.nowUs,
  })
}

/** The operation ended and its terminal state is written: the client may use the slot again. */
export function releaseSlot(context: Context, operation: Operation): void {
  const { session, slot } = operation
  const use = session.slots[slot]
  const open = session.operations.delete(operation)
  invariant(use !== undefined && open, 'an operation ends once', { slot })
  // The client may have given the slot to the next one already: see endedByLane.
  if (use.operation === operation) use.operation = null
  settle(context, session)
}
