import type { Link, LinkEvent, SlotLines } from '../../src/client/link.js'
import { SLOT_RESULT } from '../../src/client/link.js'
import { decodeRequest, encodeFrame, type Framed } from '../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX } from '../../src/shared/layout/wire/limits.js'
import type { MessageOf, RequestKind, WireReply, WireRequest } from '../../src/shared/layout/wire/messages.js'
import { NONE_FAILED, slotWord } from '../../src/shared/layout/wire/slots.js'

/** One slot line as both sides see it. */
export interface FakeLine {
  /** The client's word. */
  generation: number
  submitted: boolean
  opId: number
  fence: number
  managerWord: number
  result: number[]
}

/** What a finished line says besides its word. */
export interface FinishFields {
  readonly errorCode?: number
  readonly firstFailed?: number
  readonly bytes?: number
}

/**
 * The Manager's end of a Link, in the same thread: records what the client sends and answers as a test tells it. Every
 * frame goes through the codec both ways.
 */
export class FakeManager implements Link {
  readonly requests: (Framed<WireRequest> & { fds: readonly number[] })[] = []
  readonly lines: FakeLine[] = []
  /** Lines as they were freed: [slot, generation]. */
  readonly freed: [number, number][] = []
  readonly descriptorsOpened: number[] = []
  /** Answers given without a test's help, by kind of the request. */
  readonly answers = new Map<RequestKind, (request: Framed<WireRequest>) => void>()
  sendResult = 0
  closed = false
  linesClosed = false
  readonly #events: LinkEvent[] = []
  readonly #waiting: [RequestKind, (request: Framed<WireRequest>) => void][] = []

  send(frame: Uint8Array, bytes: number, fds: readonly number[]): number {
    if (this.sendResult !== 0) return this.sendResult
    const framed = decodeRequest(frame.slice(0, bytes))
    this.requests.push({ ...framed, fds })
    this.answers.get(framed.message.kind)?.(framed)
    const waiting = this.#waiting.findIndex(([kind]) => kind === framed.message.kind)
    if (waiting >= 0) this.#waiting.splice(waiting, 1)[0]?.[1](framed)
    return 0
  }

  poll(each: (event: LinkEvent) => void): void {
    for (let event = this.#events.shift(); event !== undefined; event = this.#events.shift()) {
      each(event)
      // As the real link: the memory of a frame is used again.
      if (event.kind === 'frame') event.frame.fill(0xee)
    }
  }

  openSlots(fds: readonly number[], count: number): SlotLines {
    this.descriptorsOpened.push(...fds)
    for (let i = 0; i < count; i++) {
      this.lines.push({ generation: 0, submitted: false, opId: 0, fence: 0, managerWord: 0, result: [] })
    }
    return {
      submit: (index, generation, opId, fence) => {
        Object.assign(this.line(index), { generation, opId, fence, submitted: true })
      },
      raiseFence: (index, fence) => {
        this.line(index).fence = fence
      },
      free: (index, generation) => {
        this.line(index).submitted = false
        this.freed.push([index, generation])
      },
      poll: (index, result) => {
        result.set(this.line(index).result)
        return this.line(index).managerWord
      },
      close: () => {
        this.linesClosed = true
      },
    }
  }

  close(): void {
    this.closed = true
  }

  line(index: number): FakeLine {
    const line = this.lines[index]
    if (line === undefined) throw new Error(`no line ${index}`)
    return line
  }

  /** Requests of one kind so far. */
  sent<K extends RequestKind>(kind: K): MessageOf<K>[] {
    return this.requests
      .map(({ message }) => message)
      .filter((message): message is MessageOf<K> => message.kind === kind)
  }

  /** The next request of this kind; ask for it before the client sends it. */
  async next<K extends RequestKind>(kind: K): Promise<Framed<MessageOf<K>>> {
    return await new Promise((resolve) => {
      this.#waiting.push([kind, (framed) => resolve(framed as Framed<MessageOf<K>>)])
    })
  }

  reply(request: number, message: WireReply, fds: readonly number[] = []): void {
    const target = new Uint8Array(FRAME_BYTES_MAX)
    this.raw(target.slice(0, encodeFrame(target, request, message)), fds)
  }

  raw(frame: Uint8Array, fds: readonly number[] = []): void {
    this.#events.push({ kind: 'frame', frame, fds })
  }

  hangUp(): void {
    this.#events.push({ kind: 'closed' })
  }

  exit(): void {
    this.#events.push({ kind: 'peer-exited' })
  }

  /** Writes the Manager's line. */
  finish(slot: number, generation: number, state: number, fields: FinishFields = {}): void {
    const result = Array.from({ length: SLOT_RESULT.doubles }, () => 0)
    result[SLOT_RESULT.firstFailed] = fields.firstFailed ?? NONE_FAILED
    result[SLOT_RESULT.errorCode] = fields.errorCode ?? 0
    result[SLOT_RESULT.bytes] = fields.bytes ?? 0
    Object.assign(this.line(slot), { result, managerWord: slotWord(generation, state) })
  }

  /** Answers requests of a kind at once. */
  always(kind: RequestKind, answer: (message: WireRequest) => WireReply, fds: readonly number[] = []): this {
    this.answers.set(kind, ({ request, message }) => this.reply(request, answer(message), fds))
    return this
  }
}

/** A fake Manager that greets, registers with `slots` slots and acknowledges releases, cancels and leaving. */
export function obligingManager(slots = 2): FakeManager {
  const ack = (): WireReply => ({ kind: 'ack' })
  return new FakeManager()
    .always('hello', () => ({
      kind: 'welcome',
      proto: 1,
      managerEpoch: 5,
      limits: { queriesOutstanding: 8, keysPerQuery: 100, slots, frameBytes: FRAME_BYTES_MAX },
      features: 1,
    }))
    .always(
      'register',
      () => ({
        kind: 'registered',
        session: 1,
        sessionGeneration: 2,
        sealed: true,
        ranksPresent: 1,
        storageNamespace: new Uint8Array(32).fill(9),
        granuleBytesMax: 1048576,
        slots,
      }),
      [101, 102, 103],
    )
    .always('release', ack)
    .always('cancel', ack)
    .always('unregister', ack)
}
