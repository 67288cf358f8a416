import { invariant } from '../base/invariant.js'
import { isOffset, PAGE_BYTES } from '../base/units.js'
import { CLASSES, ClassSet, classOf, isExact, PAGES_MAX } from './size-classes.js'

/** Ends a free list. Lists hold page + 1, so that fresh memory, all zeros, is an empty list. */
const NONE = 0

/**
 * Offsets in the pinned pool: two-level segregated fit over 4 KiB pages, in three words a page (12 bytes, 0.3 % of the
 * pool, touched only where blocks begin or end). Neighbouring free blocks are always one block.
 *
 *   tag[first page of an allocation]            pages of it
 *   tag[first page], tag[last page] of a hole   -pages of it
 *   tag elsewhere                               0
 *
 * So `free` knows an allocation by its tag alone: a second free, or a free of a page inside one, is a broken invariant
 * and never a corrupted list.
 */
export class PoolAllocator {
  /** Whole pages only: the capacity is rounded down. */
  readonly capacityBytes: number
  readonly #pages: number
  readonly #tag: Int32Array
  readonly #nextFree: Uint32Array
  readonly #prevFree: Uint32Array
  readonly #heads = new Uint32Array(CLASSES)
  readonly #classes = new ClassSet()
  #usedPages = 0
  #peakPages = 0
  #allocations = 0

