import type { DramWorkerReply, DramWorkerRequest } from '../actors/dram-worker/messages.js'
import type { HostReaderReply, HostReaderRequest } from '../actors/host-reader/messages.js'
import type { HostRestoreReply, HostRestoreRequest } from '../actors/host-restore/messages.js'
import type { SsdWorkerReply, SsdWorkerRequest } from '../actors/ssd-worker/messages.js'
import type { WritebackReply, WritebackRequest } from '../actors/writeback/messages.js'
import type { List } from '../shared/layout/records.js'

/** What main asks of the manager worker, over a ring pair. */
export type ControlRequest =
  /** Refuse new work, finish what is admitted within `limitUs`, end sessions, stop the lanes, answer `drained`. */
  | { readonly kind: 'drain'; readonly limitUs: number }
  /** Serve the other end of this connected socket as if it had come through the listener; the manager closes it. */
  | { readonly kind: 'adopt'; readonly fd: number }

export type ControlReply =
  /** The listener is open and engines may connect. */
  | { readonly kind: 'serving' }
  /** A client sent DRAIN: main decides how long it may take and answers with `drain`. */
  | { readonly kind: 'drain-asked' }
  /** A cuFile failure stopped new cuFile work until restart: -errno or minus a cuFile status. */
  | { readonly kind: 'ssd-fallback'; readonly code: number }
  /** A rank registered whose pages cuFile does not reach, on a Manager that has it. */
  | { readonly kind: 'rank-by-uring' }
  /** An instance sealed under a codec: so many of its layers are coded; `list`: those that are not, by RAW_REASONS. */
  | { readonly kind: 'codec-chosen'; readonly coded: number; readonly list: List }
  /** Everything ended; `unfinished` operations were still open when the limit passed. The worker exits after it. */
  | { readonly kind: 'drained'; readonly unfinished: number }

/** What the Manager's machine may be told. */
export type ManagerInput =
  | { readonly kind: 'accepted'; readonly connection: number; readonly uid: number; readonly pid: number }
  /** `frame` is valid during the step only; `fds` belong to the machine, which closes what it does not keep. */
  | {
      readonly kind: 'frame'
      readonly connection: number
      readonly frame: Uint8Array
      readonly fds: readonly number[]
    }
  /** The peer closed, misbehaved on the stream level, or its process ended. */
  | { readonly kind: 'connection-ended'; readonly connection: number }
  | { readonly kind: 'host-reader'; readonly store: number; readonly reply: HostReaderReply }
  | { readonly kind: 'writeback'; readonly store: number; readonly reply: WritebackReply }
  | { readonly kind: 'dram-worker'; readonly device: number; readonly reply: DramWorkerReply }
  | { readonly kind: 'host-restore'; readonly device: number; readonly reply: HostRestoreReply }
  | { readonly kind: 'ssd-worker'; readonly device: number; readonly reply: SsdWorkerReply }
  | { readonly kind: 'control'; readonly request: Exclude<ControlRequest, { kind: 'adopt' }> }
  | { readonly kind: 'tick'; readonly nowUs: number }

/** What the Manager's machine may ask its loop to do. Order matters: effects are performed in the order given. */
export type ManagerEffect =
  /** `fds` are closed once the frame has been handed over, sent or not: the peer gets duplicates. */
  | { readonly kind: 'send'; readonly connection: number; readonly frame: Uint8Array; readonly fds: readonly number[] }
  | { readonly kind: 'close-connection'; readonly connection: number }
  | { readonly kind: 'to-host-reader'; readonly store: number; readonly request: HostReaderRequest }
  | { readonly kind: 'to-writeback'; readonly store: number; readonly request: WritebackRequest }
  | { readonly kind: 'to-dram-worker'; readonly device: number; readonly request: DramWorkerRequest }
  | { readonly kind: 'to-host-restore'; readonly device: number; readonly request: HostRestoreRequest }
  | { readonly kind: 'to-ssd-worker'; readonly device: number; readonly request: SsdWorkerRequest }
  | {
      readonly kind: 'slot-state'
      readonly slots: number
      readonly slot: number
      readonly generation: number
      readonly state: number
    }
  | {
      readonly kind: 'slot-finish'
      readonly slots: number
      readonly slot: number
      readonly generation: number
      readonly state: number
      readonly errorCode: number
      readonly firstFailed: number
      readonly bytes: number
      readonly admitUs: number
      readonly doneUs: number
    }
  /** The session's slots go, after every word that was decided for them before. */
  | { readonly kind: 'release-slots'; readonly slots: number }
  | { readonly kind: 'control'; readonly reply: ControlReply }
