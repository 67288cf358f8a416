/** States of a completion slot's word: generation * 65536 + state. Every terminal state implies drained. */
export const SLOT_STATE = { free: 0, submitted: 1, running: 2, done: 3, failed: 4, cancelled: 5 } as const

/** A state in which a slot may be finished. */
export type TerminalSlotState = typeof SLOT_STATE.done | typeof SLOT_STATE.failed | typeof SLOT_STATE.cancelled

/** "No block failed" in a slot's first-failed word. */
export const NO_FIRST_FAILED = 0xffffffff
