import { type TerminalSlotState, terminalStateOf } from './slot-states.js'
import { NONE_FAILED } from './wire/slots.js'

/** All that a finisher writes into a slot, once, when nothing native touches its pages any more. */
export interface SlotResult {
  readonly slots: number
  readonly slot: number
  readonly slotGeneration: number
  readonly state: TerminalSlotState
  readonly errorCode: number
  /** Index of the first block of the request that failed, or NONE_FAILED. */
  readonly firstFailed: number
  readonly bytes: number
  readonly admitUs: number
}

/** A slot in its table, in the life that its job has. */
interface SlotPlace {
  readonly slots: number
  readonly slot: number
  readonly slotGeneration: number
}

/** How a job ends. */
interface SlotEnding {
  /** An ERROR_CODES number. */
  readonly status: number
  /** Smallest block that failed; below 0: none, or nobody knows which. */
  readonly firstFailed: number
  readonly bytes: number
  readonly admitUs: number
}

/** What ends the slot of a job: the one effect of its kind in every lane that finishes slots. */
export type FinishSlot = { readonly kind: 'finish-slot' } & SlotResult

/** The effect that ends the slot of a job. */
export function finishSlot(place: SlotPlace, { status, firstFailed, bytes, admitUs }: SlotEnding): FinishSlot {
  const { slots, slot, slotGeneration } = place
  return {
    kind: 'finish-slot',
    slots,
    slot,
    slotGeneration,
    state: terminalStateOf(status),
    errorCode: status,
    firstFailed: firstFailed < 0 ? NONE_FAILED : firstFailed,
    bytes,
    admitUs,
  }
}
