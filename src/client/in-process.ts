import type { Port } from '../binding/port.js'
import type { Native } from '../binding/surface.js'
import type { OrbitClient } from './client.js'
import { greetOver } from './connect.js'
import type { Link, LinkEvent, SlotLines } from './link.js'
import { NativeLink } from './native-link.js'
import type { Greeting, WaitOptions } from './requests.js'

/**
 * Sessions with a Manager whose lanes are threads of this process. The protocol is that of any session; what differs
 * is how the end of the Manager shows: its process is ours and lives on, so whoever started the lanes says when they
 * have all ended, and only then does nothing touch the pages any more.
 */

/** A session, and what its owner tells it once every lane has ended. */
export interface InProcessSession {
  readonly client: OrbitClient
  lanesEnded(): void
}

/** Told of the end of the lanes before a session is there: a Manager that dies may leave its end of the pair open. */
export interface Connecting {
  readonly begun: Set<() => void>
}

/**
 * Connects over a pair of sockets. Until the session is there, `connecting.begun` holds what it would be told of the
 * lanes' end with. `hand` gives the Manager its end, and takes the descriptor whatever comes of it.
 * @throws what `hand` throws; Error of the system (EMFILE); CancelledError by the signal.
 */
export async function connectInProcess(
  native: Native,
  hand: (fd: number) => void | Promise<void>,
  options: Greeting & WaitOptions & Connecting,
): Promise<InProcessSession> {
  const [ours, theirs] = native.socketPair()
  const link = openLink(native, ours, theirs)
  const lanesEnded = () => link.lanesEnded()
  options.begun.add(lanesEnded)
  try {
    await handOver(link, theirs, hand)
    const client = await greetOver(link, (fd) => native.closeFd(fd), options)
    return { client, lanesEnded }
  } finally {
    options.begun.delete(lanesEnded)
  }
}

async function handOver(link: Link, fd: number, hand: (fd: number) => void | Promise<void>): Promise<void> {
  try {
    await hand(fd)
  } catch (error) {
    link.close()
    throw error
  }
}

function openLink(native: Native, ours: number, theirs: number): InProcessLink {
  let adopted = false
  const join = (port: Port) => {
    adopted = true
    return port.adopt(ours)
  }
  try {
    return new InProcessLink(new NativeLink(native, join, [process.getuid?.() ?? -1]))
  } catch (error) {
    native.closeFd(theirs)
    if (!adopted) native.closeFd(ours)
    throw error
  }
}

class InProcessLink implements Link {
  readonly #inner: NativeLink
  #ended = false
  #told = false

  constructor(inner: NativeLink) {
    this.#inner = inner
  }

  lanesEnded(): void {
    this.#ended = true
  }

  send(frame: Uint8Array, bytes: number, fds: readonly number[]): number {
    return this.#inner.send(frame, bytes, fds)
  }

  poll(each: (event: LinkEvent) => void): void {
    // Looked at first: what the Manager sent before its end is taken before its end is told.
    const ended = this.#ended
    this.#inner.poll(each)
    if (!ended || this.#told) return
    this.#told = true
    each({ kind: 'peer-exited' })
  }

  openSlots(fds: readonly number[], count: number): SlotLines {
    return this.#inner.openSlots(fds, count)
  }

  close(): void {
    this.#inner.close()
  }
}
