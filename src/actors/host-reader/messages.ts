import type { List } from '../../shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../shared/rings/codec.js'

/**
 * host-reader: SSD to pinned DRAM, verified. Owns reads in flight; never allocates, never decides what to read.
 * Its clients are the manager (reads during a query) and host-restore lanes (reads during a restore), each by a ring
 * pair of its own. A client keeps at most CLIENT_READS_MAX granules outstanding, so that every completion has room.
 */

/** Granules that one client may have outstanding: the capacity of its completion ring. */
export const CLIENT_READS_MAX = 256

export type HostReaderRequest =
  /** `list`: READ descriptors. Submitted together; each completes by itself. `batch` is the client's number. */
  | { readonly kind: 'read-batch'; readonly batch: number; readonly list: List }
  /** Reads of `batch` that were not submitted yet complete as cancelled; submitted ones complete as they would. */
  | { readonly kind: 'cancel-batch'; readonly batch: number }
  /** Finish what is submitted, answer `stopped`, end. */
  | { readonly kind: 'stop' }

export type HostReaderReply =
  /** One granule of a batch ended. `status` is an ERROR_CODES number; 0 means read in full and verified. */
  | {
      readonly kind: 'read-done'
      readonly batch: number
      readonly index: number
      readonly status: number
      readonly bytes: number
    }
  | { readonly kind: 'stopped' }

const READ_BATCH = 1
const CANCEL_BATCH = 2
const STOP = 3
const READ_DONE = 1
const STOPPED = 2

/** Fields: batch. */
export const requestCodec: MessageCodec<HostReaderRequest> = {
  encode(message, record) {
    switch (message.kind) {
      case 'read-batch':
        record.kind = READ_BATCH
        record.fields[0] = message.batch
        record.list = message.list
        return
      case 'cancel-batch':
        record.kind = CANCEL_BATCH
        record.fields[0] = message.batch
        return
      case 'stop':
        record.kind = STOP
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case READ_BATCH:
        return { kind: 'read-batch', batch: fieldOf(record, 0), list: record.list }
      case CANCEL_BATCH:
        return { kind: 'cancel-batch', batch: fieldOf(record, 0) }
      case STOP:
        return { kind: 'stop' }
      default:
        return unknownKind('host-reader request', record.kind)
    }
  },
}

/** Fields: batch, index, status, bytes. */
export const replyCodec: MessageCodec<HostReaderReply> = {
  encode(message, record) {
    switch (message.kind) {
      case 'read-done':
        record.kind = READ_DONE
        record.fields[0] = message.batch
        record.fields[1] = message.index
        record.fields[2] = message.status
        record.fields[3] = message.bytes
        return
      case 'stopped':
        record.kind = STOPPED
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case READ_DONE:
        return {
          kind: 'read-done',
          batch: fieldOf(record, 0),
          index: fieldOf(record, 1),
          status: fieldOf(record, 2),
          bytes: fieldOf(record, 3),
        }
      case STOPPED:
        return { kind: 'stopped' }
      default:
        return unknownKind('host-reader reply', record.kind)
    }
  },
}
