import { invariant } from '../base/invariant.js'
import { type Cells, SharedCells } from './cells.js'
import { noNativeWake, PeerWaker } from './park.js'

/**
 * The words that one actor shows to all others. Main makes them and keeps them for ever.
 *
 *   byte 0     park word (park.ts); the addon reads it too, as element 0 of `parkWord`
 *   byte 128   number of the actor's port plus 1, 0 while it has none: whom native wake-ups go to
 *   byte 256   1 once the actor's loop has ended by itself: an exit of its thread is then no death
 */
const CONTROL_BYTES = 384
export const PARK_WORD = 0
const PORT_WORD = 32
const LEFT_WORD = 64

/** Makes an actor's control words. */
export function createControl(): SharedArrayBuffer {
  return new SharedArrayBuffer(CONTROL_BYTES)
}

/** Control words as the actor itself and its peers use them. */
export class ActorControl {
  readonly cells: SharedCells
  /** For PortOptions.parkWord. */
  readonly parkWord: Int32Array

  constructor(buffer: SharedArrayBuffer) {
    invariant(buffer.byteLength === CONTROL_BYTES, 'control words have one size', { bytes: buffer.byteLength })
    this.parkWord = new Int32Array(buffer)
    this.cells = new SharedCells(this.parkWord)
  }

  /** Says whom native wake-ups go to. Before `ready`, by the actor. */
  publishPort(port: number): void {
    this.cells.store(PORT_WORD, port + 1)
  }

  /** The actor's port, or -1. */
  port(): number {
    return this.cells.load(PORT_WORD) - 1
  }

  /** Says that the loop has ended in order. By the actor, as its last word. */
  sayLeft(): void {
    this.cells.store(LEFT_WORD, 1)
  }

  hasLeft(): boolean {
    return this.cells.load(LEFT_WORD) === 1
  }
}

/** Wakes the actor behind `control`. `wakePort` is the addon's wake, or null where no addon is loaded. */
export function wakerOf(control: ActorControl, wakePort: ((port: number) => void) | null): PeerWaker {
  const cells: Cells = control.cells
  if (wakePort === null) return new PeerWaker(cells, PARK_WORD, noNativeWake)
  return new PeerWaker(cells, PARK_WORD, () => {
    const port = control.port()
    invariant(port >= 0, 'an actor publishes its port before it parks natively')
    wakePort(port)
  })
}
