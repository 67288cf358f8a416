import { invariant } from '../base/invariant.js'
import { alignDown, alignUp, PAGE_BYTES } from '../base/units.js'
import { TARGET } from '../layout/descriptors.js'
import { type List, listAt } from '../layout/records.js'

/**
 * One write out of a staging slot. Staging holds the file's bytes from `baseOffsetBytes` on; of those the chunk writes
 * [fileOffsetBytes, fileOffsetBytes + bytes), all multiples of 4 KiB.
 */
export interface StagingChunk {
  /** TARGET.object of what it is part of. */
  readonly object: number
  readonly file: number
  readonly baseOffsetBytes: number
  readonly fileOffsetBytes: number
  readonly bytes: number
  /** From here to the end of the chunk nothing is gathered: these staging bytes are zeroed first. */
  readonly zeroFromBytes: number
  /** Targets `first … first + count - 1` are gathered. */
  readonly first: number
  readonly count: number
}

/**
 * Cuts the objects of a write job into chunks that fit a staging slot. A chunk ends on a page boundary; a granule that
 * straddles it is gathered again for the next chunk, so every byte of an extent is written exactly once, and the rest
 * of its last page as zeros. Targets of one object follow one another without a gap, from a page boundary on.
 */
export function planStagingWrites(targets: List, slotBytes: number): StagingChunk[] {
  const count = targets.length / TARGET.doubles
  invariant(Number.isInteger(count), 'a target list holds whole descriptors', { length: targets.length })
  const chunks: StagingChunk[] = []
  for (let first = 0; first < count; ) {
    const object = fieldOf(targets, first, TARGET.object)
    let end = first + 1
    while (end < count && fieldOf(targets, end, TARGET.object) === object) end++
    cut(targets, first, end, slotBytes, chunks)
    first = end
  }
  return chunks
}

function cut(targets: List, first: number, end: number, slotBytes: number, chunks: StagingChunk[]): void {
  const object = fieldOf(targets, first, TARGET.object)
  const file = fieldOf(targets, first, TARGET.file)
  const startOf = (target: number) => fieldOf(targets, target, TARGET.fileOffsetBytes)
  const endOf = (target: number) => startOf(target) + fieldOf(targets, target, TARGET.bytes)
  for (let target = first + 1; target < end; target++) {
    const joined = startOf(target) === endOf(target - 1) && fieldOf(targets, target, TARGET.file) === file
    invariant(joined, 'the granules of an object follow one another in one file', { object, target })
  }
  let cursor = startOf(first)
  invariant(cursor % PAGE_BYTES === 0, 'an extent that staging writes starts on a page', { object, cursor })
  for (let from = first; from < end; ) {
    while (endOf(from) <= cursor) from++
    const baseOffsetBytes = alignDown(startOf(from), PAGE_BYTES)
    let to = from
    while (to < end && alignUp(endOf(to), PAGE_BYTES) - baseOffsetBytes <= slotBytes) to++
    const last = to === end
    const payloadEnd = to > from ? endOf(to - 1) : cursor
    const chunkEnd = last ? alignUp(payloadEnd, PAGE_BYTES) : alignDown(payloadEnd, PAGE_BYTES)
    const bytes = chunkEnd - cursor
    invariant(bytes > 0, 'a granule fits a staging slot', { object, target: from })
    const zeroFromBytes = Math.min(payloadEnd, chunkEnd) - baseOffsetBytes
    chunks.push({
      object,
      file,
      baseOffsetBytes,
      fileOffsetBytes: cursor,
      bytes,
      zeroFromBytes,
      first: from,
      count: to - from,
    })
    cursor = chunkEnd
    if (last) return
  }
}

function fieldOf(targets: List, target: number, at: number): number {
  return listAt(targets, target * TARGET.doubles + at)
}
