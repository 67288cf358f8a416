import type { Native } from '../../binding/surface.js'
import type { SlotResult } from '../../shared/layout/slot-results.js'

/** Writes a slot's result and wakes who waits for it, now. The caller is its one finisher. */
export function writeSlotResult(native: Native, result: SlotResult): void {
  const { slots, slot, slotGeneration, state, errorCode, firstFailed, bytes, admitUs } = result
  const doneUs = native.monotonicUs()
  native.slotFinish(slots, slot, slotGeneration, state, errorCode, firstFailed, bytes, admitUs, doneUs)
}
