import type { DramWorkerReply } from '../../actors/dram-worker/messages.js'
import type { HostRestoreReply } from '../../actors/host-restore/messages.js'

/** A terminal reply of the dram-worker lane to one of its jobs. */
export type DramJobReply = Exclude<DramWorkerReply, { kind: 'workspace-released' | 'stopped' }>
/** A terminal reply of the host-restore lane. */
export type RestoreJobReply = Exclude<HostRestoreReply, { kind: 'workspace-released' | 'stopped' }>
