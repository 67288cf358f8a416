import { ConfigError } from '../base/errors.js'
import { invariant } from '../base/invariant.js'
import { isOffset } from '../base/units.js'
import { END, ExtentColumns, FREE, PUBLISHED, RESERVED } from './extent-columns.js'
import { REFUSED_PINNED, REFUSED_TABLE_FULL, REFUSED_TOO_LARGE } from './refusals.js'

/** Alignment units that one shard may have: offsets are kept in 32 bits. */
const UNITS_MAX = 2 ** 32 - 1

/**
 * The allocator of one SSD shard. It behaves like a ring (a reservation overwrites the oldest extents), but it skips
 * extents that are pinned or in flight and goes on behind them, so that one long lease costs its own bytes and never
 * the shard.
 *
 * Extents never overlap, never straddle the physical end, and are handed out again only when published and unpinned.
 * The cursor stands behind the extent placed last; `reserve` walks from there, each lap passes an extent at most once,
 * so its cost is what it evicts plus what it skips. Bytes are conserved: capacity = used + free + skipped, where
 * skipped bytes are gaps that the cursor has passed over and will fill when it comes round again.
 */
export class ExtentShard {
  /** Whole alignment units only: the capacity is rounded down. */
  readonly capacityBytes: number
  readonly alignmentBytes: number
  readonly extentsMax: number
  readonly #units: number
  readonly #rows: ExtentColumns
  /** The extent placed last, or END at the start of the shard: the next window begins behind it. */
  #cursor = END
  #usedUnits = 0
  #skippedUnits = 0
  #inFlightUnits = 0
  #pinnedUnits = 0
  /** Extents pinned or in flight. */
  #blockedExtents = 0
  #pinnedSkips = 0
  /** No run of this many units can be overwritten now; 0 when that is not known. */
  #refusedUnits = 0

  /** @throws ConfigError when the shard has no whole unit, or more of them than 32 bits count. */
  constructor(capacityBytes: number, alignmentBytes: number, extentsMax: number) {
    invariant(isOffset(capacityBytes) && isOffset(alignmentBytes) && alignmentBytes > 0, 'a shard has a size', {
      capacityBytes,
      alignmentBytes,
    })
    this.#units = Math.floor(capacityBytes / alignmentBytes)
    if (this.#units === 0 || this.#units > UNITS_MAX) {
      throw new ConfigError(
        'config_bad_value',
        `Cannot use a shard of ${capacityBytes} bytes at ${alignmentBytes} bytes alignment: it needs 1 to ${UNITS_MAX} units, change the number of shards`,
        { capacityBytes, alignmentBytes },
      )
    }
    this.capacityBytes = this.#units * alignmentBytes
    this.alignmentBytes = alignmentBytes
    this.extentsMax = extentsMax
    this.#rows = new ExtentColumns(extentsMax)
  }

  /** Bytes of live extents, in flight or published. */
  get usedBytes(): number {
    return this.#usedUnits * this.alignmentBytes
  }

  /** Bytes of gaps that the cursor passed over: the tail that was too short, room too small between skipped extents. */
  get skippedBytes(): number {
    return this.#skippedUnits * this.alignmentBytes
  }

  get freeBytes(): number {
    return this.capacityBytes - this.usedBytes - this.skippedBytes
  }

  get pinnedBytes(): number {
    return this.#pinnedUnits * this.alignmentBytes
  }

  /** Bytes reserved and not published yet. */
  get inFlightBytes(): number {
    return this.#inFlightUnits * this.alignmentBytes
  }

  get liveExtents(): number {
    return this.#rows.live
  }

  /** Memory of the table of extents. */
  get bytesReserved(): number {
    return this.#rows.bytesReserved
  }

  /** How many pinned or in-flight extents reservations went round. */
  get pinnedSkips(): number {
    return this.#pinnedSkips
  }

