import { type Refusal, refuse } from '../../shared/base/refusal.js'
import { CANARY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { ManagerPorts } from '../ports.js'
import { sameBytes } from './digests.js'

/**
 * Compares what the engine says stands at both ends of its regions with what the mapping shows: a wrong offset, a
 * wrong descriptor or a stale one is found here, before a page is ever copied. Ranges were checked before.
 */
export function checkCanaries(
  ports: ManagerPorts,
  message: MessageOf<'register'>,
  mappings: readonly number[],
): Refusal | null {
  for (const { region: index, firstPage, lastPage } of message.canaries) {
    const region = message.regions[index]
    if (region === undefined) {
      return refuse('geometry_invalid', `Cannot check the canary of region ${index}: there is no such region`, {
        region: index,
      })
    }
    const mapping = mappings[region.allocation] as number
    const bytes = Math.min(CANARY_BYTES, region.segmentBytes)
    const lastOffset = region.offsetBytes + (region.pageCount - 1) * region.pageStrideBytes
    const ends = [
      { expected: firstPage, offset: region.offsetBytes },
      { expected: lastPage, offset: lastOffset },
    ]
    for (const { expected, offset } of ends) {
      const found = ports.readMapping(mapping, offset, bytes)
      if (found !== null && sameBytes(found, expected.subarray(0, bytes))) continue
      return refuse(
        'canary_mismatch',
        `Cannot register layer ${region.layer}: the bytes at offset ${offset} are not those the engine sees`,
        { layer: region.layer, offset },
      )
    }
  }
  return null
}
