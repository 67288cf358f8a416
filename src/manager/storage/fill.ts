import type { ErrorCode } from '../../shared/base/errors.js'
import type { FillPurpose, ShardPlace } from './ports.js'
import type { ReadJob } from './read-credits.js'

/** A granule whose read is outstanding, and one whose read has ended. */
export const SENT = 1
export const ENDED = 2

/** One block on its way from SSD to DRAM. It holds an interest, and its memory, until every submitted read has ended. */
export class Fill implements ReadJob {
  readonly entry: number
  readonly place: ShardPlace
  readonly startedUs: number
  readonly waiters: number[] = []
  /** Waiters that left last and are told when the device has let go. */
  readonly drainers: number[] = []
  /** It began as a guess. */
  readonly guess: boolean
  /** A request waits for it, or did. */
  demanded: boolean
  /** 0, SENT or ENDED for each granule; they are sent in order. */
  readonly granules: Uint8Array
  readonly #emit: (fill: Fill, first: number, count: number) => void
  unsent: number
  outstanding = 0
  /** It is among those that wait for credits. */
  queued = false
  /** The first failure; nothing new is sent after it. */
  status: ErrorCode = 'ok'

  constructor(
    entry: number,
    place: ShardPlace,
    granules: number,
    nowUs: number,
    purpose: FillPurpose,
    emit: (fill: Fill, first: number, count: number) => void,
  ) {
    this.entry = entry
    this.place = place
    this.granules = new Uint8Array(granules)
    this.unsent = granules
    this.startedUs = nowUs
    this.guess = purpose === 'speculation'
    this.demanded = !this.guess
    this.#emit = emit
  }

  send(credits: number): void {
    const first = this.granules.length - this.unsent
    this.granules.fill(SENT, first, first + credits)
    this.unsent -= credits
    this.outstanding += credits
    if (this.unsent === 0) this.queued = false
    this.#emit(this, first, credits)
  }
}
