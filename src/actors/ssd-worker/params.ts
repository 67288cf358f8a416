import type { DeviceName } from '../../shared/base/device-name.js'
import { CODEC_HISTOGRAMS, CODEC_SERIES } from '../../shared/codec/lane-series.js'
import type { CounterLayout } from '../../shared/rings/counter-page.js'
import { SSD_WORKER_HISTOGRAMS, SSD_WORKER_SERIES } from './counters.js'
import { STAGING_SLOTS } from './worker.js'

/** Bytes of one staging slot; two for each instance and device. */
export const STAGING_SLOT_BYTES = 4 << 20

/** What an ssd-worker lane is started with; ENTRY is its module. */
export interface SsdWorkerParams {
  /** Name of the manager in the wiring. */
  readonly client: string
  readonly pool: number
  /** Whose pages it moves. */
  readonly device: DeviceName
  /** Copies in one part at most. */
  readonly partDescriptors: number
  readonly io: 'uring' | 'posix'
  /** Device memory that the codec may hold for one worker in each direction, all its streams together; absent where nothing is coded. */
  readonly codecBudgetBytes?: number
}

/** Device memory that decode() may hold for one stream of a worker: it has its budget, whatever its streams are. */
export function streamBudgetBytes(codecBudgetBytes: number): number {
  return Math.floor(codecBudgetBytes / (STAGING_SLOTS + 1))
}

export const SSD_WORKER_ENTRY = new URL('./loop.js', import.meta.url)

export const SSD_WORKER_LAYOUT: CounterLayout = {
  series: [...SSD_WORKER_SERIES, ...CODEC_SERIES],
  histograms: [...SSD_WORKER_HISTOGRAMS, ...CODEC_HISTOGRAMS],
}
