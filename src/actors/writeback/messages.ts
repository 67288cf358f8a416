import type { List } from '../../shared/layout/records.js'

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
