import type { CudaProbe } from '../binding/devices.js'
import { HOST_DEVICE, type ServedDevice } from '../manager/lanes/served-device.js'
import { CapabilityError, ConfigError } from '../shared/base/errors.js'

/** `all`: every CUDA device that the driver lists; `none`; or ordinals and UUIDs, each once. */
export type DeviceChoice = 'all' | 'none' | readonly string[]

/**
 * The devices whose pages may be registered: the host, then the CUDA devices of the choice. `all` takes what is there;
 * a device that was named and is not there refuses the start.
 * @throws CapabilityError cuda_unavailable, ConfigError config_conflict
 */
export function servedDevices(choice: DeviceChoice, probe: CudaProbe): readonly ServedDevice[] {
  if (choice === 'none') return [HOST_DEVICE]
  const all = probe.devices.filter((device) => device.failure === null)
  if (choice === 'all') return [HOST_DEVICE, ...all.map(served)]
  const devices: ServedDevice[] = [HOST_DEVICE]
  for (const name of choice) {
    const found = all.find(
      ({ ordinal, uuid }) => String(ordinal) === name || uuid === name.toLowerCase().replace(/^gpu/, 'GPU'),
    )
    if (found === undefined) {
      const why = probe.available ? `the driver lists ${all.length}` : probe.reason
      throw new CapabilityError('cuda_unavailable', `Cannot serve CUDA device ${name}: ${why}; see --devices`, {
        device: name,
      })
    }
    if (devices.some(({ uuid }) => uuid === found.uuid)) {
      throw new ConfigError('config_conflict', `Cannot serve CUDA device ${name} twice: drop it from --devices`, {
        device: name,
      })
    }
    devices.push(served(found))
  }
  return devices
}

function served({ ordinal, uuid }: CudaProbe['devices'][number]): ServedDevice {
  return { name: `cuda:${ordinal}`, uuid }
}
