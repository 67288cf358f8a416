import { SOURCE } from '../layout/descriptors.js'
import { type List, listAt } from '../layout/records.js'

/** SOURCE descriptors of a restore, as planners read them: `source` is a position among them, `at` a field of SOURCE. */

export function sourceField(sources: List, source: number, at: number): number {
  return listAt(sources, source * SOURCE.doubles + at)
}

/** What is stored of a granule, and how it is verified: all who name one granule agree on it. */
const STORED_FIELDS = [
  SOURCE.bytes,
  SOURCE.segmentBytes,
  SOURCE.segmentStrideBytes,
  SOURCE.crc32,
  SOURCE.encoded,
] as const

/** Whether two sources say the same of what is stored. */
export function sameStored(sources: List, a: number, b: number): boolean {
  return STORED_FIELDS.every((at) => sourceField(sources, a, at) === sourceField(sources, b, at))
}
