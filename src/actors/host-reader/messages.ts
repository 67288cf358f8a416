import type { List } from '../../shared/layout/records.js'

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
