import type { List } from '../../shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../shared/rings/codec.js'
import { decodeFinish, encodeFinish, type Finish } from '../dram-worker/messages.js'

/**
 * host-restore: the explicit io_uring route. Reads leased granules through host-reader lanes into its window, copies
 * each to engine pages as soon as it has landed verified, writes the slot. The manager holds every lease until
 * `restore-done`. The window is pool memory that the manager charged once, at start.
 */

export const RESTORES_MAX = 128

export type HostRestoreRequest =
  /** `list`: SOURCE descriptors. A job larger than one list comes in several records; `more` is 1 on all but the last. */
  | ({
      readonly kind: 'restore'
      readonly job: number
      readonly more: 0 | 1
      readonly bytes: number
      readonly admitUs: number
      readonly list: List
    } & Finish)
  /** Nothing new starts; submitted reads and copies drain; the job ends as cancelled. */
  | { readonly kind: 'cancel'; readonly job: number }
  /** As the dram-worker's. */
  | { readonly kind: 'release-workspace' }
  | { readonly kind: 'stop' }

export type HostRestoreReply =
  /**
   * The job ended and the slot says so, unless `list` names anything: then whoever gets this hides it, and only then
   * writes the slot. `ssdBytes` were read and verified; `firstFailed` is the smallest `pair` of the
   * sources that failed (-1: none), `status` the first failure. `list` holds the generations whose bytes were found
   * damaged, each once, whatever the status.
   */
  | {
      readonly kind: 'restore-done'
      readonly job: number
      readonly status: number
      readonly bytes: number
      readonly ssdBytes: number
      readonly firstFailed: number
      readonly latencyUs: number
      readonly list: List
    }
  | { readonly kind: 'workspace-released' }
  | { readonly kind: 'stopped' }

const RESTORE = 1
const CANCEL = 2
const STOP = 3
const RELEASE_WORKSPACE = 4
const RESTORE_DONE = 1
const STOPPED = 2
const WORKSPACE_RELEASED = 3

/** Fields: job and finish as the dram-worker has them, then bytes and admission. */
export const requestCodec: MessageCodec<HostRestoreRequest> = {
  encode(message, record) {
    switch (message.kind) {
      case 'restore':
        record.kind = RESTORE
        encodeFinish(message.job, message.more, message, record)
        record.fields[4] = message.bytes
        record.fields[5] = message.admitUs
        record.list = message.list
        return
      case 'cancel':
        record.kind = CANCEL
        record.fields[0] = message.job
        return
      case 'release-workspace':
        record.kind = RELEASE_WORKSPACE
        return
      case 'stop':
        record.kind = STOP
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case RESTORE:
        return {
          kind: 'restore',
          ...decodeFinish(record),
          bytes: fieldOf(record, 4),
          admitUs: fieldOf(record, 5),
          list: record.list,
        }
      case CANCEL:
        return { kind: 'cancel', job: fieldOf(record, 0) }
      case RELEASE_WORKSPACE:
        return { kind: 'release-workspace' }
      case STOP:
        return { kind: 'stop' }
      default:
        return unknownKind('host-restore request', record.kind)
    }
  },
}

/** Fields: job, status, bytes, bytes from SSD, first failed, latency. */
export const replyCodec: MessageCodec<HostRestoreReply> = {
  encode(message, record) {
    switch (message.kind) {
      case 'restore-done':
        record.kind = RESTORE_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.fields[2] = message.bytes
        record.fields[3] = message.ssdBytes
        record.fields[4] = message.firstFailed
        record.fields[5] = message.latencyUs
        record.list = message.list
        return
      case 'workspace-released':
        record.kind = WORKSPACE_RELEASED
        return
      case 'stopped':
        record.kind = STOPPED
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case RESTORE_DONE:
        return {
          kind: 'restore-done',
          job: fieldOf(record, 0),
          status: fieldOf(record, 1),
          bytes: fieldOf(record, 2),
          ssdBytes: fieldOf(record, 3),
          firstFailed: fieldOf(record, 4),
          latencyUs: fieldOf(record, 5),
          list: record.list,
        }
      case WORKSPACE_RELEASED:
        return { kind: 'workspace-released' }
      case STOPPED:
        return { kind: 'stopped' }
      default:
        return unknownKind('host-restore reply', record.kind)
    }
  },
}
