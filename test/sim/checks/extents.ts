import { PAGE_BYTES } from '../../../src/shared/base/units.js'
import { must } from '../violation.js'

/** What staging has done to one page of a file since the page was last reserved. */
const PAGE = { foreign: 0, reserved: 1, begun: 2, whole: 3 } as const

/**
 * Pages of extents that were reserved for writes from GPU pages: each is written once, and no extent is visible before
 * the device has said of each of its pages that it was written in full (V1, V2).
 */
export class Extents {
  readonly #files = new Map<number, Uint8Array>()

  /** A write job names the extent. */
  reserved(file: number, offsetBytes: number, bytes: number): void {
    this.#mark(file, offsetBytes, bytes, PAGE.reserved)
  }

  /** Somebody else writes there. */
  overwritten(file: number, offsetBytes: number, bytes: number): void {
    this.#mark(file, offsetBytes, bytes, PAGE.foreign)
  }

  /** A chunk was submitted. */
  begun(file: number, offsetBytes: number, bytes: number): void {
    this.#each(file, offsetBytes, bytes, (state, page) =>
      must(state === PAGE.reserved, 'O2', () => `page ${page} of file ${file} is written twice, or is nobody's`),
    )
    this.#mark(file, offsetBytes, bytes, PAGE.begun)
  }

  /** The device says that a chunk was written in full. */
  written(file: number, offsetBytes: number, bytes: number): void {
    this.#mark(file, offsetBytes, bytes, PAGE.whole)
  }

  mustBeWhole(file: number, offsetBytes: number, bytes: number, why: string): void {
    this.#each(file, offsetBytes, bytes, (state, page) =>
      must(
        state === PAGE.foreign || state === PAGE.whole,
        'V2',
        () => `the extent at ${offsetBytes} of file ${file} ${why}, its page ${page} was not written in full`,
      ),
    )
  }

  #mark(file: number, offsetBytes: number, bytes: number, state: number): void {
    let pages = this.#files.get(file) ?? new Uint8Array(64)
    const end = Math.ceil((offsetBytes + bytes) / PAGE_BYTES)
    if (end > pages.length) {
      const more = new Uint8Array(2 * end)
      more.set(pages)
      pages = more
    }
    this.#files.set(file, pages)
    pages.fill(state, Math.floor(offsetBytes / PAGE_BYTES), end)
  }

  #each(file: number, offsetBytes: number, bytes: number, check: (state: number, page: number) => void): void {
    const pages = this.#files.get(file)
    const end = Math.ceil((offsetBytes + bytes) / PAGE_BYTES)
    for (let page = Math.floor(offsetBytes / PAGE_BYTES); page < end; page++) check(pages?.[page] ?? 0, page)
  }
}
