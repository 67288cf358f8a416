import { invariant } from '../../shared/base/invariant.js'
import type { RawRecord } from '../../shared/layout/records.js'
import { clearRecord, type MessageCodec, rawRecord } from '../../shared/rings/codec.js'
import type { RingProducer } from '../../shared/rings/ring.js'

/**
 * Records that may wait in JavaScript for room in a ring. Far above what the lanes' own limits let a sender have
 * outstanding (at most a few hundred jobs a ring), so passing it means that somebody sends without a limit.
 */
export const OUTBOX_PENDING_MAX = 65536

/**
 * The writing end of a ring, as messages. When the ring is full, messages wait here in order; nothing is refused and
 * nothing is lost. `send` copies everything, lists included. Nothing is visible to the peer before `flush`.
 */
export class Outbox<M> {
  private readonly ring: RingProducer
  private readonly codec: MessageCodec<M>
  private readonly record = rawRecord()
  private waiting: RawRecord[] = []
  private first = 0

  constructor(ring: RingProducer, codec: MessageCodec<M>) {
    this.ring = ring
    this.codec = codec
  }

  send(message: M): void {
    const { record } = this
    clearRecord(record)
    this.codec.encode(message, record)
    if (this.pending === 0 && this.ring.push(record)) return
    invariant(this.pending < OUTBOX_PENDING_MAX, 'a sender keeps within its limits', { pending: this.pending })
    this.waiting.push(copyOf(record))
  }

  /** Moves what waits into the ring as far as it has room and publishes; true when nothing waits any more. */
  flush(): boolean {
    while (this.first < this.waiting.length && this.ring.push(this.waiting[this.first] as RawRecord)) this.first++
    if (this.first === this.waiting.length) {
      if (this.first > 0) this.waiting = []
      this.first = 0
    } else if (this.first >= 1024) {
      this.waiting = this.waiting.slice(this.first)
      this.first = 0
    }
    this.ring.publish()
    return this.waiting.length === 0
  }

  /** Messages that wait in JavaScript for room in the ring. */
  get pending(): number {
    return this.waiting.length - this.first
  }

  /**
   * For a sender about to sleep, after its park word was set: true when flushing again would achieve nothing now; the
   * consumer then wakes the sender when there is room.
   */
  stalled(): boolean {
    return this.pending === 0 || this.ring.stalled()
  }
}

function copyOf(record: RawRecord): RawRecord {
  const { list } = record
  const doubles = list.doubles.slice(list.offset, list.offset + list.length)
  return {
    kind: record.kind,
    tag: record.tag,
    fields: record.fields.slice(),
    list: { doubles, offset: 0, length: list.length },
  }
}
