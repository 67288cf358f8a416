import { invariant } from '../base/invariant.js'
import { alignDown, alignUp, PAGE_BYTES } from '../base/units.js'
import { NO_OFFSET, SOURCE } from '../layout/descriptors.js'
import type { List } from '../layout/records.js'
import { sameStored, sourceField } from './sources.js'

/** Granules whose checksums one staging slot may have outstanding: as many pages as a slot holds. */
export const SLOT_GRANULES_MAX = 1024

/** One read into a staging slot: granules `firstRead … firstRead + readCount - 1` of the plan. */
export interface StagingRead {
  readonly file: number
  /** A multiple of 4 KiB, as are `bytes`: granules start and end on 512 bytes, so the edges may be overread. */
  readonly fileOffsetBytes: number
  readonly bytes: number
  readonly firstRead: number
  readonly readCount: number
}

/** What a restore reads through staging and whom each granule serves. Sources are positions in the job's list. */
export interface StagingReadPlan {
  /** Sources that are in DRAM: copied from there, no read. */
  readonly resident: Int32Array
  readonly batches: readonly StagingRead[]
  /** For each granule the first source that names it, in the order of files and offsets. */
  readonly reads: Int32Array
  /** Granule r serves the sources scatter[scatterFirst[r]] … scatter[scatterFirst[r + 1] - 1]. */
  readonly scatterFirst: Int32Array
  readonly scatter: Int32Array
}

/**
 * Merges the sources of a restore, across leases, into reads of one file each. Granules join the read before them when
 * their pages touch or overlap it and it stays within a slot: nothing that nobody asked for is read except to the next
 * page boundary. Cuts fall between granules, so each can be verified by itself; what is larger than a slot (a
 * checkpoint) is several granules and hence several reads.
 */
export function planStagingReads(sources: List, slotBytes: number): StagingReadPlan {
  const count = sources.length / SOURCE.doubles
  invariant(Number.isInteger(count), 'a source list holds whole descriptors', { length: sources.length })
  const resident: number[] = []
  const stored: number[] = []
  for (let source = 0; source < count; source++) {
    if (sourceField(sources, source, SOURCE.poolOffsetBytes) === NO_OFFSET) stored.push(source)
    else resident.push(source)
  }
  const file = (source: number) => sourceField(sources, source, SOURCE.file)
  const offset = (source: number) => sourceField(sources, source, SOURCE.fileOffsetBytes)
  stored.sort((a, b) => file(a) - file(b) || offset(a) - offset(b) || a - b)

  const reads: number[] = []
  const scatterFirst: number[] = []
  for (const [at, source] of stored.entries()) {
    const last = reads[reads.length - 1]
    if (last !== undefined && file(last) === file(source) && offset(last) === offset(source)) {
      invariant(sameGranule(sources, last, source), 'one place in a file holds one granule', { source })
      continue
    }
    reads.push(source)
    scatterFirst.push(at)
  }
  scatterFirst.push(stored.length)
  return {
    resident: Int32Array.from(resident),
    batches: merge(sources, reads, slotBytes),
    reads: Int32Array.from(reads),
    scatterFirst: Int32Array.from(scatterFirst),
    scatter: Int32Array.from(stored),
  }
}

function merge(sources: List, reads: readonly number[], slotBytes: number): StagingRead[] {
  const batches: StagingRead[] = []
  for (const [read, source] of reads.entries()) {
    const file = sourceField(sources, source, SOURCE.file)
    const offsetBytes = sourceField(sources, source, SOURCE.fileOffsetBytes)
    const start = alignDown(offsetBytes, PAGE_BYTES)
    const end = alignUp(offsetBytes + sourceField(sources, source, SOURCE.bytes), PAGE_BYTES)
    invariant(end - start <= slotBytes, 'a granule fits a staging slot', { source, bytes: end - start })
    const last = batches[batches.length - 1]
    if (last !== undefined && last.file === file && last.readCount < SLOT_GRANULES_MAX) {
      const lastEnd = last.fileOffsetBytes + last.bytes
      const bytes = Math.max(end, lastEnd) - last.fileOffsetBytes
      if (start <= lastEnd && bytes <= slotBytes) {
        batches[batches.length - 1] = { ...last, bytes, readCount: last.readCount + 1 }
        continue
      }
    }
    batches.push({ file, fileOffsetBytes: start, bytes: end - start, firstRead: read, readCount: 1 })
  }
  return batches
}

function sameGranule(sources: List, a: number, b: number): boolean {
  return (
    sourceField(sources, a, SOURCE.generation) === sourceField(sources, b, SOURCE.generation) &&
    sameStored(sources, a, b)
  )
}
