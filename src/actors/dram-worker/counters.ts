import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/** Positions of this lane's counters and gauges in its counter page, in the order of DRAM_WORKER_SERIES. */
export const DRAM_WORKER_COUNT = {
  savesDone: 0,
  savesFailed: 1,
  loadsDone: 2,
  loadsFailed: 3,
  loadBytes: 4,
  jobsCancelled: 5,
  checksums: 6,
  partsInFlight: 7,
  jobsActive: 8,
  jobsFenced: 9,
  completionsStray: 10,
} as const

export const DRAM_WORKER_SERIES: readonly SeriesSpec[] = [
  { name: 'saves', kind: 'counter', text: 'Saves copied in full' },
  { name: 'save_failures', kind: 'counter', text: 'Saves that failed' },
  { name: 'loads', kind: 'counter', text: 'Restores from DRAM copied in full' },
  { name: 'load_failures', kind: 'counter', text: 'Restores from DRAM that failed' },
  { name: 'load_bytes', kind: 'counter', text: 'Logical bytes put into engine pages' },
  { name: 'dram_jobs_cancelled', kind: 'counter', text: 'Jobs that ended as cancelled' },
  { name: 'checksum_granules', kind: 'counter', text: 'Granules whose checksum was computed' },
  { name: 'dram_inflight_parts', kind: 'gauge', text: 'Parts queued on the stream' },
  { name: 'dram_jobs_active', kind: 'gauge', text: 'Jobs not ended' },
  { name: 'dram_jobs_fenced', kind: 'gauge', text: 'Jobs that wait for their fence' },
  { name: 'dram_stray_completions', kind: 'counter', text: 'Completions of unknown, ended or reused operations' },
]

/** Positions of this lane's histograms, in the order of DRAM_WORKER_HISTOGRAMS. */
export const DRAM_WORKER_HISTOGRAM = {
  saveDuration: 0,
  loadDuration: 1,
} as const

export const DRAM_WORKER_HISTOGRAMS: readonly HistogramSpec[] = [
  { name: 'save_duration', unit: 'us', text: 'From the request to the end of the copies of one save' },
  { name: 'load_duration', unit: 'us', text: 'From admission to the end of one restore' },
]
