import { CapacityError, IoError, type OrbitError } from '../shared/base/errors.js'
import { decodeReply, encodeFrame } from '../shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX } from '../shared/layout/wire/limits.js'
import type { MessageOf, ReplyKind, WireReply, WireRequest } from '../shared/layout/wire/messages.js'
import { cancelledBy, errorOfReply, unexpectedReply } from './failures.js'
import type { Link } from './link.js'

/**
 * Requests and their replies over one link. A request that its caller gave up keeps its place until its reply comes,
 * and the reply goes to `abandoned`, which hands back what it granted: nothing is leased that nobody knows of.
 */

/** Requests without a reply at once: bounds the table; a client that waits for replies never gets near. */
export const REQUESTS_OUTSTANDING_MAX = 4096

/** An error that answers no request: the Manager takes no session of this peer, or cuts it, and closes. */
const REFUSED_REQUEST = 0

/** A reply and the descriptors that came with it, which are the receiver's. */
export interface Reply<K extends ReplyKind> {
  readonly message: MessageOf<K>
  readonly fds: readonly number[]
}

export interface AskOptions {
  readonly fds?: readonly number[]
  readonly signal?: AbortSignal | undefined
  /** Told of a reply that came after the signal ended the wait. */
  readonly abandoned?: (reply: WireReply) => void
  /** Number of the request, when the caller has taken one already. */
  readonly request?: number
}

interface Pending {
  /** Keeps the place when the caller leaves. */
  settled: boolean
  readonly resolve: (reply: WireReply, fds: readonly number[]) => void
  readonly reject: (error: OrbitError) => void
  readonly abandoned: ((reply: WireReply) => void) | undefined
}

export class Exchange {
  readonly #link: Link
  readonly #pending = new Map<number, Pending>()
  /** One frame at a time is encoded here; the link copies it. */
  readonly #scratch = new Uint8Array(FRAME_BYTES_MAX)
  readonly #sent: () => void
  #lastRequest = 0
  #closed: OrbitError | null = null

  constructor(link: Link, sent: () => void) {
    this.#link = link
    this.#sent = sent
  }

  get outstanding(): number {
    return this.#pending.size
  }

  /** Why nothing can be sent any more, or null. */
  get closed(): OrbitError | null {
    return this.#closed
  }

  /** Number of the next request, for a caller that must know it before it sends. */
  takeRequest(): number {
    return ++this.#lastRequest
  }

  /**
   * Sends a request; the promise gives one of the replies `kinds`, 'error' among them only if asked for.
   * Throws at once when nothing was sent: ClosedError after the link's end, CapacityError capacity_queue when too much
   * is outstanding or the Manager does not read, CancelledError by an aborted signal. Rejects with the typed error of
   * an ERROR reply, CancelledError by the signal, ClosedError by the link's end.
   */
  ask<K extends ReplyKind>(message: WireRequest, kinds: readonly K[], options: AskOptions = {}): Promise<Reply<K>> {
    const { signal } = options
    if (signal?.aborted) throw cancelledBy(signal, message.kind)
    const request = options.request ?? this.takeRequest()
    this.#send(request, message, options.fds ?? [])
    return new Promise<Reply<K>>((resolve, reject) => {
      const leave = () => {
        pending.settled = true
        reject(cancelledBy(signal as AbortSignal, message.kind))
      }
      const pending: Pending = {
        settled: false,
        abandoned: options.abandoned,
        resolve: (reply, fds) => {
          signal?.removeEventListener('abort', leave)
          if (isOneOf(reply, kinds)) resolve({ message: reply, fds })
          else if (reply.kind === 'error') reject(errorOfReply(reply))
          else {
            const error = unexpectedReply(message.kind, reply.kind)
            reject(error)
            throw error
          }
        },
        reject: (error) => {
          signal?.removeEventListener('abort', leave)
          reject(error)
        },
      }
      this.#pending.set(request, pending)
      signal?.addEventListener('abort', leave, { once: true })
      this.#sent()
    })
  }

  #send(request: number, message: WireRequest, fds: readonly number[]): void {
    if (this.#closed !== null) throw this.#closed
    if (this.#pending.size >= REQUESTS_OUTSTANDING_MAX) {
      throw new CapacityError('capacity_queue', `Cannot send ${message.kind}: ${this.#pending.size} requests wait`, {
        outstanding: this.#pending.size,
      })
    }
    const result = this.#link.send(this.#scratch, encodeFrame(this.#scratch, request, message), fds)
    if (result === -EAGAIN) {
      throw new CapacityError('capacity_queue', `Cannot send ${message.kind}: the Manager does not read`)
    }
    // The other end has closed. What it said before that, and its end, are on the way to receive() and close().
    if (result === -EPIPE || result === -ECONNRESET) return
    if (result < 0) throw new IoError('io_write_failed', `Cannot send ${message.kind}: errno ${-result}`, { result })
  }

  /**
   * Takes a frame. Returns the descriptors that nobody took, for the caller to close.
   * @throws ProtocolError for a frame that is no reply of ours: the link must be given up.
   */
  receive(frame: Uint8Array, fds: readonly number[]): readonly number[] {
    // A copy: the reply outlives the memory that the link reads into.
    const { request, message } = decodeReply(frame.slice())
    if (request === REFUSED_REQUEST && message.kind === 'error') {
      this.close(errorOfReply(message))
      return fds
    }
    const pending = this.#pending.get(request)
    if (pending === undefined) throw unexpectedReply(`no request ${request}`, message.kind)
    this.#pending.delete(request)
    if (!pending.settled) {
      pending.resolve(message, fds)
      return message.kind === 'registered' ? [] : fds
    }
    pending.abandoned?.(message)
    return fds
  }

  /** Ends everything that waits, and refuses what comes later. */
  close(error: OrbitError): void {
    if (this.#closed !== null) return
    this.#closed = error
    const waiting = [...this.#pending.values()]
    this.#pending.clear()
    for (const pending of waiting) if (!pending.settled) pending.reject(error)
  }
}

const EAGAIN = 11
const EPIPE = 32
const ECONNRESET = 104

function isOneOf<K extends ReplyKind>(reply: WireReply, kinds: readonly K[]): reply is MessageOf<K> {
  return (kinds as readonly ReplyKind[]).includes(reply.kind)
}
