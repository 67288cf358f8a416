import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/** Positions of this lane's counters and gauges in its counter page, in the order of HOST_RESTORE_SERIES. */
export const HOST_RESTORE_COUNT = {
  restoresDone: 0,
  restoresFailed: 1,
  restoresCancelled: 2,
  loadBytes: 3,
  ssdBytes: 4,
  readsShared: 5,
  damagedGenerations: 6,
  readsInFlight: 7,
  partsInFlight: 8,
  windowBytes: 9,
  jobsActive: 10,
  jobsFenced: 11,
  completionsStray: 12,
} as const

export const HOST_RESTORE_SERIES: readonly SeriesSpec[] = [
  { name: 'ssd_restores', kind: 'counter', text: 'Restores through the window that succeeded' },
  { name: 'ssd_restore_failures', kind: 'counter', text: 'Restores through the window that failed' },
  { name: 'ssd_restores_cancelled', kind: 'counter', text: 'Restores through the window that ended as cancelled' },
  { name: 'load_bytes', kind: 'counter', text: 'Logical bytes put into engine pages' },
  { name: 'ssd_restore_read_bytes', kind: 'counter', text: 'Bytes read from SSD and verified for restores' },
  { name: 'ssd_restore_shared_reads', kind: 'counter', text: 'Sources that joined a read of another source' },
  { name: 'ssd_restore_damaged_generations', kind: 'counter', text: 'Generations found damaged' },
  { name: 'ssd_restore_inflight_reads', kind: 'gauge', text: 'Granules asked of readers and not ended' },
  { name: 'ssd_restore_inflight_parts', kind: 'gauge', text: 'Parts queued on the stream' },
  { name: 'ssd_restore_window_used_bytes', kind: 'gauge', text: 'Bytes of the window in use' },
  { name: 'ssd_restores_active', kind: 'gauge', text: 'Restores not ended' },
  { name: 'ssd_restores_fenced', kind: 'gauge', text: 'Restores that wait for their fence' },
  {
    name: 'ssd_restore_stray_completions',
    kind: 'counter',
    text: 'Completions of unknown, ended or reused operations',
  },
]

/** Positions of this lane's histograms, in the order of HOST_RESTORE_HISTOGRAMS. */
export const HOST_RESTORE_HISTOGRAM = {
  loadDuration: 0,
} as const

export const HOST_RESTORE_HISTOGRAMS: readonly HistogramSpec[] = [
  { name: 'load_duration', unit: 'us', text: 'From admission to the end of one restore' },
]
