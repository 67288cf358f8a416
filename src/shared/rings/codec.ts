import { InvariantError } from '../base/errors.js'
import { EMPTY_LIST, type RawRecord, RECORD_FIELDS } from '../layout/records.js'

/**
 * Between a closed union of messages and the record that a ring carries. `encode` starts from a cleared record and
 * may let `record.list` point at the message's list: the ring copies it. `decode` may keep windows of the ring's
 * memory in the message: they end when the record is released.
 */
export interface MessageCodec<M> {
  encode(message: M, record: RawRecord): void
  decode(record: RawRecord): M
}

/** An empty record in private memory: scratch of one ring end. */
export function rawRecord(): RawRecord {
  return { kind: 0, tag: 0, fields: new Float64Array(RECORD_FIELDS), list: EMPTY_LIST }
}

/** Makes a record as if nobody had written it. */
export function clearRecord(record: RawRecord): void {
  const { fields } = record
  record.kind = 0
  record.tag = 0
  // Stores, not fill(): this runs once a message.
  fields[0] = 0
  fields[1] = 0
  fields[2] = 0
  fields[3] = 0
  fields[4] = 0
  fields[5] = 0
  record.list = EMPTY_LIST
}

/** Field `index` of a record. */
export function fieldOf(record: RawRecord, index: number): number {
  return record.fields[index] as number
}

/** A record of a kind that its codec does not know: both ends are built from one tree, so only a bug makes it. */
export function unknownKind(codec: string, kind: number): never {
  throw new InvariantError(`Broken invariant: ${codec} knows every kind of its ring`, { kind })
}
