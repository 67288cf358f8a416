import type { List } from '../../shared/layout/records.js'

/**
 * Cuts the descriptors of one job into the lists of as many records as it needs; `more` is 1 on all but the last.
 * An empty job still has one record, so that the lane ends it.
 */
export function sendInRecords(
  descriptors: Float64Array,
  doublesEach: number,
  descriptorsPerRecordMax: number,
  send: (list: List, more: 0 | 1) => void,
): void {
  const step = doublesEach * descriptorsPerRecordMax
  let offset = 0
  do {
    const length = Math.min(step, descriptors.length - offset)
    const more = offset + length < descriptors.length ? 1 : 0
    send({ doubles: descriptors, offset, length }, more)
    offset += length
  } while (offset < descriptors.length)
}
