import type { HistogramSpec, SeriesSpec } from '../shared/base/tally.js'
import { RESERVATION_PHASES } from '../shared/scheduling/query-budget.js'

/** Positions of the verbs' counters and gauges, in the order of VERB_SERIES; storage has its own list. */
export const VERB_COUNT = {
  sessions: 0,
  instances: 1,
  leases: 2,
  queriesOpen: 3,
  operationsOpen: 4,
  publicationsOpen: 5,
  publicationsWaiting: 6,
  jobsOpen: 7,
  queryReservedBytes: 8,
  queryReservedBytesPeak: 9,
  budgetWaits: 10,
  budgetBypasses: 11,
  refusals: 12,
  saves: 13,
  saveFailures: 14,
  saveBytes: 15,
  publishWaits: 16,
  publishSkippedBlocks: 17,
  loadFailures: 18,
  loadsCancelled: 19,
  syncsOpen: 20,
  preparationsOpen: 21,
  warmingsOpen: 22,
  querySpeculativeReservedBytes: 23,
  queryReservedBytesInstancePeak: 24,
  unreadBlocks: 25,
  candidateHits: 26,
  candidateMisses: 27,
  warmForegroundSkips: 28,
  ssdBackendFallbacks: 29,
  gpuWriteFallbacks: 30,
  encodedWriteFallbacks: 31,
  ranksByUring: 32,
  /** The first of RESERVATION_PHASES; the others follow in their order. */
  phases: 33,
} as const

export const VERB_SERIES: readonly SeriesSpec[] = [
  { name: 'sessions', kind: 'gauge', text: 'Engine connections' },
  { name: 'instances', kind: 'gauge', text: 'Engine starts with at least one session' },
  { name: 'leases', kind: 'gauge', text: 'Leases granted and not ended' },
  { name: 'queries_open', kind: 'gauge', text: 'Queries that load or wait to be polled' },
  { name: 'operations_open', kind: 'gauge', text: 'Restores and publications between admission and their end' },
  { name: 'publications_open', kind: 'gauge', text: 'Publications between admission and their end' },
  { name: 'publications_waiting', kind: 'gauge', text: 'Publications that wait for room in DRAM' },
  { name: 'lane_jobs_open', kind: 'gauge', text: 'Jobs that a copying lane has not answered' },
  { name: 'query_reserved_bytes', kind: 'gauge', text: 'Bytes reserved by open queries and leases' },
  { name: 'query_reserved_bytes_peak', kind: 'gauge', text: 'The most bytes reserved at once since start' },
  { name: 'query_budget_waits', kind: 'counter', text: 'Queries answered BUSY for want of budget' },
  { name: 'query_budget_bypasses', kind: 'counter', text: 'Queries cut to what the instance may ever reserve' },
  { name: 'refusals', kind: 'counter', text: 'Requests answered with an error' },
  { name: 'publishes', kind: 'counter', text: 'Publications that ended well' },
  { name: 'publish_failures', kind: 'counter', text: 'Publications that failed or were cancelled' },
  { name: 'save_bytes', kind: 'counter', text: 'Logical bytes copied from engine pages' },
  { name: 'publish_waits', kind: 'counter', text: 'Publications that had to wait for room in DRAM' },
  { name: 'publish_skipped_blocks', kind: 'counter', text: 'Blocks given up because no room came in time' },
  { name: 'load_failures', kind: 'counter', text: 'Restores that failed' },
  { name: 'loads_cancelled', kind: 'counter', text: 'Restores that ended as cancelled' },
  { name: 'syncs_open', kind: 'gauge', text: 'SYNC requests that wait' },
  { name: 'preparations_open', kind: 'gauge', text: 'Preparations that are read or wait for their claim' },
  { name: 'warmings_open', kind: 'gauge', text: 'Hints that are being read' },
  { name: 'query_speculative_reserved_bytes', kind: 'gauge', text: 'Bytes reserved by preparations and hints' },
  {
    name: 'query_reserved_bytes_instance_peak',
    kind: 'gauge',
    text: 'The most bytes that one instance had reserved at once since start',
  },
  { name: 'query_unread_blocks', kind: 'counter', text: 'Blocks found and not read because a limit stopped the reads' },
  { name: 'cache_candidate_hits', kind: 'counter', text: 'Blocks that a look into the directory found' },
  { name: 'cache_candidate_misses', kind: 'counter', text: 'Blocks that a look into the directory did not find' },
  { name: 'warmup_foreground_skips', kind: 'counter', text: 'Blocks of hints that were in DRAM already' },
  {
    name: 'ssd_backend_fallbacks',
    kind: 'counter',
    text: 'Times that a cuFile failure stopped new cuFile work: 0 or 1; a start-up fallback is in ssd_backend_info',
    feature: 'cufile',
  },
  {
    name: 'ssd_gpu_write_fallbacks',
    kind: 'counter',
    text: 'Write jobs that went by DRAM because eight GPU writes of their instance and device were admitted',
    feature: 'cufile',
  },
  {
    name: 'ssd_encoded_write_fallbacks',
    kind: 'counter',
    text: 'Parts of publications whose codings could not be held on their device together, or not yet: written from DRAM',
    feature: 'cufile',
  },
  {
    name: 'ssd_uring_ranks',
    kind: 'gauge',
    text: 'Ranks whose pages cuFile does not reach: their SSD reads and writes go by io_uring',
    feature: 'cufile',
  },
  ...RESERVATION_PHASES.map(
    (phase): SeriesSpec => ({
      name: 'query_reserved_bytes_by_phase',
      kind: 'gauge',
      text: 'Reserved bytes by what they are for; a scrape may overlap a transition, so never add them up',
      labels: { phase },
    }),
  ),
]

/** The gauges of one window after another, in the order of `windows`; they come after all other series of the page. */
export function reuseSeries(windows: readonly { readonly name: string }[]): SeriesSpec[] {
  return windows.flatMap(({ name }): SeriesSpec[] => {
    const labels = { window: name }
    return [
      { name: 'hll_cardinality', kind: 'gauge', text: 'Different blocks asked for in the window, estimated', labels },
      { name: 'hll_total_requests', kind: 'gauge', text: 'Blocks asked for in the window', labels },
      {
        name: 'hll_estimated_hit_rate',
        kind: 'gauge',
        text: 'Part of them that a cache without bounds would have had, estimated',
        labels,
      },
    ]
  })
}

export const VERB_HISTOGRAM = { publishDuration: 0, restoreDuration: 1 } as const

export const VERB_HISTOGRAMS: readonly HistogramSpec[] = [
  { name: 'publish_duration', unit: 'us', text: 'From the admission of a publication to its end' },
  { name: 'restore_duration', unit: 'us', text: 'From the admission of a restore to its terminal slot' },
]
