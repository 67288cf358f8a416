import { invariant } from '../../shared/base/invariant.js'
import type { List, RawRecord } from '../../shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../shared/rings/codec.js'
import { decodeFinish, encodeFinish, type Finish } from '../dram-worker/messages.js'

/**
 * ssd-worker: the cuFile route of one device. A *worker* is what one instance has there: two registered staging slots
 * and a stream for copies, made with its first job. Restores read leased granules into a slot, have them verified there and
 * scatter them into engine pages; writes gather engine pages into a slot and write it to an extent that nobody can see
 * yet; encodings put codings into DRAM and are written from where they were made. The manager holds every lease, extent and mapping until the terminal reply.
 */

/** Restores that may be outstanding. */
export const GPU_RESTORES_MAX = 128
/** Write jobs that one worker may have queued or active; the manager has a permit for each. */
export const GPU_WRITES_MAX = 8
/** Workers that may exist; their numbers are below it. */
export const SSD_WORKERS_MAX = 128

export type SsdWorkerRequest =
  /** The worker may have jobs from now on; nothing is allocated before the first. */
  | { readonly kind: 'open-worker'; readonly worker: number }
  /** `list`: SOURCE descriptors; `more` is 1 on all records of a job but the last. This lane writes the slot. */
  | ({
      readonly kind: 'restore'
      readonly worker: number
      readonly job: number
      readonly more: 0 | 1
      readonly bytes: number
      readonly admitUs: number
      readonly list: List
    } & Finish)
  /** `list`: TARGET descriptors of whole blocks. Answered by `copied`, then `write-done`; the manager writes the slot. */
  | ({
      readonly kind: 'write'
      readonly worker: number
      readonly job: number
      readonly more: 0 | 1
      readonly list: List
    } & Finish)
  /**
   * `list`: COPY descriptors of whole blocks, coded ones last and at most CODEC_PART_DESCRIPTORS of them; the codings stay
   * where they are made. Answered by `encoded`, then `write-done`.
   */
  | ({
      readonly kind: 'encode'
      readonly worker: number
      readonly job: number
      readonly more: 0 | 1
      readonly list: List
    } & Finish)
  /**
   * What is written of an encoding that is held. `list`: TARGET descriptors of blocks of which it has every coding; empty:
   * nothing. Follows each `encoded` that says `held`, unless the job was cancelled.
   */
  | { readonly kind: 'write-codes'; readonly job: number; readonly list: List }
  /** Nothing of the job starts any more; what was submitted drains; the job ends as cancelled. */
  | { readonly kind: 'cancel'; readonly job: number }
  /** No job of the worker follows. Answered when its jobs have ended and its streams and buffers are deregistered. */
  | { readonly kind: 'close-worker'; readonly worker: number }
  | { readonly kind: 'stop' }

export type SsdWorkerReply =
  /** As host-restore's; `list`: generations found damaged. */
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
  /** The copies of a write job to DRAM have ended; its pages are still in use. */
  | { readonly kind: 'copied'; readonly job: number; readonly status: number }
  /**
   * The copies and codings of an encoding have ended. `list` as that of `save-done`; `held` is 1 when what is coded stays
   * where it is for `write-codes`, and 0 when `write-done` follows at once.
   */
  | {
      readonly kind: 'encoded'
      readonly job: number
      readonly status: number
      readonly held: 0 | 1
      readonly list: List
    }
  /** Nothing touches the job's pages or extents any more. `list`: the status of each object, by TARGET.object. */
  | { readonly kind: 'write-done'; readonly job: number; readonly status: number; readonly list: List }
  /** Staging or cuFile failed: `code` is what the device said, -errno or minus a cuFile status. */
  | { readonly kind: 'route-failed'; readonly worker: number; readonly code: number }
  | { readonly kind: 'worker-closed'; readonly worker: number }
  | { readonly kind: 'stopped' }

const OPEN_WORKER = 1
const RESTORE = 2
const WRITE = 3
const CANCEL = 4
const CLOSE_WORKER = 5
const STOP = 6
const ENCODE = 7
const WRITE_CODES = 8
const RESTORE_DONE = 1
const COPIED = 2
const WRITE_DONE = 3
const ROUTE_FAILED = 4
const WORKER_CLOSED = 5
const STOPPED = 6
const ENCODED = 7

/** A slot number has 16 bits of the tag after `more`; the worker has the bits above. */
const SLOT_NUMBERS = 2 ** 16
const WORKER_STEP = 2 * SLOT_NUMBERS

