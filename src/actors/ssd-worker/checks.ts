import { CODEC_PART_DESCRIPTORS } from '../../shared/codec/lane-series.js'
import { SLOT_GRANULES_MAX } from '../../shared/planning/staging-reads.js'
import { SSD_WORKERS_MAX } from './messages.js'
import { COPY_PARTS, STAGING_SLOTS } from './worker.js'

/**
 * Where the port writes what checksums and decodings say. Each slot of each worker has SLOT_GRANULES_MAX: for the checksums
 * of its read, then for the decodings of its granules. Behind them each part of copies has room for its decodings, then each
 * worker for its one encoding.
 */

/** Checksums that the lane can have outstanding: those of both slots of every worker. */
export const CHECKS_MAX = SSD_WORKERS_MAX * STAGING_SLOTS * SLOT_GRANULES_MAX

/** Results of a lane whose parts hold at most `codedDescriptors` decodings; 0: it has no codec. */
export function resultsOf(codedDescriptors: number): number {
  return codedDescriptors === 0 ? CHECKS_MAX : encodeBase(SSD_WORKERS_MAX, codedDescriptors)
}

/** Where those of a slot begin. */
export function checkBase(worker: number, slot: number): number {
  return (worker * STAGING_SLOTS + slot) * SLOT_GRANULES_MAX
}

/** Where those of a part of copies begin. */
export function partBase(worker: number, place: number, codedDescriptors: number): number {
  return CHECKS_MAX + (worker * COPY_PARTS + place) * codedDescriptors
}

/** Where those of a worker's encoding begin: two for each of CODEC_PART_DESCRIPTORS. */
export function encodeBase(worker: number, codedDescriptors: number): number {
  return partBase(SSD_WORKERS_MAX, 0, codedDescriptors) + worker * 2 * CODEC_PART_DESCRIPTORS
}
