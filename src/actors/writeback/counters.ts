import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/** Positions of this lane's counters and gauges in its counter page, in the order of WRITEBACK_SERIES. */
export const WRITEBACK_COUNT = {
  writeOperations: 0,
  writeBytes: 1,
  writeFailures: 2,
  diskFull: 3,
  jobsDropped: 4,
  jobsInFlight: 5,
  jobsQueued: 6,
  bytesInFlight: 7,
  windowBytes: 8,
  completionsStray: 9,
} as const

export const WRITEBACK_SERIES: readonly SeriesSpec[] = [
  { name: 'ssd_uring_write_operations', kind: 'counter', text: 'Writes submitted to the ring' },
  { name: 'ssd_write_bytes', kind: 'counter', text: 'Bytes written by jobs that succeeded' },
  { name: 'ssd_write_failures', kind: 'counter', text: 'Jobs that failed' },
  { name: 'ssd_write_disk_full', kind: 'counter', text: 'Jobs that failed because the disk or a quota is full' },
  { name: 'ssd_writes_dropped_at_stop', kind: 'counter', text: 'Jobs that the stop of the lane ended' },
  { name: 'ssd_write_inflight', kind: 'gauge', text: 'Jobs with writes in flight' },
  { name: 'ssd_write_queue_pending', kind: 'gauge', text: 'Jobs with nothing submitted yet' },
  { name: 'ssd_write_inflight_bytes', kind: 'gauge', text: 'Bytes submitted and not ended' },
  { name: 'ssd_write_window_bytes', kind: 'gauge', text: 'Bytes that may be in flight' },
  { name: 'ssd_write_stray_completions', kind: 'counter', text: 'Completions of unknown, ended or reused operations' },
]

/** Positions of this lane's histograms, in the order of WRITEBACK_HISTOGRAMS. */
export const WRITEBACK_HISTOGRAM = {
  writeDuration: 0,
} as const

export const WRITEBACK_HISTOGRAMS: readonly HistogramSpec[] = [
  { name: 'ssd_write_duration', unit: 'us', text: 'From the request to the end of one job' },
]
