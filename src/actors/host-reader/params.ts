import type { CounterLayout } from '../../shared/rings/counter-page.js'
import { HOST_READER_HISTOGRAMS, HOST_READER_SERIES } from './counters.js'

/** What a host-reader worker is started with; ENTRY is its module. */
export interface HostReaderParams {
  /** Names of its clients in the wiring: the manager first, then the host-restore lanes. */
  readonly clients: readonly string[]
  readonly pool: number
  /** Reads in flight, a power of two; 128 keeps an NVMe device busy. */
  readonly depth: number
  readonly io: 'uring' | 'posix'
  /** Try to register pool and files with the ring. */
  readonly register: boolean
}

export const HOST_READER_ENTRY = new URL('./loop.js', import.meta.url)

export const HOST_READER_LAYOUT: CounterLayout = { series: HOST_READER_SERIES, histograms: HOST_READER_HISTOGRAMS }
