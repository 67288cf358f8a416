import type { List } from '../../shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../shared/rings/codec.js'

/**
 * writeback: pinned DRAM to SSD, bounded by bytes, out-of-order. Its only client is the manager, which holds the
 * source granules and the reservation until `write-done`.
 */

/** Jobs that may be outstanding: the capacity of the completion ring. */
export const WRITES_OUTSTANDING_MAX = 256

export type WritebackRequest =
  /** `list`: WRITE descriptors, laid out one after the other from fileOffsetBytes. */
  | {
      readonly kind: 'write'
      readonly job: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly list: List
    }
  /** Bytes that may be in flight; the manager shrinks it while demand reads wait. */
  | { readonly kind: 'set-window'; readonly bytes: number }
  | { readonly kind: 'stop' }

export type WritebackReply =
  /** All writes of the job ended. `status` is an ERROR_CODES number; 0 means every byte was written. */
  | {
      readonly kind: 'write-done'
      readonly job: number
      readonly status: number
      readonly bytes: number
      readonly latencyUs: number
    }
  | { readonly kind: 'stopped' }

const WRITE = 1
const SET_WINDOW = 2
const STOP = 3
const WRITE_DONE = 1
const STOPPED = 2

/** Fields: job, file, file offset; or bytes of the window. */
export const requestCodec: MessageCodec<WritebackRequest> = {
  encode(message, record) {
    switch (message.kind) {
      case 'write':
        record.kind = WRITE
        record.fields[0] = message.job
        record.fields[1] = message.file
        record.fields[2] = message.fileOffsetBytes
        record.list = message.list
        return
      case 'set-window':
        record.kind = SET_WINDOW
        record.fields[0] = message.bytes
        return
      case 'stop':
        record.kind = STOP
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case WRITE:
        return {
          kind: 'write',
          job: fieldOf(record, 0),
          file: fieldOf(record, 1),
          fileOffsetBytes: fieldOf(record, 2),
          list: record.list,
        }
      case SET_WINDOW:
        return { kind: 'set-window', bytes: fieldOf(record, 0) }
      case STOP:
        return { kind: 'stop' }
      default:
        return unknownKind('writeback request', record.kind)
    }
  },
}

/** Fields: job, status, bytes, latency. */
export const replyCodec: MessageCodec<WritebackReply> = {
  encode(message, record) {
    switch (message.kind) {
      case 'write-done':
        record.kind = WRITE_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.fields[2] = message.bytes
        record.fields[3] = message.latencyUs
        return
      case 'stopped':
        record.kind = STOPPED
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case WRITE_DONE:
        return {
          kind: 'write-done',
          job: fieldOf(record, 0),
          status: fieldOf(record, 1),
          bytes: fieldOf(record, 2),
          latencyUs: fieldOf(record, 3),
        }
      case STOPPED:
        return { kind: 'stopped' }
      default:
        return unknownKind('writeback reply', record.kind)
    }
  },
}
