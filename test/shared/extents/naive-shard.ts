/** One extent of the naive shard. */
export interface NaiveExtent {
  readonly start: number
  readonly units: number
  readonly owner: number
  published: boolean
  pins: number
}

/**
 * What the extent allocator promises, written without an idea: one mark a unit, every start tried in ring order.
 * Extents are named by a number that the test gives them.
 */
export class NaiveShard {
  readonly units: number
  readonly extentsMax: number
  readonly extents = new Map<number, NaiveExtent>()
  readonly skipped: boolean[]
  cursor: number | null = null

  constructor(units: number, extentsMax: number) {
    this.units = units
    this.extentsMax = extentsMax
    this.skipped = new Array<boolean>(units).fill(false)
  }

  /** Places extent `name`; returns the owners that lost theirs, or why it cannot. */
  reserve(name: number, units: number, owner: number): number[] | 'too large' | 'pinned' | 'table full' {
    if (units > this.units) return 'too large'
    const live = [...this.extents.values()]
    if (live.length === this.extentsMax && live.every(blocked)) return 'table full'
    const lap = range(this.cursorUnit(), this.units).concat(range(0, this.cursorUnit()))
    const found = lap.findIndex((start) => this.#fits(start, units))
    if (found < 0) return 'pinned'
    for (const unit of lap.slice(0, found)) if (this.#at(unit) === null) this.skipped[unit] = true
    let start = lap[found] as number
    // The cursor now stands behind the extent that ends where the window begins, or lies before it.
    this.cursor = this.#lastBefore(start)
    const evicted: number[] = []
    const victim = this.#oldest(start)
    const covered = this.#byAddress().filter(([, e]) => e.start >= start && e.start < start + units)
    const lost = covered.length === 0 && this.extents.size === this.extentsMax && victim !== null ? [victim] : covered
    for (const [loser, extent] of lost) {
      evicted.push(extent.owner)
      this.remove(loser)
    }
    start = this.cursorUnit()
    this.extents.set(name, { start, units, owner, published: false, pins: 0 })
    this.cursor = name
    for (const unit of range(start, start + units)) this.skipped[unit] = false
    this.#freeGapAtCursor()
    return evicted
  }

  remove(name: number): void {
    const { start, units } = this.extents.get(name) as NaiveExtent
    this.extents.delete(name)
    for (const unit of range(start, start + units)) this.skipped[unit] = false
    if (this.cursor === name) this.cursor = this.#lastBefore(start)
    this.#freeGapAtCursor()
  }

  cursorUnit(): number {
    if (this.cursor === null) return 0
    const extent = this.extents.get(this.cursor) as NaiveExtent
    return extent.start + extent.units
  }

  count(which: (extent: NaiveExtent) => boolean): number {
    return [...this.extents.values()].filter(which).reduce((sum, extent) => sum + extent.units, 0)
  }

  #fits(start: number, units: number): boolean {
    if (start + units > this.units) return false
    return ![...this.extents.values()].some((e) => blocked(e) && e.start < start + units && start < e.start + e.units)
  }

  #at(unit: number): NaiveExtent | null {
    return [...this.extents.values()].find((e) => e.start <= unit && unit < e.start + e.units) ?? null
  }

  #byAddress(): [number, NaiveExtent][] {
    return [...this.extents].sort(([, a], [, b]) => a.start - b.start)
  }

  #lastBefore(unit: number): number | null {
    const below = this.#byAddress().filter(([, extent]) => extent.start < unit)
    return below.at(-1)?.[0] ?? null
  }

  #oldest(start: number): [number, NaiveExtent] | null {
    const all = this.#byAddress()
    const inOrder = all.filter(([, e]) => e.start >= start).concat(all.filter(([, e]) => e.start < start))
    return inOrder.find(([, extent]) => !blocked(extent)) ?? null
  }

  #freeGapAtCursor(): void {
    for (let unit = this.cursorUnit(); unit < this.units && this.#at(unit) === null; unit++) this.skipped[unit] = false
  }
}

function blocked(extent: NaiveExtent): boolean {
  return !extent.published || extent.pins > 0
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index)
}
