import { SLOT_STATE, type TerminalSlotState } from '../slot-states.js'

/**
 * Completion slots: two sealed memfds a session, one 64-byte line a slot in each. Each word has one writer.
 *
 *   client's file   0            8            16           24 … 63
 *                  +------------+------------+------------+----------+
 *                  | u64 word   | u64 op id  | u64 fence  | 0        |   written by the client alone
 *                  +------------+------------+------------+----------+
 *   manager's file  0        8        16      20       24      32       40      48       56      60
 *                  +--------+--------+-------+--------+-------+--------+-------+--------+-------+-----+
 *                  | word   | op id  | error | first  | bytes | admit  | done  | layers | CRC32 | 0   |
 *                  | u64    | u64    | u32   | failed | u64   | ns u64 | ns    | u64    | u32   | u32 |
 *                  +--------+--------+-------+--------+-------+--------+-------+--------+-------+-----+
 *
 * word = generation * 65536 + state. The payload is written first, the word last with a release store; CRC32 covers
 * bytes 8 … 55, so that a reader without load-acquire re-reads until word, payload and CRC agree. A terminal state
 * says that nothing native touches the slot's pages any more. A client's time-out says nothing of the kind.
 */

export const SLOT_BYTES = 64
/** Factor between generation and state in a word. */
export const SLOT_STATES = 65536
/** Words are JavaScript numbers, so generations end at 2^37 - 1; a client that gets there is refused, never wrapped. */
export const SLOT_GENERATION_MAX = 2 ** 37 - 1

/** Byte offsets in a line of the client's file. */
export const CLIENT_SLOT = { word: 0, opId: 8, fence: 16 } as const
/** Byte offsets in a line of the manager's file. */
export const MANAGER_SLOT = {
  word: 0,
  opId: 8,
  errorCode: 16,
  firstFailed: 20,
  bytes: 24,
  admitNs: 32,
  doneNs: 40,
  layers: 48,
  crc32: 56,
} as const
/** First byte and end of what the CRC covers. */
export const SLOT_CRC_START = 8
export const SLOT_CRC_END = 56
/** `firstFailed` when nothing failed. */
export const NONE_FAILED = 0xffffffff

export function slotWord(generation: number, state: number): number {
  return generation * SLOT_STATES + state
}
export function slotGeneration(word: number): number {
  return Math.floor(word / SLOT_STATES)
}
export function slotStateOf(word: number): number {
  return word % SLOT_STATES
}
/** True when nothing native touches the slot's pages any more. */
export function isTerminal(state: number): state is TerminalSlotState {
  return state === SLOT_STATE.done || state === SLOT_STATE.failed || state === SLOT_STATE.cancelled
}