function encodeJob(message: { worker: number; job: number; more: 0 | 1 } & Finish, record: RawRecord): void {
  const { slot, worker } = message
  invariant(slot < SLOT_NUMBERS && worker >= 0 && worker < SSD_WORKERS_MAX, 'slot and worker fit the tag', {
    slot,
    worker,
  })
  encodeFinish(message.job, message.more, message, record)
  record.tag += worker * WORKER_STEP
}

function decodeJob(
  record: RawRecord,
): Finish & { readonly worker: number; readonly job: number; readonly more: 0 | 1 } {
  const finish = decodeFinish(record)
  return { ...finish, slot: finish.slot % SLOT_NUMBERS, worker: Math.floor(record.tag / WORKER_STEP) }
}

/** Fields: worker, or job and finish as the dram-worker has them, then bytes and admission. */
export const requestCodec: MessageCodec<SsdWorkerRequest> = {
  encode(message, record) {
    switch (message.kind) {
      case 'open-worker':
        record.kind = OPEN_WORKER
        record.fields[0] = message.worker
        return
      case 'restore':
        record.kind = RESTORE
        encodeJob(message, record)
        record.fields[4] = message.bytes
        record.fields[5] = message.admitUs
        record.list = message.list
        return
      case 'write':
      case 'encode':
        record.kind = message.kind === 'write' ? WRITE : ENCODE
        encodeJob(message, record)
        record.list = message.list
        return
      case 'write-codes':
        record.kind = WRITE_CODES
        record.fields[0] = message.job
        record.list = message.list
        return
      case 'cancel':
        record.kind = CANCEL
        record.fields[0] = message.job
        return
      case 'close-worker':
        record.kind = CLOSE_WORKER
        record.fields[0] = message.worker
        return
      case 'stop':
        record.kind = STOP
        return
    }
  },
  decode(record) {
    switch (record.kind) {
      case OPEN_WORKER:
        return { kind: 'open-worker', worker: fieldOf(record, 0) }
      case RESTORE:
        return {
          kind: 'restore',
          ...decodeJob(record),
          bytes: fieldOf(record, 4),
          admitUs: fieldOf(record, 5),
          list: record.list,
        }
      case WRITE:
        return { kind: 'write', ...decodeJob(record), list: record.list }
      case ENCODE:
        return { kind: 'encode', ...decodeJob(record), list: record.list }
      case WRITE_CODES:
        return { kind: 'write-codes', job: fieldOf(record, 0), list: record.list }
      case CANCEL:
        return { kind: 'cancel', job: fieldOf(record, 0) }
      case CLOSE_WORKER:
        return { kind: 'close-worker', worker: fieldOf(record, 0) }
      case STOP:
        return { kind: 'stop' }
      default:
        return unknownKind('ssd-worker request', record.kind)
    }
  },
}

/** Fields: job, status, bytes (or held), bytes from SSD, first failed, latency; or worker and code. */
export const replyCodec: MessageCodec<SsdWorkerReply> = {
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
      case 'copied':
        record.kind = COPIED
        record.fields[0] = message.job
        record.fields[1] = message.status
        return
      case 'encoded':
        record.kind = ENCODED
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.fields[2] = message.held
        record.list = message.list
        return
      case 'write-done':
        record.kind = WRITE_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.list = message.list
        return
      case 'route-failed':
        record.kind = ROUTE_FAILED
        record.fields[0] = message.worker
        record.fields[1] = message.code
        return
      case 'worker-closed':
        record.kind = WORKER_CLOSED
        record.fields[0] = message.worker
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
      case COPIED:
        return { kind: 'copied', job: fieldOf(record, 0), status: fieldOf(record, 1) }
      case ENCODED:
        return {
          kind: 'encoded',
          job: fieldOf(record, 0),
          status: fieldOf(record, 1),
          held: fieldOf(record, 2) === 1 ? 1 : 0,
          list: record.list,
        }
      case WRITE_DONE:
        return { kind: 'write-done', job: fieldOf(record, 0), status: fieldOf(record, 1), list: record.list }
      case ROUTE_FAILED:
        return { kind: 'route-failed', worker: fieldOf(record, 0), code: fieldOf(record, 1) }
      case WORKER_CLOSED:
        return { kind: 'worker-closed', worker: fieldOf(record, 0) }
      case STOPPED:
        return { kind: 'stopped' }
      default:
        return unknownKind('ssd-worker reply', record.kind)
    }
  },
}
