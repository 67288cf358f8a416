import type { Session } from './session.js'

/** One SYNC that waits: for publications that started before it, then (with `ssd`) for the writes pending then. */
export interface Sync {
  readonly session: Session
  readonly request: number
  readonly ssd: boolean
  /** Publications numbered below this must have ended. */
  readonly before: number
  /** Number under which storage knows the wait for writes; 0 while publications are still open. */
  waiter: number
}

/** The open SYNC requests. */
export class Syncs {
  readonly #open = new Set<Sync>()
  #next = 1

  get count(): number {
    return this.#open.size
  }

  [Symbol.iterator](): IterableIterator<Sync> {
    return this.#open.values()
  }

  add(sync: Sync): void {
    this.#open.add(sync)
  }

  /** A number for a wait in storage that no other wait has. */
  nextWaiter(): number {
    return this.#next++
  }

  ofWaiter(waiter: number): Sync | undefined {
    for (const sync of this.#open) if (sync.waiter === waiter) return sync
    return undefined
  }

  end(sync: Sync): void {
    this.#open.delete(sync)
  }

  /** A session left: its answers go nowhere, storage's late report finds nobody. */
  forget(session: Session): void {
    for (const sync of [...this.#open]) if (sync.session === session) this.#open.delete(sync)
  }
}
