import type { DeviceName } from '../../shared/base/device-name.js'

/** A device that engine pages may lie on. */
export interface ServedDevice {
  readonly name: DeviceName
  /** As tools print it, `GPU-…`; empty for the host. */
  readonly uuid: string
}

/** The device that every Manager serves, always the first. */
export const HOST_DEVICE: ServedDevice = { name: 'host', uuid: '' }
