import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Context } from '../context.js'
import type { BlockReads } from './block-reads.js'

/**
 * Nobody wants the reads any more: takes them over with one ownership of the reservation, of which `keepBytes` are
 * somebody else's. The bytes of what was submitted stay charged until the device has let go of it; the rest goes now.
 */
export function drain(context: Context, reads: BlockReads, reservation: Reservation, keepBytes = 0): void {
  const { storage, fillWaiters } = context
  const left = new Map(reads.leave().map((entry) => [entry, storage.extentBytes(entry)]))
  let bytes = 0
  for (const each of left.values()) bytes += each
  reservation.shrink(Math.min(keepBytes + bytes, reservation.bytes))
  if (left.size === 0) return reservation.release()
  fillWaiters.replace(reads.ticket, {
    filled(entry) {
      const endedBytes = left.get(entry)
      if (endedBytes === undefined) return
      left.delete(entry)
      reservation.shrink(Math.max(Math.min(keepBytes, reservation.bytes), reservation.bytes - endedBytes))
      if (left.size > 0) return
      fillWaiters.remove(reads.ticket)
      reservation.release()
    },
  })
}
