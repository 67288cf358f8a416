import { invariant } from '../base/invariant.js'

/**
 * The memory of a shard's extents: seven words (28 bytes) an extent, no object. Rows are taken and given back through
 * a free list and grow by doubling, so a small shard stays small. Row 0 is the sentinel END of the address order: its
 * `next` is the first extent of the shard and its `prev` the last.
 *
 *   offset, length   in alignment units (32 bits reach 2 TiB at 512 B, 16 TiB at 4 KiB)
 *   prev, next       neighbours by address; `next` also links free rows
 *   skipped          units of the gap behind the extent that the cursor has passed over
 *   owner            whoever reserved it
 *   state            FREE, RESERVED, or PUBLISHED + pins
 */
export const END = 0
export const FREE = 0
export const RESERVED = 1
export const PUBLISHED = 2

/** Rows allocated at first. */
const ROWS_MIN = 64

export class ExtentColumns {
  offset = new Uint32Array(ROWS_MIN)
  length = new Uint32Array(ROWS_MIN)
  prev = new Uint32Array(ROWS_MIN)
  next = new Uint32Array(ROWS_MIN)
  skipped = new Uint32Array(ROWS_MIN)
  owner = new Uint32Array(ROWS_MIN)
  state = new Uint32Array(ROWS_MIN)
  readonly rowsMax: number
  #live = 0
  /** Rows that were ever taken: rows above were never touched and are free. */
  #touched = 1
  #firstFree = END

  constructor(extentsMax: number) {
    invariant(Number.isSafeInteger(extentsMax) && extentsMax > 0 && extentsMax < 2 ** 31, 'a shard has extents', {
      extentsMax,
    })
    this.rowsMax = extentsMax + 1
  }

  /** Rows in use. */
  get live(): number {
    return this.#live
  }

  /** Bytes of the columns as they have grown. */
  get bytesReserved(): number {
    const { offset, length, prev, next, skipped, owner, state } = this
    return [offset, length, prev, next, skipped, owner, state].reduce((sum, column) => sum + column.byteLength, 0)
  }

  get full(): boolean {
    return this.#live === this.rowsMax - 1
  }

  /** A free row, RESERVED from now on. The caller has made sure that the table is not full. */
  take(): number {
    invariant(!this.full, 'a row is taken from a table that has one', { live: this.#live })
    let row = this.#firstFree
    if (row === END) {
      row = this.#touched++
      if (row === this.state.length) this.#grow()
    } else {
      this.#firstFree = this.next[row] as number
    }
    this.#live++
    this.state[row] = RESERVED
    return row
  }

  /** Gives a row back. */
  give(row: number): void {
    this.state[row] = FREE
    this.next[row] = this.#firstFree
    this.#firstFree = row
    this.#live--
  }

  /** Puts `row` behind `before` in the address order. */
  link(row: number, before: number): void {
    const after = this.next[before] as number
    this.prev[row] = before
    this.next[row] = after
    this.next[before] = row
    this.prev[after] = row
  }

  /** Takes `row` out of the address order. */
  unlink(row: number): void {
    const before = this.prev[row] as number
    const after = this.next[row] as number
    this.next[before] = after
    this.prev[after] = before
  }

  /** First unit behind `row`; 0 for END, the start of the shard. */
  endUnit(row: number): number {
    return (this.offset[row] as number) + (this.length[row] as number)
  }

  #grow(): void {
    const rows = Math.min(this.rowsMax, this.state.length * 2)
    const wider = (column: Uint32Array): Uint32Array<ArrayBuffer> => {
      const grown = new Uint32Array(rows)
      grown.set(column)
      return grown
    }
    this.offset = wider(this.offset)
    this.length = wider(this.length)
    this.prev = wider(this.prev)
    this.next = wider(this.next)
    this.skipped = wider(this.skipped)
    this.owner = wider(this.owner)
    this.state = wider(this.state)
  }
}