  /**
   * Reserves room for `bytes`, rounded up to the alignment, invisible until published. Owners that lost their extent
   * for it are appended to `evicted`; their extents are dead at once. A refusal changes nothing and evicts nobody.
   * @returns the extent, or a negative REFUSED_* reason.
   */
  reserve(bytes: number, owner: number, evicted: number[]): number {
    invariant(isOffset(bytes) && bytes > 0, 'an extent has bytes', { bytes })
    invariant(Number.isInteger(owner) && owner >= 0 && owner <= 0xffff_ffff, 'an owner is a row number', { owner })
    const units = Math.ceil(bytes / this.alignmentBytes)
    if (units > this.#units) return REFUSED_TOO_LARGE
    if (this.#blockedExtents === this.extentsMax) return REFUSED_TABLE_FULL
    if (this.#refusedUnits > 0 && units >= this.#refusedUnits) return REFUSED_PINNED
    const before = this.#findWindow(units)
    if (before < 0) {
      this.#refusedUnits = units
      return REFUSED_PINNED
    }
    const victim = this.#rows.full ? this.#victimFrom(before) : END
    this.#skipTo(before)
    this.#evictWindow(units, evicted)
    if (this.#rows.full) this.#evict(victim, evicted)
    return this.#place(units, owner)
  }

  /** Every byte was written: the extent may be read, and overwritten when nobody pins it. */
  publish(extent: number): void {
    this.#expect(extent, RESERVED, 'only an extent in flight is published')
    this.#rows.state[extent] = PUBLISHED
    this.#inFlightUnits -= this.#lengthOf(extent)
    this.#blockedExtents--
    this.#opened(extent)
  }

  /** The write failed or was given up, and has ended: its space returns. */
  abort(extent: number): void {
    this.#expect(extent, RESERVED, 'only an extent in flight is aborted')
    this.#inFlightUnits -= this.#lengthOf(extent)
    this.#blockedExtents--
    this.#opened(this.#remove(extent))
  }

  /** One more reader: the extent is not overwritten until every pin is gone. */
  pin(extent: number): void {
    const state = this.#stateOf(extent)
    invariant(state >= PUBLISHED && state < 0xffff_ffff, 'only a published extent is pinned', { extent, state })
    this.#rows.state[extent] = state + 1
    if (state > PUBLISHED) return
    this.#pinnedUnits += this.#lengthOf(extent)
    this.#blockedExtents++
  }

  unpin(extent: number): void {
    const state = this.#stateOf(extent)
    invariant(state > PUBLISHED, 'only a pinned extent is unpinned', { extent, state })
    this.#rows.state[extent] = state - 1
    if (state - 1 > PUBLISHED) return
    this.#pinnedUnits -= this.#lengthOf(extent)
    this.#blockedExtents--
    this.#opened(extent)
  }

  /** The owner gives a published, unpinned extent up: its space returns. */
  release(extent: number): void {
    this.#expect(extent, PUBLISHED, 'only a published extent without pins is released')
    this.#remove(extent)
  }

  /** Where the extent begins in the shard's file. */
  offsetBytes(extent: number): number {
    return (this.#live(extent).offset[extent] as number) * this.alignmentBytes
  }

  /** Bytes of the extent, a multiple of the alignment. */
  bytes(extent: number): number {
    return (this.#live(extent).length[extent] as number) * this.alignmentBytes
  }

  owner(extent: number): number {
    return this.#live(extent).owner[extent] as number
  }

  published(extent: number): boolean {
    return this.#stateOf(extent) >= PUBLISHED
  }

  pins(extent: number): number {
    return Math.max(0, this.#stateOf(extent) - PUBLISHED)
  }

  /**
   * May `extent`, which a window would cover, be overwritten? The one place where pins and writes in flight are asked
   * for, and the one that the broken twin of the test leaves out.
   */
  protected mayOverwrite(extent: number): boolean {
    return this.#rows.state[extent] === PUBLISHED
  }

  /**
   * The row behind which a window of `units` begins: the first run, in ring order from the cursor, that is long enough
   * and holds nothing blocked; -1 when there is none. Counts what a window found was led round, and changes nothing else.
   */
  #findWindow(units: number): number {
    const rows = this.#rows
    let before = this.#cursor
    let start = rows.endUnit(before)
    const lapUnit = start === 0 ? this.#units : start
    let wrapped = start === 0
    let blocked = 0
    let row = rows.next[before] as number
    for (;;) {
      const edge = row === END ? this.#units : (rows.offset[row] as number)
      if (edge - start >= units) {
        this.#pinnedSkips += blocked
        return before
      }
      if (row === END) {
        if (wrapped) return -1
        wrapped = true
        start = 0
      } else if (this.mayOverwrite(row)) {
        row = rows.next[row] as number
        continue
      } else {
        blocked++
        start = rows.endUnit(row)
        if (wrapped && start >= lapUnit) return -1
      }
      before = row
      row = rows.next[row] as number
    }
  }

  /** With every row in use and not all of them blocked: the oldest extent, from the window on, that can go. */
  #victimFrom(before: number): number {
    let row = before
    do row = this.#rows.next[row] as number
    while (row === END || !this.mayOverwrite(row))
    return row
  }

  /** Moves the cursor behind `before` and counts the gaps on the way as skipped; the gap it stands in is free again. */
  #skipTo(before: number): void {
    const rows = this.#rows
    while (this.#cursor !== before) {
      const next = rows.next[this.#cursor] as number
      const edge = next === END ? this.#units : (rows.offset[next] as number)
      this.#setSkipped(this.#cursor, edge - rows.endUnit(this.#cursor))
      this.#cursor = next
    }
    this.#setSkipped(before, 0)
  }

  #evictWindow(units: number, evicted: number[]): void {
    const rows = this.#rows
    const end = rows.endUnit(this.#cursor) + units
    let row = rows.next[this.#cursor] as number
    while (row !== END && (rows.offset[row] as number) < end) {
      const next = rows.next[row] as number
      this.#evict(row, evicted)
      row = next
    }
  }

  #evict(extent: number, evicted: number[]): void {
    evicted.push(this.#rows.owner[extent] as number)
    this.#remove(extent)
  }

  /** Puts a new extent behind the cursor and moves the cursor behind it. */
  #place(units: number, owner: number): number {
    const extent = this.#rows.take()
    const rows = this.#rows
    rows.offset[extent] = rows.endUnit(this.#cursor)
    rows.length[extent] = units
    rows.owner[extent] = owner
    rows.skipped[extent] = 0
    rows.link(extent, this.#cursor)
    this.#cursor = extent
    this.#usedUnits += units
    this.#inFlightUnits += units
    this.#blockedExtents++
    return extent
  }

  /** Takes an extent out; its room joins the gap before it. @returns the row that this gap now follows. */
  #remove(extent: number): number {
    const rows = this.#rows
    const before = rows.prev[extent] as number
    const gapSkipped = rows.skipped[extent] as number
    rows.skipped[extent] = 0
    rows.skipped[before] = (rows.skipped[before] as number) + gapSkipped
    rows.unlink(extent)
    if (extent === this.#cursor) this.#cursor = before
    if (before === this.#cursor) this.#setSkipped(before, 0)
    this.#usedUnits -= this.#lengthOf(extent)
    rows.give(extent)
    return before
  }

  #setSkipped(row: number, units: number): void {
    this.#skippedUnits += units - (this.#rows.skipped[row] as number)
    this.#rows.skipped[row] = units
  }

  /**
   * What stood in the way at `row` no longer does. After a refusal, measures the run around it: the refusal stands
   * while that run is too short, so a shard full of pins answers at once and is not walked again in vain.
   */
  #opened(row: number): void {
    if (this.#refusedUnits === 0) return
    const rows = this.#rows
    let first = row
    while (first !== END && this.mayOverwrite(first)) first = rows.prev[first] as number
    let next = rows.next[first] as number
    while (next !== END && this.mayOverwrite(next)) next = rows.next[next] as number
    const edge = next === END ? this.#units : (rows.offset[next] as number)
    if (edge - rows.endUnit(first) >= this.#refusedUnits) this.#refusedUnits = 0
  }

  #lengthOf(extent: number): number {
    return this.#rows.length[extent] as number
  }

  #stateOf(extent: number): number {
    return this.#live(extent).state[extent] as number
  }

  #live(extent: number): ExtentColumns {
    invariant(extent > END && (this.#rows.state[extent] ?? FREE) !== FREE, 'an extent is alive', { extent })
    return this.#rows
  }

  #expect(extent: number, state: number, mustBeTrue: string): void {
    const is = this.#stateOf(extent)
    invariant(is === state, mustBeTrue, { extent, state: is })
  }
}
