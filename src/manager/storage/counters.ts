import type { Feature, HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'

/**
 * Positions of storage's counters and gauges in the manager's part of the counter page, in the order of
 * STORAGE_SERIES. Logical bytes (a block's stored bytes) and physical bytes (lanes) are counted by different owners.
 */
export const STORAGE_COUNT = {
  poolUsedBytes: 0,
  poolCapacityBytes: 1,
  poolLargestFreeBytes: 2,
  poolAllocFailures: 3,
  inflightBytes: 4,
  inflightGcCleaned: 5,
  residentBytes: 6,
  residentReclaimable: 7,
  blockHits: 8,
  blockMisses: 9,
  requestsRam: 10,
  requestsSsd: 11,
  requestsMiss: 12,
  insertions: 13,
  evictions: 14,
  evictionsStillReferenced: 15,
  evictionReclaimedBytes: 16,
  blocksLost: 17,
  invalidations: 18,
  directoryEntries: 19,
  directoryEvictions: 20,
  ssdUsedBytes: 21,
  ssdPinnedBytes: 22,
  pinnedWriteSkips: 23,
  ssdOverwrites: 24,
  writeQueuePending: 25,
  writeQueueBytes: 26,
  writesReserved: 27,
  writesAdmitted: 28,
  writesCommitted: 29,
  writeQueueFull: 30,
  dropQueueFull: 31,
  dropNoSpacePinned: 32,
  dropTooLarge: 33,
  dropFailed: 34,
  dropDiskFull: 35,
  dropDraining: 36,
  dropInvalidated: 37,
  fillsStarted: 38,
  fillsDone: 39,
  fillsFailed: 40,
  fillsCancelled: 41,
  fillsInflight: 42,
  fillBytes: 43,
  fillsJoined: 44,
  readQueuePending: 45,
  strayReplies: 46,
  poolUsedBytesPeak: 47,
  residentProbationary: 48,
  residentRetained: 49,
  protectedBytes: 50,
  promotions: 51,
  demotions: 52,
  admissionRejections: 53,
  evictedReclaimable: 54,
  evictedProbationary: 55,
  evictedRetained: 56,
  skipCold: 57,
  skipResident: 58,
  skipPending: 59,
  skipDuplicate: 60,
  warmPreparedBytes: 61,
  warmRestoredBytes: 62,
  warmUnusedBytes: 63,
  warmPendingBytes: 64,
  warmWaitRestored: 65,
  warmWaitUnused: 66,
  codecLogicalBytes: 67,
  codecStoredBytes: 68,
  codecSkips: 69,
} as const

const gauge = (name: string, text: string): SeriesSpec => ({ name, kind: 'gauge', text })
const counter = (name: string, text: string, labels?: Record<string, string>): SeriesSpec =>
  labels === undefined ? { name, kind: 'counter', text } : { name, kind: 'counter', text, labels }
const tier = (name: string): SeriesSpec =>
  counter('cache_tier_block_requests', 'Blocks of answered queries by the tier that has them', { tier: name })
const dropped = (reason: string): SeriesSpec =>
  counter('ssd_write_drops', 'Sealed blocks that did not reach the SSD, by reason', { reason })

const resident = (of: string, feature?: Feature): SeriesSpec => ({
  ...gauge('cache_resident_blocks', 'Published blocks in DRAM, in the order in which classes are evicted'),
  labels: { class: of },
  ...(feature === undefined ? {} : { feature }),
})
const evicted = (of: string, feature?: Feature): SeriesSpec => ({
  ...counter('cache_block_evictions_by_class', 'DRAM replicas dropped, by class', { class: of }),
  ...(feature === undefined ? {} : { feature }),
})
const skipped = (reason: string): SeriesSpec =>
  counter('ssd_write_admission_skips', 'Saves of blocks that were not offered to the SSD, by reason', { reason })
const coded = (kind: string): SeriesSpec => ({
  ...counter('storage_codec_bytes', 'Bytes of encoded items: as the engine has them, and as they are stored', { kind }),
  feature: 'codec',
})
const waited = (outcome: string): SeriesSpec =>
  counter('warmup_wait_byte_seconds', 'Bytes read on a guess times the seconds until their outcome', { outcome })

export const STORAGE_SERIES: readonly SeriesSpec[] = [
  gauge('pool_used_bytes', 'Bytes of the pinned pool in use'),
  gauge('pool_capacity_bytes', 'Bytes of the pinned pool'),
  gauge('pool_largest_free_bytes', 'Largest allocation that would succeed without eviction'),
  counter('pool_alloc_failures', 'Allocations that failed after eviction'),
  gauge('inflight_bytes', 'Pool bytes of blocks that are being assembled'),
  counter('inflight_gc_cleaned', 'Unfinished blocks given up for their age'),
  gauge('cache_resident_bytes', 'Pool bytes of published blocks in DRAM'),
  resident('reclaimable'),
  counter('cache_block_hits', 'Blocks of answered queries that some tier has'),
  counter('cache_block_misses', 'Blocks of answered queries that no tier has'),
  tier('ram'),
  tier('ssd'),
  tier('miss'),
  counter('cache_block_insertions', 'Blocks sealed into DRAM'),
  counter('cache_block_evictions', 'DRAM replicas dropped to gain space or by request'),
  counter('cache_block_evictions_still_referenced', 'DRAM replicas kept by a cleanup because someone needs them'),
  counter('cache_eviction_reclaimed_bytes', 'Pool bytes that evictions gave back'),
  counter('cache_blocks_lost', 'Blocks whose last replica was dropped'),
  counter('cache_invalidations', 'Published blocks that were hidden'),
  gauge('directory_entries', 'Rows of the directory in use'),
  counter('directory_evictions', 'Blocks dropped because the directory was full'),
  gauge('ssd_used_bytes', 'Bytes of live extents'),
  gauge('ssd_read_pinned_bytes', 'Bytes of extents that may not be overwritten'),
  counter('ssd_pinned_write_skips', 'Pinned or unfinished extents that the write cursor went around'),
  counter('ssd_block_overwrites', 'SSD replicas overwritten by newer blocks'),
  gauge('ssd_write_queue_pending', 'Sealed blocks that wait for their write'),
  gauge('ssd_write_queue_bytes', 'Bytes of sealed blocks that wait for their write'),
  gauge('ssd_write_reserved', 'Writes with a reserved extent that have not ended'),
  counter('ssd_write_admitted', 'Sealed blocks accepted for writing'),
  counter('ssd_write_commits', 'Writes whose block became findable on SSD'),
  counter('ssd_write_queue_full', 'Sealed blocks dropped because the write queue was full'),
  dropped('queue_full'),
  dropped('no_space_pinned'),
  dropped('too_large'),
  dropped('failed'),
  dropped('disk_full'),
  dropped('draining'),
  dropped('invalidated'),
  counter('ssd_fills', 'Reads of whole blocks into DRAM that started'),
  counter('ssd_fill_success', 'Reads of whole blocks that ended verified'),
  counter('ssd_fill_failures', 'Reads of whole blocks that failed or did not verify'),
  counter('ssd_fills_cancelled', 'Reads of whole blocks that nobody waited for and that ended unread'),
  gauge('ssd_fills_inflight', 'Reads of whole blocks that have not ended'),
  counter('ssd_fill_bytes', 'Bytes of blocks read into DRAM and verified'),
  counter('query_coalesced_reads', 'Waiters that joined the read of another'),
  gauge('ssd_read_credit_waits', 'Granules that wait for a place among the outstanding reads'),
  counter('storage_stray_replies', 'Replies of lanes that matched nothing outstanding'),
  gauge('pool_used_bytes_peak', 'The most bytes of the pinned pool in use at once since start'),
  resident('probationary'),
  resident('retained', 'protection'),
  { ...gauge('cache_protected_bytes', 'Pool bytes of the protected segment'), feature: 'protection' },
  {
    ...counter('cache_policy_promotions', 'Blocks that a use moved into the protected segment'),
    feature: 'protection',
  },
  { ...counter('cache_policy_demotions', 'Blocks that made room in the protected segment'), feature: 'protection' },
  {
    ...counter('cache_block_admission_rejections', 'Blocks not taken into DRAM because they are asked for too rarely'),
    feature: 'lfu',
  },
  evicted('reclaimable'),
  evicted('probationary'),
  evicted('retained', 'protection'),
  skipped('cold'),
  skipped('resident'),
  skipped('pending'),
  skipped('duplicate'),
  counter('warmup_prepared_bytes', 'Bytes of blocks read on a guess'),
  counter('warmup_restored_bytes', 'Bytes of such blocks that were then put into engine pages'),
  counter('warmup_unused_bytes', 'Bytes of such blocks that left DRAM without a use'),
  gauge('warmup_pending_bytes', 'Bytes of such blocks that are in DRAM without a use yet'),
  waited('restored'),
  waited('unused'),
  coded('logical'),
  coded('stored'),
  {
    ...counter('storage_codec_skips', 'Items that the codec was given and that are stored raw'),
    feature: 'codec',
  },
]

/** Positions of storage's histograms, in the order of STORAGE_HISTOGRAMS. */
export const STORAGE_HISTOGRAM = {
  residencePressureUs: 0,
  residenceCleanupUs: 1,
  fillUs: 2,
  writeUs: 3,
  fillThroughput: 4,
  writeThroughput: 5,
} as const

const residence = (reason: string): HistogramSpec => ({
  name: 'cache_residence_duration',
  unit: 'us',
  text: 'From residency in DRAM to eviction',
  labels: { reason },
})

export const STORAGE_HISTOGRAMS: readonly HistogramSpec[] = [
  residence('pressure'),
  residence('cleanup'),
  { name: 'ssd_fill_duration', unit: 'us', text: 'From the request to the end of reading one block into DRAM' },
  { name: 'ssd_write_block_duration', unit: 'us', text: 'From the seal to the end of the write of one block' },
  { name: 'ssd_prefetch_throughput', unit: 'bytes_per_second', text: 'Speed of reading one block into DRAM' },
  { name: 'ssd_write_throughput', unit: 'bytes_per_second', text: 'Speed of writing one block' },
]

/** Why a sealed block did not reach the SSD. */
export type WriteDrop =
  | 'queue_full'
  | 'no_space_pinned'
  | 'too_large'
  | 'failed'
  | 'disk_full'
  | 'draining'
  | 'invalidated'

/** The counter of each reason. */
export const WRITE_DROP_COUNT: Readonly<Record<WriteDrop, number>> = {
  queue_full: STORAGE_COUNT.dropQueueFull,
  no_space_pinned: STORAGE_COUNT.dropNoSpacePinned,
  too_large: STORAGE_COUNT.dropTooLarge,
  failed: STORAGE_COUNT.dropFailed,
  disk_full: STORAGE_COUNT.dropDiskFull,
  draining: STORAGE_COUNT.dropDraining,
  invalidated: STORAGE_COUNT.dropInvalidated,
}

/** Why a save was not offered to the SSD. */
export type WriteSkip = 'cold' | 'resident' | 'pending' | 'duplicate'

export const WRITE_SKIP_COUNT: Readonly<Record<WriteSkip, number>> = {
  cold: STORAGE_COUNT.skipCold,
  resident: STORAGE_COUNT.skipResident,
  pending: STORAGE_COUNT.skipPending,
  duplicate: STORAGE_COUNT.skipDuplicate,
}

/** By RESIDENT_CLASS. */
export const RESIDENT_CLASS_COUNT = [
  STORAGE_COUNT.residentReclaimable,
  STORAGE_COUNT.residentProbationary,
  STORAGE_COUNT.residentRetained,
] as const
export const EVICTION_CLASS_COUNT = [
  STORAGE_COUNT.evictedReclaimable,
  STORAGE_COUNT.evictedProbationary,
  STORAGE_COUNT.evictedRetained,
] as const
