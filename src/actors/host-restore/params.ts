import type { DeviceName } from '../../shared/base/device-name.js'
import { CODEC_HISTOGRAMS, CODEC_SERIES } from '../../shared/codec/lane-series.js'
import type { CounterLayout } from '../../shared/rings/counter-page.js'
import { HOST_RESTORE_HISTOGRAMS, HOST_RESTORE_SERIES } from './counters.js'

/** What a host-restore worker is started with; ENTRY is its module. */
export interface HostRestoreParams {
  /** Name of the manager in the wiring. */
  readonly client: string
  /** Names of the host-reader lanes, by store. */
  readonly readers: readonly string[]
  /** Device of the pages it copies to and from. */
  readonly device: DeviceName
  readonly pool: number
  /** Pool memory to read into, charged by the manager: whole MiB, from a 4 KiB boundary. */
  readonly windowOffsetBytes: number
  readonly windowBytes: number
  /** Reads outstanding at one reader at most; about its depth, never above CLIENT_READS_MAX. */
  readonly storeReads: number
  /** Parts on the stream at once, a power of two. */
  readonly parts: number
  /** Copies in one part at most. */
  readonly partDescriptors: number
  readonly io: 'uring' | 'posix'
  /** Device memory that decode() may hold; absent where nothing is coded. */
  readonly codecBudgetBytes?: number
}

export const HOST_RESTORE_ENTRY = new URL('./loop.js', import.meta.url)

export const HOST_RESTORE_LAYOUT: CounterLayout = {
  series: [...HOST_RESTORE_SERIES, ...CODEC_SERIES],
  histograms: [...HOST_RESTORE_HISTOGRAMS, ...CODEC_HISTOGRAMS],
}
