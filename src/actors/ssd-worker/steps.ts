import type { FinishSlot } from '../../shared/layout/slot-results.js'
import type { SsdWorkerReply, SsdWorkerRequest } from './messages.js'

/** What a step of the lane is given, and what it wants done. */

export type SsdWorkerInput =
  | { readonly kind: 'request'; readonly request: SsdWorkerRequest }
  /** `code`: 0, or what refused a buffer or stream: -errno or minus a cuFile status. */
  | { readonly kind: 'worker-opened'; readonly worker: number; readonly code: number }
  /** `result`: bytes of a read or write, 0 of copies; -errno or minus a cuFile status. */
  | { readonly kind: 'completed'; readonly tag: number; readonly result: number }
  /** The client's fence word, as asked by `poll-fence`. */
  | { readonly kind: 'fence-read'; readonly job: number; readonly value: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type SsdWorkerEffect =
  /** Two registered slots and a stream for copies; answered by `worker-opened`. */
  | { readonly kind: 'open-worker'; readonly worker: number; readonly slotBytes: number }
  | { readonly kind: 'close-worker'; readonly worker: number }
  /** Into the slot, then `checkCount` CHECKSUM descriptors over it; results from `checkBase` on. Completes once. */
  | {
      readonly kind: 'read'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly bytes: number
      readonly checks: Float64Array
      readonly checkCount: number
      readonly checkBase: number
    }
  /** COPY descriptors from the slot to pages. Completes once. */
  | {
      readonly kind: 'scatter'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly copies: Float64Array
      readonly copyCount: number
    }
  /**
   * Coded COPY descriptors from a slot, or from the pool when `slot` is STAGING_SLOTS, to pages; a result each from
   * `resultBase` on. They stay as they are until the part has ended. Completes once.
   */
  | {
      readonly kind: 'decode'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly copies: Float64Array
      readonly offset: number
      readonly count: number
      readonly resultBase: number
    }
  /**
   * All coded COPY descriptors of a job, from pages to the pool; two results each from `resultBase` on. `held`: the codings
   * also stay where they are made until `release-codes`; where that cannot be it is refused at once, with -E2BIG or
   * -EOPNOTSUPP. The descriptors stay as they are until it has ended. Completes once.
   */
  | {
      readonly kind: 'encode'
      readonly worker: number
      readonly tag: number
      readonly copies: Float64Array
      readonly count: number
      readonly resultBase: number
      readonly held: boolean
    }
  /** What the worker's stream holds is used no more. */
  | { readonly kind: 'release-codes'; readonly worker: number }
  /**
   * Zeros from `zeroFromBytes` to the chunk's end, copies from pages to the slot, HELD_CODE triples of what the worker's
   * stream holds to the slot, then the write. Completes once.
   */
  | {
      readonly kind: 'write'
      readonly worker: number
      readonly slot: number
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly stagingOffsetBytes: number
      readonly bytes: number
      readonly zeroFromBytes: number
      readonly copies: Float64Array
      readonly copyCount: number
      readonly codes: Float64Array
      readonly codeCount: number
    }
  /** COPY descriptors between the pool and pages. They stay as they are until the part has ended. */
  | {
      readonly kind: 'copy'
      readonly worker: number
      readonly tag: number
      readonly toPages: boolean
      readonly copies: Float64Array
      readonly offset: number
      readonly count: number
    }
  | { readonly kind: 'poll-fence'; readonly job: number; readonly slots: number; readonly slot: number }
  | FinishSlot
  | { readonly kind: 'reply'; readonly reply: SsdWorkerReply }
