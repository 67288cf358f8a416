import { invariant } from '../../shared/base/invariant.js'
import { StagingTurns } from '../../shared/scheduling/staging-turns.js'

/** Staging slots of one worker: one may write while the other reads. */
export const STAGING_SLOTS = 2
/** Parts of copies that one worker keeps on its stream. */
export const COPY_PARTS = 4

/** The way of a slot's granules into pages. */
export interface Scatter {
  /** Copies and decodings on the slot's stream. */
  inFlight: number
  /** Sources whose granules are codings, and how many of them were queued. */
  encoded: Int32Array
  next: number
}

/** What a slot is doing. A read goes from `reading` to `scattering` or, when it failed, straight to free. */
export type Batch<Restore, Write> =
  | {
      readonly kind: 'read'
      readonly job: Restore
      readonly batch: number
      readonly submittedUs: number
      readonly scatter: Scatter
    }
  | { readonly kind: 'write'; readonly job: Write; readonly chunk: number; readonly submittedUs: number }

/** What the device is said to have answered when it read or wrote less than it was asked to: EIO. */
export const SHORT = -5

/** A job as its worker sees it. */
export interface Batched {
  readonly kind: 'restore' | 'write' | 'encode'
  /** Staging slots that work for it. */
  batchesInFlight: number
  /** Batches that it has yet to start. */
  readonly batchesLeft: number
  /** Copies beside I/O that it has yet to queue. */
  readonly copies: { readonly left: number }
}

/**
 * One instance's staging on one device.
 *
 *   closed ──first job──▶ opening ──opened──▶ open ──close-worker, nothing left──▶ gone
 *     ▲                      │
 *     └── refused: its jobs fail, the next one tries again
 */
export class StagingWorker<
  Restore extends Batched & { readonly kind: 'restore' },
  Write extends Batched & { readonly kind: 'write' | 'encode' },
  Encode extends Write & { readonly kind: 'encode' },
> {
  readonly number: number
  state: 'closed' | 'opening' | 'open' = 'closed'
  /** `close-worker` has come. */
  closing = false
  readonly turns = new StagingTurns<Restore, Write>()
  /** Jobs with copies to queue; the one at the front has the next part. */
  readonly copiers: (Restore | Write)[] = []
  readonly jobs = new Set<Restore | Write>()
  /** Whose codings the arena of encoding has, or is to have, until that job has ended. */
  encoder: Encode | null = null
  /** Who has it next, in order. */
  readonly encoders: Encode[] = []
  readonly slots: (Batch<Restore, Write> | null)[] = new Array<null>(STAGING_SLOTS).fill(null)
  /** Places of the parts on the stream for copies: true while one is there. */
  readonly parts: boolean[] = new Array<boolean>(COPY_PARTS).fill(false)

  constructor(number: number) {
    this.number = number
  }

  get partsInFlight(): number {
    let count = 0
    for (const held of this.parts) if (held) count += 1
    return count
  }

  get batchesInFlight(): number {
    let count = 0
    for (const slot of this.slots) if (slot !== null) count += 1
    return count
  }

  get writesInFlight(): number {
    let count = 0
    for (const slot of this.slots) if (slot?.kind === 'write') count += 1
    return count
  }

  /** The job waits for turns with what it has; one that encodes waits for the arena first. */
  want(job: Restore | Write | Encode): void {
    if (job.kind === 'encode' && this.encoder !== job) {
      this.encoders.push(job as Encode)
      return
    }
    this.wantSlot(job)
    this.wantStream(job)
  }

  wantSlot(job: Restore | Write): void {
    if (job.batchesLeft === 0) return
    if (job.kind === 'restore') this.turns.addRead(job)
    else this.turns.addWrite(job)
  }

  wantStream(job: Restore | Write): void {
    if (job.copies.left > 0) this.copiers.push(job)
  }

  /** The job waits for nothing any more. */
  withdraw(job: Restore | Write): void {
    if (job.kind === 'restore') this.turns.removeRead(job)
    else this.turns.removeWrite(job)
    for (const line of [this.copiers, this.encoders] as (Restore | Write)[][]) {
      const at = line.indexOf(job)
      if (at >= 0) line.splice(at, 1)
    }
  }

  /** A free place on the stream for copies, or -1. */
  get freePart(): number {
    return this.parts.indexOf(false)
  }

  /** A free slot, or -1. */
  get freeSlot(): number {
    return this.slots.indexOf(null)
  }

  occupy(slot: number, batch: Batch<Restore, Write>): void {
    invariant(this.slots[slot] === null, 'a batch goes into a free slot', { worker: this.number, slot })
    this.slots[slot] = batch
    batch.job.batchesInFlight += 1
    invariant(this.writesInFlight <= 1, 'one slot is left for demand reads', { worker: this.number })
  }

  /** The slot's device work has ended, all of it. */
  vacate(slot: number): Batch<Restore, Write> {
    const batch = this.slots[slot]
    invariant(batch !== null && batch !== undefined, 'a slot that is vacated was in use', {
      worker: this.number,
      slot,
    })
    this.slots[slot] = null
    batch.job.batchesInFlight -= 1
    return batch
  }
}
