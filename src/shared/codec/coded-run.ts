import { COPY } from '../layout/descriptors.js'
import { CODEC_PART_BYTES } from './lane-series.js'

/** How many COPY descriptors go to a stream together. */
export interface RunMax {
  readonly partDescriptors: number
  /** Absent: none is coded. */
  readonly codedDescriptors?: number
}

/** COPY descriptors that go to a stream together: all coded, or none. */
export interface Run {
  readonly coded: boolean
  readonly count: number
  /** Stored bytes of those that are coded. */
  readonly storedBytes: number
}

/**
 * The longest run that starts at `doubles[offset]` and ends before `doubles[end]`: it ends where the kind changes, and where
 * its stored bytes are a part full. A run is never empty, unless it is coded and `codedDescriptors` is 0.
 */
export function nextRun(doubles: Float64Array, offset: number, end: number, max: RunMax): Run {
  const coded = doubles[offset + COPY.storedBytes] !== 0
  const countMax = coded ? (max.codedDescriptors ?? 0) : max.partDescriptors
  let count = 0
  let storedBytes = 0
  for (let at = offset; at < end && count < countMax; at += COPY.doubles) {
    const bytes = doubles[at + COPY.storedBytes] as number
    if ((bytes !== 0) !== coded || (count > 0 && storedBytes + bytes > CODEC_PART_BYTES)) break
    storedBytes += bytes
    count += 1
  }
  return { coded, count, storedBytes }
}
