import { invariant } from '../../shared/base/invariant.js'
import { alignUp, PAGE_BYTES, SECTOR_BYTES } from '../../shared/base/units.js'
import { WordRows } from '../../shared/directory/word-rows.js'
import type { GranuleSpec } from '../../shared/layout/regions.js'

/** One granule as one entry stores it: `bytes` in the extent, of which checksums cover what GranuleSpec says. */
export type StoredGranule = Pick<GranuleSpec, 'bytes' | 'segmentBytes' | 'segmentStrideBytes'>

/**
 * How long the granules of each entry are, for a class in which some are coded: each is one item there, and its *length*
 * is what is stored of it. Equal to the item's bytes it means raw, less means encoded; nothing else says so.
 *
 *   row of an entry | length of granule 0 ... n - 1 | pages of all in the pool | sectors of all in the extent |
 *
 * A granule takes its length rounded up to sectors in the extent, one after the other, and rounded up to pages in the
 * pool. Rows have the numbers of the entry's checksums, and live as long.
 */
export class StoredLengths {
  readonly #specs: readonly GranuleSpec[]
  readonly #rows: WordRows
  readonly #pages: number
  readonly #sectors: number
  #reached = -1

  constructor(specs: readonly GranuleSpec[], rowsMax: number) {
    this.#specs = specs
    this.#pages = specs.length
    this.#sectors = specs.length + 1
    this.#rows = new WordRows(specs.length + 2, rowsMax)
  }

  /** A new entry: every granule has the length that is expected of it. */
  begin(row: number): void {
    while (this.#reached < row) this.#rows.reach(++this.#reached)
    let pages = 0
    let sectors = 0
    for (const [granule, { expectedBytes }] of this.#specs.entries()) {
      this.#rows.set(row, granule, expectedBytes)
      pages += pagesOf(expectedBytes)
      sectors += sectorsOf(expectedBytes)
    }
    this.#rows.set(row, this.#pages, pages)
    this.#rows.set(row, this.#sectors, sectors)
  }

  storedBytes(row: number, granule: number): number {
    return this.#rows.get(row, granule)
  }

  encoded(row: number, granule: number): boolean {
    return this.storedBytes(row, granule) < this.#spec(granule).segmentBytes
  }

  granule(row: number, granule: number): StoredGranule {
    const segmentBytes = this.storedBytes(row, granule)
    const bytes = alignUp(segmentBytes, SECTOR_BYTES)
    return { bytes, segmentBytes, segmentStrideBytes: bytes }
  }

  /** What the granule has turned out to be. */
  set(row: number, granule: number, storedBytes: number): void {
    const most = this.#spec(granule).segmentBytes
    invariant(
      Number.isInteger(storedBytes) && storedBytes > 0 && storedBytes <= most,
      'a coding is no longer than its item',
      {
        granule,
        storedBytes,
        most,
      },
    )
    const before = this.storedBytes(row, granule)
    this.#rows.set(row, granule, storedBytes)
    this.#add(row, this.#pages, pagesOf(storedBytes) - pagesOf(before))
    this.#add(row, this.#sectors, sectorsOf(storedBytes) - sectorsOf(before))
  }

  /** Pool bytes of a replica. */
  dramBytes(row: number): number {
    return this.#rows.get(row, this.#pages) * PAGE_BYTES
  }

  extentBytes(row: number): number {
    return this.#rows.get(row, this.#sectors) * SECTOR_BYTES
  }

  /** Where the granule begins in the extent; walks over those before it. */
  extentOffsetBytes(row: number, granule: number): number {
    let sectors = 0
    for (let before = 0; before < granule; before++) sectors += sectorsOf(this.storedBytes(row, before))
    return sectors * SECTOR_BYTES
  }

  #add(row: number, word: number, delta: number): void {
    this.#rows.set(row, word, this.#rows.get(row, word) + delta)
  }

  #spec(granule: number): GranuleSpec {
    const spec = this.#specs[granule]
    invariant(spec !== undefined, 'a granule of this class', { granule })
    return spec
  }
}

function pagesOf(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}

function sectorsOf(bytes: number): number {
  return Math.ceil(bytes / SECTOR_BYTES)
}
