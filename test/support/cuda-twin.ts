import { loadNative } from '../../src/binding/load.js'
import { useCudaShims } from './shims.js'

/** What the tests share that run over the twin of libcuda, in this process and in those that it starts. */

/** Descriptors that the twin keeps for memory that it has mapped. */
export const DRIVER_FDS_MAX = 32

/**
 * Gives this process, and a Manager that is started, the twins of libcuda and libnvrtc: before the addon's first look for a
 * driver. Returns why there are none; empty when there are.
 */
export function noCudaTwin(): string {
  try {
    useCudaShims()
    return ''
  } catch (error) {
    return error instanceof Error ? error.message.slice(0, 100) : String(error)
  }
}

/** The twin's one device. */
export function twinUuid(): string {
  const [device] = loadNative().cudaProbe().devices
  if (device === undefined) throw new Error('the twin of the driver has a device')
  return device.uuid
}
