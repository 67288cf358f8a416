/**
 * The bytes of one ring record, shared by every ring of the process.
 *
 *   byte   0        4        8 … 55             56            60
 *        +--------+--------+------------------+-------------+-------------+
 *        | kind   | tag    | six float64      | list offset | list length |
 *        | int32  | int32  | (exact to 2^53)  | int32       | int32       |
 *        +--------+--------+------------------+-------------+-------------+
 *
 * A list is a run of float64 in the ring's descriptor arena: `list offset` and `list length` count float64.
 * The producer allocates it, the record hands it over, the consumer's tail frees it: a consumer reads or copies a
 * list before it releases the record.
 */
export const RECORD_BYTES = 64
export const RECORD_WORDS = RECORD_BYTES / 4
export const RECORD_DOUBLES = RECORD_BYTES / 8
export const RECORD_KIND_WORD = 0
export const RECORD_TAG_WORD = 1
/** Index of the first float64 field, in float64 units from the start of the record. */
export const RECORD_FIELD_DOUBLE = 1
export const RECORD_FIELDS = 6
export const RECORD_LIST_OFFSET_WORD = 14
export const RECORD_LIST_LENGTH_WORD = 15

/** A decoded list: a window of somebody's float64 memory, valid until the record is released. */
export interface List {
  readonly doubles: Float64Array
  readonly offset: number
  readonly length: number
}

/** The list of a message that carries none. */
export const EMPTY_LIST: List = { doubles: new Float64Array(0), offset: 0, length: 0 }

/** Wraps plain numbers as a list, for a sender that builds one message at a time. */
export function listOf(numbers: readonly number[]): List {
  return { doubles: Float64Array.from(numbers), offset: 0, length: numbers.length }
}

/** Element `index` of a list. */
export function listAt(list: List, index: number): number {
  return list.doubles[list.offset + index] as number
}

/** A message as the ring carries it: what every lane's messages.ts encodes to and decodes from. */
export interface RawRecord {
  kind: number
  tag: number
  /** Exactly six numbers; unused ones are 0. */
  readonly fields: Float64Array
  list: List
}
