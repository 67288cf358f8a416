import { invariant } from '../../shared/base/invariant.js'
import { newSession, type Session } from './session.js'

/** Every session, by connection while it is connected, and all until they are removed. */
export class Sessions {
  readonly #byConnection = new Map<number, Session>()
  readonly #all = new Set<Session>()
  #next = 1

  get count(): number {
    return this.#all.size
  }

  [Symbol.iterator](): IterableIterator<Session> {
    return this.#all.values()
  }

  has(session: Session): boolean {
    return this.#all.has(session)
  }

  ofConnection(connection: number): Session | undefined {
    return this.#byConnection.get(connection)
  }

  open(connection: number, pid: number): Session {
    invariant(!this.#byConnection.has(connection), 'a connection is accepted once', { connection })
    const session = newSession(this.#next++, connection, pid)
    this.#byConnection.set(connection, session)
    this.#all.add(session)
    return session
  }

  /** The connection number may be used again; the session stays until it is removed. */
  disconnected(session: Session): void {
    if (this.#byConnection.get(session.connection) === session) this.#byConnection.delete(session.connection)
    session.connected = false
  }

  remove(session: Session): void {
    invariant(this.#all.delete(session), 'a session is removed once', { session: session.number })
  }
}
