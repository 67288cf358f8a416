import type { SlotLines } from '../../src/client/link.js'
import { SLOT_RESULT } from '../../src/client/link.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { isTerminal, slotStateOf, slotWord } from '../../src/shared/layout/wire/slots.js'
import type { Cells } from '../../src/shared/rings/cells.js'

/**
 * The slot files over cells, line by line what the addon does: slot_lines.cc for the client, slot_table.cc for the
 * Manager, python/orbitkv/slots.py for the other client. Every load and store of theirs is an atomic operation here.
 * Of the payload's seven words three stand for all: op id (read from the client), bytes, CRC; the other four are
 * written and read by the same loops. A line is four words in the client's file and four in the Manager's.
 */

export const LINE = 4
const WORD = 0
const OP_ID = 1
const FENCE = 2
const BYTES = 2
const CRC = 3
/** Eight in production. A third attempt starts as the second did. */
const READS_MAX = 2

/** Of what the payload says; zlib's in production. Never 0, so that an empty line does not pass. */
export function crcOf(opId: number, bytes: number): number {
  return ((Math.imul(opId, 0x9e3779b1) ^ Math.imul(bytes + 1, 0x85ebca77)) >>> 1) | 1
}

/** A terminal word with its payload, or any other word. */
export interface Read {
  readonly word: number
  readonly opId: number
  readonly bytes: number
}

/** How a client reads a line: slot_lines.cc Poll, or slots.py. null: ask again. */
export type Reader = (manager: Cells, slot: number, expects: Expected, choose: (count: number) => number) => Read | null

/** What a client that reads on behalf of an operation knows of it. */
export interface Expected {
  readonly generation: number
  readonly opId: number
}

/** slot_lines.cc, SlotLines::Poll: word (acquire), payload, fence, the word again, CRC; a few times. */
export const pollInAddon: Reader = (manager, slot) => {
  const at = slot * LINE
  for (let attempt = 0; attempt < READS_MAX; attempt++) {
    const word = manager.load(at + WORD)
    if (!isTerminal(slotStateOf(word))) return { word, opId: 0, bytes: 0 }
    const opId = manager.load(at + OP_ID)
    const bytes = manager.load(at + BYTES)
    const crc = manager.load(at + CRC)
    const again = manager.load(at + WORD)
    if (again === word && crc === crcOf(opId, bytes)) return { word, opId, bytes }
  }
  return null
}

/**
 * slots.py, SlotLines.poll: plain loads, so that a machine that reorders loads may have read the payload before the
 * first word, or between the two. Only op id and generation together tie the payload to its word.
 */
export const pollInPython: Reader = (manager, slot, { generation, opId: expected }, choose) => {
  const at = slot * LINE
  const early = choose(2) === 1
  const payload = (): Read & { readonly crc: number } => ({
    word: 0,
    opId: manager.load(at + OP_ID),
    bytes: manager.load(at + BYTES),
    crc: manager.load(at + CRC),
  })
  for (let attempt = 0; attempt < READS_MAX; attempt++) {
    const before = early ? payload() : null
    const word = manager.load(at + WORD)
    if (word !== slotWord(generation, slotStateOf(word)) || !isTerminal(slotStateOf(word))) return null
    const { opId, bytes, crc } = before ?? payload()
    const again = manager.load(at + WORD)
    if (again === word && crc === crcOf(opId, bytes) && opId === expected) return { word, opId, bytes }
  }
  return null
}

/** slot_table.cc, SlotTable::Finish: the client's op id, payload with CRC, then the word, then the eventfd. */
export type Finisher = (
  client: Cells,
  manager: Cells,
  slot: number,
  word: number,
  bytes: number,
  hint: () => void,
) => void

export const finishInAddon: Finisher = (client, manager, slot, word, bytes, hint) => {
  const at = slot * LINE
  const opId = client.load(at + OP_ID)
  manager.store(at + OP_ID, opId)
  manager.store(at + BYTES, bytes)
  manager.store(at + CRC, crcOf(opId, bytes))
  manager.store(at + WORD, word)
  hint()
}

/** The client's lines over cells; `accepted` is told what each poll returned. */
export function linesOver(
  client: Cells,
  read: (slot: number) => Read | null,
  freed: (slot: number, generation: number) => void,
): SlotLines {
  return {
    submit: (slot, generation, opId, fence) => {
      client.store(slot * LINE + OP_ID, opId)
      client.store(slot * LINE + FENCE, fence)
      client.store(slot * LINE + WORD, slotWord(generation, SLOT_STATE.submitted))
    },
    raiseFence: (slot, fence) => client.store(slot * LINE + FENCE, fence),
    free: (slot, generation) => {
      freed(slot, generation)
      client.store(slot * LINE + WORD, slotWord(generation, SLOT_STATE.free))
    },
    poll: (slot, result) => {
      const read_ = read(slot)
      if (read_ === null) return -1
      result[SLOT_RESULT.opId] = read_.opId
      result[SLOT_RESULT.bytes] = read_.bytes
      return read_.word
    },
    close: () => {},
  }
}
