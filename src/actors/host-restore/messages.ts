import type { List } from '../../shared/layout/records.js'
import type { Finish } from '../dram-worker/messages.js'

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
  | { readonly kind: 'stop' }

export type HostRestoreReply =
  /**
   * The job ended and the slot says so. `ssdBytes` were read and verified; `firstFailed` is the smallest `pair` of the
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
  | { readonly kind: 'stopped' }
