import type { ErrorCode } from '../../shared/base/errors.js'
import type { ShardPlace } from './ports.js'
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
    emit: (fill: Fill, first: number, count: number) => void,
  ) {
    this.entry = entry
    this.place = place
    this.granules = new Uint8Array(granules)
    this.unsent = granules
    this.startedUs = nowUs
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
