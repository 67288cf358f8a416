import type { List } from '../../shared/layout/records.js'

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
   * D2H. `list`: COPY descriptors. A job larger than one list comes in several records with one `job`; `more` is 1
   * on all but the last. Answered by `save-done`; the manager writes the slot itself, after insertion.
   */
  | ({ readonly kind: 'save'; readonly job: number; readonly more: 0 | 1; readonly list: List } & Finish)
  /** `list`: CHECKSUM descriptors. Answered by one `checksum-done` per record, with the results as its list. */
  | { readonly kind: 'checksum'; readonly job: number; readonly list: List }
  /** H2D. `list`: COPY descriptors, `more` as above. This lane writes the slot and the eventfd, then answers. */
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
  | { readonly kind: 'stop' }

export type DramWorkerReply =
  | { readonly kind: 'save-done'; readonly job: number; readonly status: number }
  /** `list`: one CRC32 per descriptor of the request. */
  | { readonly kind: 'checksum-done'; readonly job: number; readonly status: number; readonly list: List }
  | {
      readonly kind: 'restore-done'
      readonly job: number
      readonly status: number
      readonly bytes: number
      readonly latencyUs: number
    }
  | { readonly kind: 'stopped' }
