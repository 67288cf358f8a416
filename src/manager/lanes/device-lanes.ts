import { DRAM_JOBS_MAX } from '../../actors/dram-worker/messages.js'
import { RESTORES_MAX } from '../../actors/host-restore/messages.js'
import type { SsdWorkerRequest } from '../../actors/ssd-worker/messages.js'
import type { ManagerEffect } from '../messages.js'
import { LaneJobs } from './lane-jobs.js'
import type { DramJobReply, RestoreJobReply } from './replies.js'
import type { ServedDevice } from './served-device.js'
import { SsdLane } from './ssd-lane.js'
import { WorkspaceReleases } from './workspace-releases.js'

type DramRequest = Extract<ManagerEffect, { readonly kind: 'to-dram-worker' }>['request']
type RestoreRequest = Extract<ManagerEffect, { readonly kind: 'to-host-restore' }>['request']

/** Of each device: dram-worker and host-restore. */
const COPYING_LANES = 2

/** What a device has beside its copying lanes. */
export interface LaneRoutes {
  /** To the device's ssd-worker; absent: it has none. */
  readonly sendSsd?: (request: SsdWorkerRequest) => void
  /** Asks the copying lanes to give back what codecs hold; absent: nothing is coded. */
  readonly askWorkspaces?: (lanes: DeviceLanes) => void
}

/**
 * The lanes that copy to and from the pages of one device, and their jobs: a rank's copies go to those of the device
 * that its memory lies on, so that a device which stalls holds up nobody else's.
 */
export class DeviceLanes {
  readonly device: ServedDevice
  /** Place among the Manager's devices; 0 is the host. */
  readonly index: number
  readonly dramJobs = new LaneJobs<DramJobReply>(DRAM_JOBS_MAX)
  readonly restoreJobs = new LaneJobs<RestoreJobReply>(RESTORES_MAX)

  /** The cuFile route to and from this device; null: it has none. */
  readonly ssd: SsdLane | null
  /** What codecs hold on this device; null: nothing is coded. */
  readonly workspaces: WorkspaceReleases | null

  constructor(device: ServedDevice, index: number, { sendSsd, askWorkspaces }: LaneRoutes = {}) {
    this.device = device
    this.index = index
    this.ssd = sendSsd === undefined ? null : new SsdLane(sendSsd)
    this.workspaces =
      askWorkspaces === undefined ? null : new WorkspaceReleases(COPYING_LANES, () => askWorkspaces(this))
  }

  /** Jobs that have not been answered, and those that wait for a number; lanes that were asked for their workspace. */
  get jobsOpen(): number {
    const { dramJobs, restoreJobs, ssd, workspaces } = this
    const ofSsd = ssd === null ? 0 : ssd.jobs.open + ssd.jobs.waiting
    const ofCodec = workspaces?.open ?? 0
    return dramJobs.open + dramJobs.waiting + restoreJobs.open + restoreJobs.waiting + ofSsd + ofCodec
  }

  toDramWorker(request: DramRequest): ManagerEffect {
    return { kind: 'to-dram-worker', device: this.index, request }
  }

  toHostRestore(request: RestoreRequest): ManagerEffect {
    return { kind: 'to-host-restore', device: this.index, request }
  }
}
