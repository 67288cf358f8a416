import type { SharedCells } from './cells.js'
import { PARKED_JS, RUN } from './park.js'

/** What the parker needs of the thread's event loop. */
export interface EventLoop {
  /** Keeps the loop alive while nothing but a wait is pending: a referenced timer or port. */
  hold(): void
  letGo(): void
  /** Calls back after other events had their turn, so that a busy peer cannot starve them. */
  later(then: () => void): void
}

/**
 * The sleep of a thread with an event loop: the same word and the same steps as parkInJs, with Atomics.waitAsync in
 * the place of Atomics.wait. At most one wait is pending, and the loop is kept alive from `open` to `close`.
 */
export class AsyncParker {
  private readonly cells: SharedCells
  private readonly index: number
  private readonly idle: () => boolean
  private readonly turn: () => void
  private readonly loop: EventLoop
  private state: 'new' | 'open' | 'closed' = 'new'
  private readonly woken = (): void => {
    this.cells.store(this.index, RUN)
    if (this.state === 'open') this.park()
  }

  /** `turn` takes all work there is; `idle` says that there is none, looking at shared memory. */
  constructor(cells: SharedCells, index: number, idle: () => boolean, turn: () => void, loop: EventLoop) {
    this.cells = cells
    this.index = index
    this.idle = idle
    this.turn = turn
    this.loop = loop
  }

  open(): void {
    if (this.state !== 'new') return
    this.state = 'open'
    this.loop.hold()
    this.park()
  }

  /** Ends the sleeping for good; a wait that is pending runs out silently. */
  close(): void {
    if (this.state !== 'open') return
    this.state = 'closed'
    this.loop.letGo()
    this.cells.store(this.index, RUN)
    this.cells.notify(this.index, 1)
  }

  private park(): void {
    this.turn()
    if (this.state !== 'open') return
    this.cells.store(this.index, PARKED_JS)
    if (this.idle()) {
      this.cells.waitAsync(this.index, PARKED_JS, this.woken)
      return
    }
    this.cells.store(this.index, RUN)
    this.loop.later(this.woken)
  }
}
