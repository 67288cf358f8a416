import type { RawRecord } from '../../src/shared/layout/records.js'
import { clearRecord, type MessageCodec, rawRecord } from '../../src/shared/rings/codec.js'
import type { Actor } from './actor.js'
import type { Clock } from './clock.js'
import type { FaultSite, RING_FAULTS, Stream } from './faults.js'
import { must } from './violation.js'

/** What a channel needs besides its two ends. */
export interface ChannelOptions {
  readonly clock: Clock
  readonly delayUs: Stream
  /** Records that fit the ring; more wait with the sender. */
  readonly capacity: number
  /** Replies never wait with their sender: credits keep what is outstanding within the ring. */
  readonly credited: boolean
  readonly full: () => void
  readonly faults: FaultSite<(typeof RING_FAULTS)[number]>
}

/**
 * A ring with its outbox: messages go through the real codecs, in order, as copies; a list is the receiver's until it
 * has given its turn's records back, and is spoiled then, so that whoever keeps a window of it is found.
 */
export class Channel<M> {
  readonly name: string
  readonly #options: ChannelOptions
  readonly #codec: MessageCodec<M>
  readonly #receiver: Actor
  readonly #deliver: (message: M) => void
  readonly #waiting: RawRecord[] = []
  /** Records whose turn has given them back, for the next messages. */
  readonly #spare: RawRecord[] = []
  #inRing = 0
  #lastAtUs = 0

  constructor(
    name: string,
    codec: MessageCodec<M>,
    receiver: Actor,
    deliver: (message: M) => void,
    options: ChannelOptions,
  ) {
    this.name = name
    this.#codec = codec
    this.#receiver = receiver
    this.#deliver = deliver
    this.#options = options
  }

  /** Messages sent and not taken. */
  get pending(): number {
    return this.#inRing + this.#waiting.length
  }

  send(message: M): void {
    const record = this.#spare.pop() ?? rawRecord()
    clearRecord(record)
    this.#codec.encode(message, record)
    const { doubles, offset, length } = record.list
    record.list = { doubles: doubles.slice(offset, offset + length), offset: 0, length }
    if (this.#waiting.length === 0 && this.#inRing < this.#options.capacity) return this.#carry(record)
    must(!this.#options.credited, 'D2', () => `${this.name} holds ${this.#inRing} replies and is sent another`)
    this.#options.full()
    this.#waiting.push(record)
  }

  #carry(record: RawRecord): void {
    const { clock, delayUs, faults } = this.#options
    this.#inRing++
    const strike = faults.strike()
    const lateUs = strike?.kind === 'record-delayed' ? 1_000 + strike.amount * 40 : 0
    const heldUs = strike?.kind === 'ring-held' ? 1_000 + strike.amount * 40 : 0
    // Never earlier than the one before it: a ring keeps its order.
    this.#lastAtUs = Math.max(this.#lastAtUs, clock.nowUs + delayUs.next() + lateUs)
    this.#receiver.post(this.#lastAtUs - clock.nowUs, () => {
      this.#receiver.onRelease(() => this.#release(record, heldUs))
      this.#deliver(this.#codec.decode(record))
    })
  }

  #release(record: RawRecord, heldUs: number): void {
    record.list.doubles.fill(Number.NaN)
    this.#spare.push(record)
    if (heldUs > 0) this.#options.clock.after(heldUs, () => this.#free())
    else this.#free()
  }

  #free(): void {
    this.#inRing--
    const next = this.#waiting.shift()
    if (next !== undefined) this.#carry(next)
  }
}
