import type { CounterLayout } from '../shared/rings/counter-page.js'
import { VERB_HISTOGRAMS, VERB_SERIES } from './counters.js'
import type { ManagerOptions } from './options.js'
import { STORAGE_HISTOGRAMS, STORAGE_SERIES } from './storage/counters.js'
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

/** The manager's counter page: the verbs' series first, then storage's. */
export const MANAGER_LAYOUT: CounterLayout = {
  series: [...VERB_SERIES, ...STORAGE_SERIES],
  histograms: [...VERB_HISTOGRAMS, ...STORAGE_HISTOGRAMS],
}

/** Names of the actors, as the wiring knows them. */
export const ACTOR = {
  main: 'main',
  manager: 'manager',
  dramWorker: 'dram-worker',
  hostRestore: 'host-restore',
  hostReader: (store: number) => `host-reader-${store}`,
  writeback: (store: number) => `writeback-${store}`,
} as const
