import type { Actor } from './actor.js'
import type { Clock } from './clock.js'
import type { Descriptors, Opened } from './descriptors.js'
import type { FaultSite, Stream } from './faults.js'

/** The engine's end of one connection. */
export interface Peer {
  readonly uid: number
  readonly pid: number
  received(frame: Uint8Array, opened: readonly Opened[]): void
  closed(): void
}

/** What the Manager's loop does with what connections bring. */
export interface Listener {
  accepted(connection: number, uid: number, pid: number): void
  frame(connection: number, frame: Uint8Array, fds: readonly number[]): void
  ended(connection: number): void
}

const EAGAIN = -11

/** One connection: both ways keep their order; after an end nothing more arrives. */
export class Link {
  readonly peer: Peer
  /** The Manager's number of it; -1 before the accept and after the close. */
  connection = -1
  managerOpen = true
  peerOpen = true
  toManagerUs = 0
  toPeerUs = 0

  constructor(peer: Peer) {
    this.peer = peer
  }
}

/** The UNIX socket between engines and the Manager. */
export class Wire {
  readonly #clock: Clock
  readonly #delayUs: Stream
  readonly #fds: Descriptors
  readonly #sends: FaultSite<'peer-stuck'>
  readonly #links = new Map<number, Link>()
  /** Every link that has not ended, let in or not. */
  readonly #all = new Set<Link>()
  #actor: Actor | null = null
  #listener: Listener | null = null
  /** Who sent the frame that the Manager takes now. */
  current: Link | null = null
  frames = 0
  #next = 1

  constructor(clock: Clock, delayUs: Stream, fds: Descriptors, sends: FaultSite<'peer-stuck'>) {
    this.#clock = clock
    this.#delayUs = delayUs
    this.#fds = fds
    this.#sends = sends
  }

  get open(): number {
    return this.#links.size
  }

  serve(actor: Actor, listener: Listener): void {
    this.#actor = actor
    this.#listener = listener
  }

  connect(peer: Peer): Link {
    const link = new Link(peer)
    this.#all.add(link)
    this.#toManager(link, () => {
      // The addon never gives a number twice, so that a late effect cannot reach the wrong peer.
      const connection = this.#next++
      link.connection = connection
      this.#links.set(connection, link)
      this.#listener?.accepted(connection, peer.uid, peer.pid)
    })
    return link
  }

  /** The engine sends one frame; descriptors become the Manager's when it takes the frame. */
  send(link: Link, frame: Uint8Array, opened: readonly Opened[]): void {
    this.#toManager(link, () => {
      if (link.connection < 0) return
      this.frames++
      this.current = link
      this.#listener?.frame(
        link.connection,
        frame,
        opened.map((each) => this.#fds.open(each)),
      )
      this.current = null
      // A frame is the machine's during the step only.
      frame.fill(0xee)
    })
  }

  /** The engine's end is gone: closed, or its process died. */
  hangUp(link: Link): void {
    if (!link.peerOpen) return
    link.peerOpen = false
    this.#toManager(link, () => {
      if (link.connection < 0) return
      this.#listener?.ended(link.connection)
      this.closeConnection(link.connection)
    })
  }

  /** Port.send: copies the frame, duplicates the descriptors. */
  reply(connection: number, frame: Uint8Array, bytes: number, fds: readonly number[]): number {
    const link = this.#links.get(connection)
    if (link === undefined) return 0
    if (this.#sends.strike() !== null) return EAGAIN
    const copy = frame.slice(0, bytes)
    const opened = fds.map((fd) => this.#fds.at(fd))
    this.#toPeer(link, () => link.peer.received(copy, opened))
    return 0
  }

  /** Port.closeConnection: what was sent before still arrives, then the end. */
  closeConnection(connection: number): void {
    const link = this.#links.get(connection)
    if (link === undefined) return
    this.#links.delete(connection)
    this.#all.delete(link)
    link.connection = -1
    link.managerOpen = false
    this.#toPeer(link, () => {
      link.peerOpen = false
      link.peer.closed()
    })
  }

  /** The process is gone: every connection ends, once what was sent before has arrived. */
  die(): void {
    for (const link of this.#all) {
      link.connection = -1
      link.managerOpen = false
      this.#toPeer(link, () => {
        link.peerOpen = false
        link.peer.closed()
      })
    }
    this.#all.clear()
    this.#links.clear()
  }

  #toManager(link: Link, run: () => void): void {
    link.toManagerUs = Math.max(link.toManagerUs, this.#clock.nowUs + this.#delayUs.next())
    this.#actor?.post(link.toManagerUs - this.#clock.nowUs, run)
  }

  #toPeer(link: Link, run: () => void): void {
    link.toPeerUs = Math.max(link.toPeerUs, this.#clock.nowUs + this.#delayUs.next())
    this.#clock.after(link.toPeerUs - this.#clock.nowUs, () => {
      if (link.peerOpen) run()
    })
  }
}
