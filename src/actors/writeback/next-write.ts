import { WRITE, WRITE_SPANS_MAX } from '../../shared/layout/descriptors.js'

/**
 * What of a job goes in its next write: granules that follow one another in the list and so in the file. Those that also
 * adjoin in the pool are one *span*; a write has one span (a plain write) or several (a vectored one).
 *
 * Invariants
 * - the spans of a write, one after the other, are its granules in order, no byte more or less;
 * - a write of more than one granule has at most the bytes that it was measured with and WRITE_SPANS_MAX spans.
 */
export class NextWrite {
  granules = 0
  bytes = 0
  spans = 0

  /** Takes the granule at `next` of `list` (WRITE descriptors), and those behind it while all have at most `bytesMax`. */
  measure(list: Float64Array, next: number, bytesMax: number): void {
    const count = list.length / WRITE.doubles
    this.granules = 1
    this.bytes = bytesOf(list, next)
    this.spans = 1
    for (let granule = next + 1; granule < count; granule++) {
      const bytes = this.bytes + bytesOf(list, granule)
      const spans = this.spans + (adjoins(list, granule) ? 0 : 1)
      if (bytes > bytesMax || spans > WRITE_SPANS_MAX) return
      this.granules += 1
      this.bytes = bytes
      this.spans = spans
    }
  }

  /** Makes spans of the measured granules, in their own place from `next` on: the job does not need them any more. */
  merge(list: Float64Array, next: number): void {
    let span = next
    for (let granule = next + 1; granule < next + this.granules; granule++) {
      const bytes = bytesOf(list, granule)
      if (endOf(list, span) === offsetOf(list, granule)) {
        list[span * WRITE.doubles + WRITE.bytes] = bytesOf(list, span) + bytes
        continue
      }
      span += 1
      list[span * WRITE.doubles + WRITE.poolOffsetBytes] = offsetOf(list, granule)
      list[span * WRITE.doubles + WRITE.bytes] = bytes
    }
  }
}

function adjoins(list: Float64Array, granule: number): boolean {
  return endOf(list, granule - 1) === offsetOf(list, granule)
}

function endOf(list: Float64Array, granule: number): number {
  return offsetOf(list, granule) + bytesOf(list, granule)
}

function offsetOf(list: Float64Array, granule: number): number {
  return list[granule * WRITE.doubles + WRITE.poolOffsetBytes] as number
}

function bytesOf(list: Float64Array, granule: number): number {
  return list[granule * WRITE.doubles + WRITE.bytes] as number
}
