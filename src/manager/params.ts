import type { DeviceName } from '../shared/base/device-name.js'
import type { ManagerOptions } from './options.js'
import type { StorageOptions } from './storage/ports.js'

/** What the manager worker is started with. */
export interface ManagerParams {
  readonly io: 'uring' | 'posix'
  readonly pool: number
  /** Path of the UNIX socket, or null when nothing listens (embedded). */
  readonly socketPath: string | null
  readonly options: ManagerOptions
  readonly storage: StorageOptions
  /** Host-reader lanes, and as many writeback lanes. */
  readonly stores: number
}

export const MANAGER_ENTRY = new URL('./loop.js', import.meta.url)

/** Names of the actors, as the wiring knows them. */
export const ACTOR = {
  main: 'main',
  manager: 'manager',
  dramWorker: (device: DeviceName) => ofDevice('dram-worker', device),
  hostRestore: (device: DeviceName) => ofDevice('host-restore', device),
  ssdWorker: (device: DeviceName) => ofDevice('ssd-worker', device),
  hostReader: (store: number) => `host-reader-${store}`,
  writeback: (store: number) => `writeback-${store}`,
} as const

/** The host's lanes have the plain name; those of `cuda:0` end in `-cuda0`. */
function ofDevice(lane: string, device: DeviceName): string {
  return device === 'host' ? lane : `${lane}-${device.replace(':', '')}`
}
