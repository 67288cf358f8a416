import { invariant } from '../../shared/base/invariant.js'
import type { List, RawRecord } from '../../shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../shared/rings/codec.js'

/**
 * dram-worker: ordinary D2H saves and H2D restores between the pinned pool and engine pages. Its only client is the
 * manager, which holds the granules, the leases and the mapping until the reply. Jobs run on the lane's stream.
 */

/** Jobs that may be outstanding: the capacity of the completion ring (a save may be several records, see `more`). */
export const DRAM_JOBS_MAX = 128

/**
 * Where the finisher writes the result, and when the source or destination pages may be touched: not before the
 * client's fence word of the slot is at least `fence` (0: at once).
 */
export interface Finish {
  readonly slots: number
  readonly slot: number
  readonly slotGeneration: number
  readonly fence: number
}

export type DramWorkerRequest =
  /**
   * D2H. `list`: COPY descriptors; coded ones are encoded into their room. A job larger than one list comes in several
   * records with one `job`; `more` is 1 on all but the last. Answered by `save-done`; the manager writes the slot
   * itself, after insertion.
   */
  | ({ readonly kind: 'save'; readonly job: number; readonly more: 0 | 1; readonly list: List } & Finish)
  /** `list`: CHECKSUM descriptors. Answered by one `checksum-done` per record, with the results as its list. */
  | { readonly kind: 'checksum'; readonly job: number; readonly list: List }
  /**
   * H2D. `list`: COPY descriptors, coded ones are decoded; `more` as above. This lane writes the slot and the eventfd, then
   * answers, unless the answer names damage.
   */
  | ({
      readonly kind: 'restore'
      readonly job: number
      readonly more: 0 | 1
      readonly bytes: number
      readonly admitUs: number
      readonly list: List
    } & Finish)
  /** Parts not yet queued on the stream are dropped; what is queued drains; the job ends as cancelled. */
  | { readonly kind: 'cancel'; readonly job: number }
  /** What the codec holds on the device is given back, as soon as nothing is on the stream; answered when it is. */
  | { readonly kind: 'release-workspace' }
  | { readonly kind: 'stop' }

export type DramWorkerReply =
  /**
   * `list`: what each descriptor of the job left in the pool, in order: stored bytes and their CRC32 (0 and 0: copied as it
   * was, or a coding that was refused, whose room holds nothing of worth). Empty when nothing was coded, or on a failure.
   */
  | { readonly kind: 'save-done'; readonly job: number; readonly status: number; readonly list: List }
  /** `list`: one CRC32 per descriptor of the request. */
  | { readonly kind: 'checksum-done'; readonly job: number; readonly status: number; readonly list: List }
  /**
   * `list`: positions in the job of the descriptors whose stored bytes are no coding, whatever the status. When it names
   * any the slot is not written yet: who gets this hides their generations first, and only then writes it.
   */
  | {
      readonly kind: 'restore-done'
      readonly job: number
      readonly status: number
      readonly bytes: number
      readonly latencyUs: number
      readonly list: List
    }
  | { readonly kind: 'workspace-released' }
  | { readonly kind: 'stopped' }

const SAVE = 1
const CHECKSUM = 2
const RESTORE = 3
const CANCEL = 4
const STOP = 5
const RELEASE_WORKSPACE = 6
const SAVE_DONE = 1
const CHECKSUM_DONE = 2
const RESTORE_DONE = 3
const STOPPED = 4
const WORKSPACE_RELEASED = 5

/** Slots that the tag can carry beside `more`. */
const SLOTS_MAX = 2 ** 30

/**
 * A finish and its part of a job: `more` and `slot` share the tag (more + 2 * slot), table, generation and fence
 * follow the job in the fields, and two fields are left for the message.
 */
export function encodeFinish(job: number, more: 0 | 1, finish: Finish, record: RawRecord): void {
  const { slot } = finish
  invariant(Number.isInteger(slot) && slot >= 0 && slot < SLOTS_MAX, 'a slot number fits the tag', { slot })
  record.tag = more + 2 * slot
  record.fields[0] = job
  record.fields[1] = finish.slots
  record.fields[2] = finish.slotGeneration
  record.fields[3] = finish.fence
}

/** The other direction of `encodeFinish`. */
export function decodeFinish(record: RawRecord): Finish & { readonly job: number; readonly more: 0 | 1 } {
  return {
    job: fieldOf(record, 0),
    more: (record.tag & 1) === 1 ? 1 : 0,
    slots: fieldOf(record, 1),
    slot: record.tag >> 1,
    slotGeneration: fieldOf(record, 2),
    fence: fieldOf(record, 3),
  }
}

/** Fields: job, then a finish where there is one, then bytes and admission of a restore. */
export const requestCodec: MessageCodec<DramWorkerRequest> = {
  encode(message, record) {
    switch (message.kind) {
      case 'save':
        record.kind = SAVE
        encodeFinish(message.job, message.more, message, record)
        record.list = message.list
        return
      case 'checksum':
        record.kind = CHECKSUM
        record.fields[0] = message.job
        record.list = message.list
        return
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
    const { list } = record
    switch (record.kind) {
      case SAVE:
        return { kind: 'save', ...decodeFinish(record), list }
      case CHECKSUM:
        return { kind: 'checksum', job: fieldOf(record, 0), list }
      case RESTORE:
        return {
          kind: 'restore',
          ...decodeFinish(record),
          bytes: fieldOf(record, 4),
          admitUs: fieldOf(record, 5),
          list,
        }
      case CANCEL:
        return { kind: 'cancel', job: fieldOf(record, 0) }
      case RELEASE_WORKSPACE:
        return { kind: 'release-workspace' }
      case STOP:
        return { kind: 'stop' }
      default:
        return unknownKind('dram-worker request', record.kind)
    }
  },
}

/** Fields: job, status, bytes, latency. */
export const replyCodec: MessageCodec<DramWorkerReply> = {
  encode(message, record) {
    switch (message.kind) {
      case 'save-done':
        record.kind = SAVE_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.list = message.list
        return
      case 'checksum-done':
        record.kind = CHECKSUM_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.list = message.list
        return
      case 'restore-done':
        record.kind = RESTORE_DONE
        record.fields[0] = message.job
        record.fields[1] = message.status
        record.fields[2] = message.bytes
        record.fields[3] = message.latencyUs
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
    const { list } = record
    const job = fieldOf(record, 0)
    const status = fieldOf(record, 1)
    switch (record.kind) {
      case SAVE_DONE:
        return { kind: 'save-done', job, status, list }
      case CHECKSUM_DONE:
        return { kind: 'checksum-done', job, status, list }
      case RESTORE_DONE:
        return { kind: 'restore-done', job, status, bytes: fieldOf(record, 2), latencyUs: fieldOf(record, 3), list }
      case WORKSPACE_RELEASED:
        return { kind: 'workspace-released' }
      case STOPPED:
        return { kind: 'stopped' }
      default:
        return unknownKind('dram-worker reply', record.kind)
    }
  },
}
