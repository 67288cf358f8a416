import { invariant } from '../base/invariant.js'
import { isOffset } from '../base/units.js'

/**
 * Bytes in flight to one device, under a limit that may change while they fly (a writer's window shrinks while demand
 * reads wait). Unlike a budget it always lets one piece go: a piece larger than the limit enters alone, so a small
 * window slows a lane down and never stops it. Shrinking takes nothing back; it only delays the next entry.
 */
export class ByteWindow {
  #limitBytes: number
  #inFlightBytes = 0
  #inFlight = 0
  #peakBytes = 0

  constructor(limitBytes: number) {
    invariant(isOffset(limitBytes), 'a window limit is a byte count', { limitBytes })
    this.#limitBytes = limitBytes
  }

  get limitBytes(): number {
    return this.#limitBytes
  }

  get inFlightBytes(): number {
    return this.#inFlightBytes
  }

  /** Pieces in flight. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** The most bytes that were ever in flight at once. */
  get peakBytes(): number {
    return this.#peakBytes
  }

  /** Changes the limit for entries from now on. */
  resize(limitBytes: number): void {
    invariant(isOffset(limitBytes), 'a window limit is a byte count', { limitBytes })
    this.#limitBytes = limitBytes
  }

  /** Lets a piece of `bytes` in, or refuses and changes nothing. */
  enter(bytes: number): boolean {
    invariant(isOffset(bytes) && bytes > 0, 'a piece has bytes', { bytes })
    if (this.#inFlight > 0 && bytes > this.#limitBytes - this.#inFlightBytes) return false
    this.#inFlight++
    this.#inFlightBytes += bytes
    if (this.#inFlightBytes > this.#peakBytes) this.#peakBytes = this.#inFlightBytes
    return true
  }

  /** A piece that entered with `bytes` has ended. */
  leave(bytes: number): void {
    invariant(this.#inFlight > 0 && bytes > 0 && bytes <= this.#inFlightBytes, 'only what entered leaves', {
      bytes,
      inFlight: this.#inFlight,
      inFlightBytes: this.#inFlightBytes,
    })
    this.#inFlight--
    this.#inFlightBytes -= bytes
    invariant((this.#inFlight === 0) === (this.#inFlightBytes === 0), 'bytes are in flight exactly when pieces are', {
      inFlight: this.#inFlight,
      inFlightBytes: this.#inFlightBytes,
    })
  }
}
