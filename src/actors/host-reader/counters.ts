import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/** Positions of this lane's counters and gauges in its counter page, in the order of HOST_READER_SERIES. */
export const HOST_READER_COUNT = {
  readOperations: 0,
  readBytes: 1,
  readSuccesses: 2,
  readFailures: 3,
  checksumMismatches: 4,
  readsShort: 5,
  readsCancelled: 6,
  readsInFlight: 7,
  readsQueued: 8,
  completionsStray: 9,
} as const

export const HOST_READER_SERIES: readonly SeriesSpec[] = [
  { name: 'ssd_uring_read_operations', kind: 'counter', text: 'Reads submitted to the ring' },
  { name: 'ssd_prefetch_bytes', kind: 'counter', text: 'Bytes read in full and verified' },
  { name: 'ssd_prefetch_success', kind: 'counter', text: 'Reads that ended in full and verified' },
  { name: 'ssd_prefetch_failures', kind: 'counter', text: 'Reads that failed, came short or did not verify' },
  { name: 'ssd_checksum_mismatches', kind: 'counter', text: 'Reads whose bytes were not those published' },
  { name: 'ssd_short_reads', kind: 'counter', text: 'Reads that returned fewer bytes than asked' },
  { name: 'ssd_reads_cancelled', kind: 'counter', text: 'Reads dropped before they were submitted' },
  { name: 'ssd_prefetch_inflight', kind: 'gauge', text: 'Reads submitted and not ended' },
  { name: 'ssd_prefetch_queue_pending', kind: 'gauge', text: 'Reads waiting for a place in the ring' },
  { name: 'ssd_read_stray_completions', kind: 'counter', text: 'Completions of unknown, ended or reused operations' },
]

/** Positions of this lane's histograms, in the order of HOST_READER_HISTOGRAMS. */
export const HOST_READER_HISTOGRAM = {
  readDuration: 0,
} as const

export const HOST_READER_HISTOGRAMS: readonly HistogramSpec[] = [
  { name: 'ssd_prefetch_duration', unit: 'us', text: 'From the request to the end of one read' },
]
