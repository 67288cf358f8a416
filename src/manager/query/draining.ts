import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Context } from '../context.js'
import type { BlockReads } from './block-reads.js'

/**
 * Whoever owned the reads has gone: takes its reservation over, keeps the bytes of what was submitted charged until
 * the device has let go of it, and gives the rest back now.
 */
export function drain(context: Context, reads: BlockReads, reservation: Reservation): void {
  const { storage, fillWaiters } = context
  const draining = reads.leave()
  if (draining.length === 0) return reservation.release()
  const left = new Map(draining.map((entry) => [entry, storage.geometryOf(entry).extentBytes]))
  let bytes = 0
  for (const each of left.values()) bytes += each
  reservation.shrink(Math.min(bytes, reservation.bytes))
  fillWaiters.replace(reads.ticket, {
    filled(entry) {
      const endedBytes = left.get(entry)
      if (endedBytes === undefined) return
      left.delete(entry)
      reservation.shrink(Math.max(0, reservation.bytes - endedBytes))
      if (left.size > 0) return
      fillWaiters.remove(reads.ticket)
      reservation.release()
    },
  })
}
