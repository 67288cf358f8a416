import { MIB } from '../../shared/base/units.js'
import type { CounterLayout } from '../../shared/rings/counter-page.js'
import { WRITEBACK_HISTOGRAMS, WRITEBACK_SERIES } from './counters.js'

/** Where granules are joined: as long as the longest granule is, so that a write is never longer than without. */
export const JOIN_BYTES_MAX = MIB

/** What a writeback worker is started with; ENTRY is its module. */
export interface WritebackParams {
  /** Name of the manager in the wiring. */
  readonly client: string
  readonly pool: number
  /** Writes in flight, a power of two. */
  readonly depth: number
  /** Bytes in flight until the first `set-window`. */
  readonly windowBytes: number
  /** Granules of a job go together in writes of at most so many bytes; 0: each by itself. */
  readonly joinBytes: number
  readonly io: 'uring' | 'posix'
  /** Try to register pool and files with the ring. */
  readonly register: boolean
}

export const WRITEBACK_ENTRY = new URL('./loop.js', import.meta.url)

export const WRITEBACK_LAYOUT: CounterLayout = { series: WRITEBACK_SERIES, histograms: WRITEBACK_HISTOGRAMS }
