import type { DeviceName } from '../../shared/base/device-name.js'
import { CODEC_HISTOGRAMS, CODEC_SERIES } from '../../shared/codec/lane-series.js'
import type { CounterLayout } from '../../shared/rings/counter-page.js'
import { DRAM_WORKER_HISTOGRAMS, DRAM_WORKER_SERIES } from './counters.js'

/** What a dram-worker is started with; ENTRY is its module. */
export interface DramWorkerParams {
  /** Name of the manager in the wiring. */
  readonly client: string
  /** Device of the pages it copies to and from. */
  readonly device: DeviceName
  readonly pool: number
  /** Parts on the stream at once, a power of two. */
  readonly parts: number
  /** Granules in one part at most. */
  readonly partDescriptors: number
  readonly io: 'uring' | 'posix'
  /** Device memory that encode() may hold, and decode() as much again; absent where nothing is coded. */
  readonly codecBudgetBytes?: number
  /** What a staging slot's stream may hold, where cuFile reads; absent: it does not. */
  readonly codecStagingBudgetBytes?: number
}

export const DRAM_WORKER_ENTRY = new URL('./loop.js', import.meta.url)

export const DRAM_WORKER_LAYOUT: CounterLayout = {
  series: [...DRAM_WORKER_SERIES, ...CODEC_SERIES],
  histograms: [...DRAM_WORKER_HISTOGRAMS, ...CODEC_HISTOGRAMS],
}
