import { type MessageCodec, rawRecord } from '../../shared/rings/codec.js'
import type { RingConsumer } from '../../shared/rings/ring.js'

/**
 * The reading end of a ring, as messages. A message's list is a window of the ring: it is the reader's until
 * `release`, and who needs it longer copies it.
 */
export class Inbox<M> {
  private readonly ring: RingConsumer
  private readonly codec: MessageCodec<M>
  private readonly record = rawRecord()

  constructor(ring: RingConsumer, codec: MessageCodec<M>) {
    this.ring = ring
    this.codec = codec
  }

  /** Hands at most `limit` messages to `each`, in order; returns how many. Their lists live until `release`. */
  take(limit: number, each: (message: M) => void): number {
    const { ring, codec, record } = this
    let count = 0
    while (count < limit && ring.take(record)) {
      each(codec.decode(record))
      count++
    }
    return count
  }

  /** Gives back everything taken, in one store. */
  release(): void {
    this.ring.release()
  }

  /** Take and release in one: for readers that are done with each message when `each` returns. */
  drain(limit: number, each: (message: M) => void): number {
    const count = this.take(limit, each)
    this.ring.release()
    return count
  }

  /** True when no message waits; looks at shared memory. */
  empty(): boolean {
    return this.ring.empty()
  }
}
