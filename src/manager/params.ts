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
  dramWorker: 'dram-worker',
  hostRestore: 'host-restore',
  hostReader: (store: number) => `host-reader-${store}`,
  writeback: (store: number) => `writeback-${store}`,
} as const
