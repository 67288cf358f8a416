import { CapabilityError } from '../shared/base/errors.js'
import type { Native } from './surface.js'

/** What the addon answers when a device is lost to this process, and when a disk was pulled out. */
const ENODEV = 19

/**
 * A CUDA device that has met a sticky error answers every call with it until the process ends. So the thread that hears
 * of it ends, the process ends with the thread, with the driver's words in the report, and a supervisor starts the next
 * one, to which the device is whole. `result` is a completion or a refusal of a stream or of memory; every result but
 * -ENODEV of a device that says itself that it is lost passes.
 * @param device name (`cuda:0`) or UUID
 * @throws CapabilityError cuda_unavailable
 */
export function endWithLostDevice(native: Pick<Native, 'cudaProbe'>, device: string, result: number): void {
  if (result !== -ENODEV) return
  const known = native.cudaProbe().devices.find(({ ordinal, uuid }) => `cuda:${ordinal}` === device || uuid === device)
  if (known === undefined || known.failure === null) return
  throw new CapabilityError(
    'cuda_unavailable',
    `Cannot go on with CUDA device ${known.ordinal}: ${known.failure}; this process ends, the next one has the device whole`,
    { device: known.ordinal, uuid: known.uuid },
  )
}