  constructor(capacityBytes: number) {
    invariant(isOffset(capacityBytes), 'a pool has a size', { capacityBytes })
    this.#pages = Math.floor(capacityBytes / PAGE_BYTES)
    invariant(this.#pages > 0 && this.#pages <= PAGES_MAX, 'a pool has 1 to 2^31 - 1 pages', { capacityBytes })
    this.capacityBytes = this.#pages * PAGE_BYTES
    this.#tag = new Int32Array(this.#pages)
    this.#nextFree = new Uint32Array(this.#pages)
    this.#prevFree = new Uint32Array(this.#pages)
    this.#addHole(0, this.#pages)
  }

  get usedBytes(): number {
    return this.#usedPages * PAGE_BYTES
  }

  get freeBytes(): number {
    return this.capacityBytes - this.usedBytes
  }

  /** The most bytes that were ever allocated at once, page rounding included. */
  get peakBytes(): number {
    return this.#peakPages * PAGE_BYTES
  }

  /** Live allocations. */
  get allocations(): number {
    return this.#allocations
  }

  /**
   * The longest run that `allocate` would grant now: exact. Constant time up to 1 MiB; beyond, it looks at the blocks of
   * the top class, so ask at the rate of a gauge.
   */
  get largestFreeBytes(): number {
    const top = this.#classes.last()
    if (top < 0) return 0
    let pages = 0
    for (let hole = this.#heads[top] as number; hole !== NONE; hole = this.#nextFree[hole - 1] as number) {
      pages = Math.max(pages, this.#holePages(hole - 1))
      if (isExact(top)) break
    }
    return pages * PAGE_BYTES
  }

  /**
   * Finds room for `bytes`, rounded up to pages. Constant time up to 1 MiB; a longer run may have to look through the
   * holes of its own class.
   * @returns the offset, a multiple of 4 KiB, or -1: no hole is long enough.
   */
  allocate(bytes: number): number {
    invariant(isOffset(bytes) && bytes > 0, 'an allocation has bytes', { bytes })
    const pages = Math.ceil(bytes / PAGE_BYTES)
    if (pages > this.#pages - this.#usedPages) return -1
    const page = this.#findHole(pages)
    if (page < 0) return -1
    const rest = this.#holePages(page) - pages
    this.#removeHole(page)
    if (rest > 0) this.#addHole(page + pages, rest)
    this.#tag[page] = pages
    this.#usedPages += pages
    if (this.#usedPages > this.#peakPages) this.#peakPages = this.#usedPages
    this.#allocations++
    return page * PAGE_BYTES
  }

  /** Gives an allocation back; it joins the holes on both sides. */
  free(offsetBytes: number): void {
    const pages = this.#allocatedPages(offsetBytes)
    let first = offsetBytes / PAGE_BYTES
    let length = pages
    this.#tag[first] = 0
    const below = first > 0 ? (this.#tag[first - 1] as number) : 0
    if (below < 0) {
      first += below
      length -= below
      this.#removeHole(first)
    }
    const end = first + length
    const above = end < this.#pages ? (this.#tag[end] as number) : 0
    if (above < 0) {
      length -= above
      this.#removeHole(end)
    }
    this.#addHole(first, length)
    this.#usedPages -= pages
    this.#allocations--
  }

  /**
   * Gives the end of an allocation back: `bytes`, rounded up to pages, stay at `offsetBytes`. Constant time.
   * @returns bytes given back; 0 when no whole page is left over.
   */
  shrink(offsetBytes: number, bytes: number): number {
    const pages = this.#allocatedPages(offsetBytes)
    const kept = Math.ceil(bytes / PAGE_BYTES)
    invariant(isOffset(bytes) && kept > 0 && kept <= pages, 'an allocation shrinks to a part of itself', {
      offsetBytes,
      bytes,
      allocatedBytes: pages * PAGE_BYTES,
    })
    if (kept === pages) return 0
    const first = offsetBytes / PAGE_BYTES
    const end = first + pages
    let spare = pages - kept
    const above = end < this.#pages ? (this.#tag[end] as number) : 0
    if (above < 0) {
      spare -= above
      this.#removeHole(end)
    }
    this.#tag[first] = kept
    this.#addHole(first + kept, spare)
    this.#usedPages -= pages - kept
    return (pages - kept) * PAGE_BYTES
  }

  /** Bytes of the allocation at `offsetBytes`, page rounding included. */
  bytesAt(offsetBytes: number): number {
    return this.#allocatedPages(offsetBytes) * PAGE_BYTES
  }

  #allocatedPages(offsetBytes: number): number {
    const pages = this.#tag[offsetBytes / PAGE_BYTES] ?? 0
    invariant(pages > 0, 'an allocation begins at the offset', { offsetBytes })
    return pages
  }

  /** First page of the hole to cut, or -1. Classes above the request's own fit whole; its own is looked through. */
  #findHole(pages: number): number {
    const own = classOf(pages)
    const fits = this.#classes.next(isExact(own) ? own : own + 1)
    if (fits >= 0) return (this.#heads[fits] as number) - 1
    if (isExact(own)) return -1
    for (let hole = this.#heads[own] as number; hole !== NONE; hole = this.#nextFree[hole - 1] as number) {
      if (this.#holePages(hole - 1) >= pages) return hole - 1
    }
    return -1
  }

  #holePages(first: number): number {
    return -(this.#tag[first] as number)
  }

  #addHole(first: number, pages: number): void {
    const sizeClass = classOf(pages)
    const head = this.#heads[sizeClass] as number
    this.#tag[first] = -pages
    this.#tag[first + pages - 1] = -pages
    this.#nextFree[first] = head
    this.#prevFree[first] = NONE
    if (head === NONE) this.#classes.add(sizeClass)
    else this.#prevFree[head - 1] = first + 1
    this.#heads[sizeClass] = first + 1
  }

  #removeHole(first: number): void {
    const pages = this.#holePages(first)
    const sizeClass = classOf(pages)
    const next = this.#nextFree[first] as number
    const prev = this.#prevFree[first] as number
    if (next !== NONE) this.#prevFree[next - 1] = prev
    if (prev !== NONE) this.#nextFree[prev - 1] = next
    else {
      this.#heads[sizeClass] = next
      if (next === NONE) this.#classes.delete(sizeClass)
    }
    this.#tag[first] = 0
    this.#tag[first + pages - 1] = 0
  }
}
