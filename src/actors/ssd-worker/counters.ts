import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/** Positions of this lane's counters and gauges in its counter page, in the order of SSD_WORKER_SERIES. */
export const SSD_WORKER_COUNT = {
  readBytes: 0,
  writeBytes: 1,
  reads: 2,
  writes: 3,
  readFailures: 4,
  writeFailures: 5,
  batchesInFlight: 6,
  writesInFlight: 7,
  slotsOpen: 8,
  stagingBytes: 9,
  copiesInFlight: 10,
  jobsActive: 11,
  jobsFenced: 12,
  restoresDone: 13,
  restoresFailed: 14,
  restoresCancelled: 15,
  loadBytes: 16,
  damagedGenerations: 17,
  objectsWritten: 18,
  completionsStray: 19,
  arenasHeld: 20,
} as const

type Named = Omit<SeriesSpec, 'feature'>

const NAMED: readonly Named[] = [
  { name: 'ssd_cufile_read_bytes', kind: 'counter', text: 'Bytes read by cuFile, alignment included' },
  { name: 'ssd_cufile_write_bytes', kind: 'counter', text: 'Bytes written by cuFile, padding included' },
  { name: 'ssd_cufile_reads', kind: 'counter', text: 'Reads that cuFile completed in full' },
  { name: 'ssd_cufile_writes', kind: 'counter', text: 'Writes that cuFile completed in full' },
  { name: 'ssd_cufile_read_failures', kind: 'counter', text: 'Reads by cuFile that failed or came short' },
  { name: 'ssd_cufile_write_failures', kind: 'counter', text: 'Writes by cuFile that failed or came short' },
  {
    name: 'ssd_cufile_inflight_batches',
    kind: 'gauge',
    text: 'Staging slots in use through I/O and scatter; at most two for each instance and device',
  },
  {
    name: 'ssd_cufile_inflight_writes',
    kind: 'gauge',
    text: 'Staging slots in use by writes; at most one for each instance and device',
  },
  { name: 'ssd_cufile_slots', kind: 'gauge', text: 'Staging slots that exist' },
  { name: 'ssd_gpu_staging_bytes', kind: 'gauge', text: 'Registered GPU staging memory' },
  { name: 'ssd_cufile_inflight_copies', kind: 'gauge', text: 'Copies between DRAM and engine pages queued beside I/O' },
  { name: 'ssd_cufile_jobs_active', kind: 'gauge', text: 'Restores and write jobs of the cuFile route not ended' },
  { name: 'ssd_cufile_jobs_fenced', kind: 'gauge', text: 'Jobs of the cuFile route that wait for their fence' },
  { name: 'ssd_cufile_restores', kind: 'counter', text: 'Restores by cuFile that succeeded' },
  { name: 'ssd_cufile_restore_failures', kind: 'counter', text: 'Restores by cuFile that failed' },
  { name: 'ssd_cufile_restores_cancelled', kind: 'counter', text: 'Restores by cuFile that ended as cancelled' },
  { name: 'load_bytes', kind: 'counter', text: 'Logical bytes put into engine pages' },
  { name: 'ssd_cufile_damaged_generations', kind: 'counter', text: 'Generations found damaged' },
  { name: 'ssd_cufile_objects_written', kind: 'counter', text: 'Blocks whose bytes cuFile wrote in full' },
  {
    name: 'ssd_cufile_stray_completions',
    kind: 'counter',
    text: 'Completions of unknown, ended or reused operations',
  },
  {
    name: 'ssd_cufile_held_codings',
    kind: 'gauge',
    text: 'Publications whose codings are made, or held on their device until they are written; at most one for each instance and device',
  },
]

export const SSD_WORKER_SERIES: readonly SeriesSpec[] = NAMED.map((spec) =>
  spec.name === 'load_bytes' ? spec : { ...spec, feature: 'cufile' },
)

/** Positions of this lane's histograms, in the order of SSD_WORKER_HISTOGRAMS. */
export const SSD_WORKER_HISTOGRAM = {
  read: 0,
  write: 1,
  loadDuration: 2,
} as const

export const SSD_WORKER_HISTOGRAMS: readonly HistogramSpec[] = [
  {
    name: 'ssd_cufile_read',
    unit: 'us',
    text: 'From submission of a read to the end of its scatter, without the wait for a slot',
    feature: 'cufile',
  },
  {
    name: 'ssd_cufile_write',
    unit: 'us',
    text: 'From submission of a gather to the end of its write, without the wait for a slot',
    feature: 'cufile',
  },
  { name: 'load_duration', unit: 'us', text: 'From admission to the end of one restore' },
]
