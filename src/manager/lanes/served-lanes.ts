import { isCoding } from '../../shared/codec/setting.js'
import type { ManagerEffect } from '../messages.js'
import type { ManagerOptions } from '../options.js'
import { DeviceLanes, type LaneRoutes } from './device-lanes.js'

/** The lanes of every device that is served, in its order; what they are sent goes to `put`. */
export function lanesOf(
  { devices, staging, codec }: ManagerOptions,
  put: (effect: ManagerEffect) => void,
): DeviceLanes[] {
  const ofCodec: LaneRoutes = isCoding(codec) ? { askWorkspaces: (lanes) => askWorkspaces(lanes, put) } : {}
  return devices.map((device, index) => {
    if (!staging.includes(device.name)) return new DeviceLanes(device, index, ofCodec)
    const sendSsd: LaneRoutes['sendSsd'] = (request) => put({ kind: 'to-ssd-worker', device: index, request })
    return new DeviceLanes(device, index, { ...ofCodec, sendSsd })
  })
}

/** An ssd-worker needs no question: what a rank has there ends with its staging. */
function askWorkspaces(lanes: DeviceLanes, put: (effect: ManagerEffect) => void): void {
  const request = { kind: 'release-workspace' } as const
  put(lanes.toDramWorker(request))
  put(lanes.toHostRestore(request))
}
