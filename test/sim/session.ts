import { decodeReply, encodeFrame } from '../../src/shared/layout/wire/frame.js'
import type { ReplyKind, WireReply, WireRequest } from '../../src/shared/layout/wire/messages.js'
import type { Opened } from './descriptors.js'
import type { ManagerProcess } from './manager-process.js'
import { must } from './violation.js'
import type { Link, Peer } from './wire.js'

const scratch = new Uint8Array(1024 * 1024)

/** What one connection belongs to. */
export interface SessionOwner {
  readonly pid: number
  /** Everything that arrives waits while the process is paused. */
  deliver(run: () => void): void
  closed(session: ClientSession): void
}

/**
 * One connection of an engine process: real frames through the real codec, one reply a request. A reply nobody asked
 * for, a second one, or one that does not decode is a violation.
 */
export class ClientSession implements Peer {
  readonly uid: number
  readonly pid: number
  /** Read by the world's ports: whose classes are being defined, and whether slots may be made. */
  model: unknown
  slotsExhausted = false
  /** Templates that there is memory for; the next one is refused. */
  templatesLeft = Number.POSITIVE_INFINITY
  readonly #manager: ManagerProcess
  readonly #owner: SessionOwner
  readonly #link: Link
  readonly #waiting = new Map<number, { kind: string; then: (reply: WireReply, opened: readonly Opened[]) => void }>()
  #next = 1
  #open = true

  constructor(manager: ManagerProcess, owner: SessionOwner, uid: number) {
    this.#manager = manager
    this.#owner = owner
    this.uid = uid
    this.pid = owner.pid
    this.#link = manager.wire.connect(this)
  }

  noTemplate(): boolean {
    return this.templatesLeft-- <= 0
  }

  get open(): boolean {
    return this.#open
  }

  /** The connection is over, on either side, whether the process knows or not. */
  get cut(): boolean {
    return !this.#link.managerOpen || !this.#link.peerOpen
  }

  get outstanding(): number {
    return this.#waiting.size
  }

  outstandingKinds(): string {
    return [...this.#waiting.values()].map(({ kind }) => kind).join(',')
  }

  request(
    message: WireRequest,
    then: (reply: WireReply, opened: readonly Opened[]) => void,
    opened: readonly Opened[] = [],
  ): void {
    if (!this.#open) return
    const request = this.#next++
    this.#waiting.set(request, { kind: message.kind, then })
    const bytes = encodeFrame(scratch, request, message)
    this.#manager.wire.send(this.#link, scratch.slice(0, bytes), opened)
  }

  /** A frame of the caller's making that says it is request `request`; `then` takes the reply to it, if one comes. */
  raw(bytes: Uint8Array, request: number, then: (reply: WireReply) => void): void {
    if (!this.#open) return
    this.#waiting.set(request, { kind: 'raw', then })
    this.#manager.wire.send(this.#link, bytes, [])
  }

  /** Bytes that are no frame. */
  garbage(bytes: Uint8Array): void {
    if (this.#open) this.#manager.wire.send(this.#link, bytes, [])
  }

  hangUp(): void {
    this.#end()
    this.#manager.wire.hangUp(this.#link)
  }

  received(frame: Uint8Array, opened: readonly Opened[]): void {
    this.#owner.deliver(() => {
      if (!this.#open) return
      const { request, message } = decodeReply(frame)
      const waiting = this.#waiting.get(request)
      // Request 0 is the answer to a connection that was not let in, or to a frame without a header.
      if (waiting === undefined && message.kind === 'error' && request === 0) return
      must(waiting !== undefined, 'O5', () => `a reply ${message.kind} to request ${request}, which waits for none`)
      this.#waiting.delete(request)
      this.#manager.world.mixHash(message.kind.length * 257 + request)
      waiting?.then(message, opened)
    })
  }

  closed(): void {
    this.#owner.deliver(() => {
      if (!this.#open) return
      this.#end()
      this.#owner.closed(this)
    })
  }

  #end(): void {
    this.#open = false
    this.#waiting.clear()
  }
}

/** The reply is of one of these kinds, or an error with one of these codes. */
export function expectReply(
  verb: string,
  reply: WireReply,
  kinds: readonly ReplyKind[],
  codes: ReadonlySet<number>,
): void {
  const allowed = reply.kind === 'error' ? codes.has(reply.code) : kinds.includes(reply.kind)
  must(
    allowed,
    'X1',
    () => `${verb} is answered by ${JSON.stringify(reply.kind === 'error' ? [reply.code, reply.message] : reply.kind)}`,
  )
}
