import { DRAM_JOBS_MAX } from '../../actors/dram-worker/messages.js'
import { RESTORES_MAX } from '../../actors/host-restore/messages.js'
import type { SsdWorkerRequest } from '../../actors/ssd-worker/messages.js'
import type { ManagerEffect } from '../messages.js'
import { LaneJobs } from './lane-jobs.js'
import type { DramJobReply, RestoreJobReply } from './replies.js'
import type { ServedDevice } from './served-device.js'
import { SsdLane } from './ssd-lane.js'

type DramRequest = Extract<ManagerEffect, { readonly kind: 'to-dram-worker' }>['request']
type RestoreRequest = Extract<ManagerEffect, { readonly kind: 'to-host-restore' }>['request']

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

  /** `sendSsd`: to the device's ssd-worker; null: it has none. */
  constructor(device: ServedDevice, index: number, sendSsd: ((request: SsdWorkerRequest) => void) | null = null) {
    this.device = device
    this.index = index
    this.ssd = sendSsd === null ? null : new SsdLane(sendSsd)
  }

  /** Jobs that have not been answered, and those that wait for a number. */
  get jobsOpen(): number {
    const { dramJobs, restoreJobs, ssd } = this
    const ofSsd = ssd === null ? 0 : ssd.jobs.open + ssd.jobs.waiting
    return dramJobs.open + dramJobs.waiting + restoreJobs.open + restoreJobs.waiting + ofSsd
  }

  toDramWorker(request: DramRequest): ManagerEffect {
    return { kind: 'to-dram-worker', device: this.index, request }
  }

  toHostRestore(request: RestoreRequest): ManagerEffect {
    return { kind: 'to-host-restore', device: this.index, request }
  }
}
