import { invariant } from '../../shared/base/invariant.js'
import { alignDown, alignUp, GRANULE_BYTES_MAX, PAGE_BYTES } from '../../shared/base/units.js'

const UNITS_MAX = GRANULE_BYTES_MAX / PAGE_BYTES

/**
 * The pool memory that restores read into: places of one size (the largest granule), each given out whole or carved
 * into equal units for smaller granules.
 *
 *   place 0          place 1          place 2
 *   +----------------+----+----+----+-+----------------+
 *   | 1 MiB granule  |300K|free|310K| | free           |      a place has one unit size until it is wholly free
 *   +----------------+----+----+----+-+----------------+
 *
 * Sizes of which a place holds as many share its unit size: what a codec stores has a length of its own for each granule,
 * and places would have as many unit sizes as there are lengths.
 *
 * It may refuse bytes that would fit after a carved place drains: its user then waits and takes nothing else, which
 * makes that place drain.
 *
 * Invariants: units given out never overlap; a unit is given back once; with everything given back every place is
 * free for any size.
 */
export class RestoreWindow {
  readonly #offsetBytes: number
  readonly #places: number
  /** Unit size of a place; 0 while it is wholly free. */
  readonly #unitBytes: Int32Array
  readonly #unitsHeld: Int32Array
  /** A byte a unit: 1 while it is given out. */
  readonly #held: Uint8Array
  #usedBytes = 0

  /** @param bytes what is beyond whole places stays unused; a window without places gives nothing out */
  constructor(offsetBytes: number, bytes: number) {
    invariant(offsetBytes % PAGE_BYTES === 0, 'a window starts on a page', { offsetBytes })
    this.#places = Math.floor(bytes / GRANULE_BYTES_MAX)
    this.#offsetBytes = offsetBytes
    this.#unitBytes = new Int32Array(this.#places)
    this.#unitsHeld = new Int32Array(this.#places)
    this.#held = new Uint8Array(this.#places * UNITS_MAX)
  }

  get capacityBytes(): number {
    return this.#places * GRANULE_BYTES_MAX
  }

  /** Bytes given out, at their cost. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  /** Bytes that a granule takes of the window, carving included. */
  costBytes(bytes: number): number {
    invariant(bytes > 0 && bytes <= GRANULE_BYTES_MAX, 'a granule fits a place', { bytes })
    return Math.floor(GRANULE_BYTES_MAX / unitsOf(bytes))
  }

  /** Pool offset of a unit for `bytes`, or -1 when none is free now. */
  take(bytes: number): number {
    const cost = this.costBytes(bytes)
    const units = unitsOf(bytes)
    const unitBytes = alignDown(Math.floor(GRANULE_BYTES_MAX / units), PAGE_BYTES)
    const place = this.#placeFor(unitBytes, units)
    if (place < 0) return -1
    const first = place * UNITS_MAX
    const unit = this.#held.indexOf(0, first) - first
    invariant(unit >= 0 && unit < units, 'a place with room has a free unit', { place, unit })
    this.#held[first + unit] = 1
    this.#unitBytes[place] = unitBytes
    this.#unitsHeld[place] = (this.#unitsHeld[place] as number) + 1
    this.#usedBytes += cost
    return this.#offsetBytes + place * GRANULE_BYTES_MAX + unit * unitBytes
  }

  /** Takes a unit back. */
  give(offsetBytes: number): void {
    const inside = offsetBytes - this.#offsetBytes
    const place = Math.floor(inside / GRANULE_BYTES_MAX)
    const unitBytes = this.#unitBytes[place] ?? 0
    const unit = (inside - place * GRANULE_BYTES_MAX) / unitBytes
    const at = place * UNITS_MAX + unit
    invariant(unitBytes > 0 && this.#held[at] === 1, 'a unit is given back once', { offsetBytes })
    this.#held[at] = 0
    this.#unitsHeld[place] = (this.#unitsHeld[place] as number) - 1
    this.#usedBytes -= this.costBytes(unitBytes)
    if (this.#unitsHeld[place] === 0) this.#unitBytes[place] = 0
  }

  /** A carved place of this unit size with room, else a free place, else -1. */
  #placeFor(unitBytes: number, units: number): number {
    let free = -1
    for (let place = 0; place < this.#places; place++) {
      const carved = this.#unitBytes[place] as number
      if (carved === unitBytes && (this.#unitsHeld[place] as number) < units) return place
      if (carved === 0 && free < 0) free = place
    }
    return free
  }
}

/** How many granules of one size a place holds. */
function unitsOf(bytes: number): number {
  return Math.floor(GRANULE_BYTES_MAX / alignUp(bytes, PAGE_BYTES))
}
