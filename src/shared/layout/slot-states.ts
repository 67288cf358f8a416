import { ERROR_CODES } from '../base/errors.js'

/** States of a completion slot's word: generation * 65536 + state. Every terminal state implies drained. */
export const SLOT_STATE = { free: 0, submitted: 1, running: 2, done: 3, failed: 4, cancelled: 5 } as const

/** A state in which a slot may be finished. */
export type TerminalSlotState = typeof SLOT_STATE.done | typeof SLOT_STATE.failed | typeof SLOT_STATE.cancelled

/** The state that a slot ends in when its job ends with `status`, an ERROR_CODES number. */
export function terminalStateOf(status: number): TerminalSlotState {
  if (status === ERROR_CODES.ok) return SLOT_STATE.done
  return status === ERROR_CODES.cancelled ? SLOT_STATE.cancelled : SLOT_STATE.failed
}
