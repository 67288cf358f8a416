import type { Tally } from '../../shared/base/tally.js'
import { ENTRY_STATE, NONE } from '../../shared/directory/directory.js'
import type { DramCache } from '../cache/dram-cache.js'
import { STORAGE_COUNT } from './counters.js'
import type { Entries } from './entries.js'

/** Rows looked at for one victim: bounds what one claim may cost when nearly everything is in use. */
const ROWS_PER_SEARCH = 4096

/**
 * Who makes room when the directory has no free row: an entry that only the SSD has, in the order of a hand that goes
 * round the rows, else the DRAM replica used least recently. Directories are sized so that this is rare.
 */
export class Victims {
  readonly #entries: Entries
  readonly #cache: DramCache
  readonly #tally: Tally
  #hand = 0

  constructor(entries: Entries, cache: DramCache, tally: Tally) {
    this.#entries = entries
    this.#cache = cache
    this.#tally = tally
  }

  /** Frees one row; false when everything that was looked at is in use. */
  makeRoom(): boolean {
    const entry = this.#coldest()
    if (entry === NONE) return false
    this.#tally.add(STORAGE_COUNT.directoryEvictions, 1)
    this.#tally.add(STORAGE_COUNT.blocksLost, 1)
    this.#entries.hide(entry)
    return true
  }

  #coldest(): number {
    const { directory } = this.#entries
    const rows = directory.live
    for (let left = Math.min(rows, ROWS_PER_SEARCH); left > 0; left--) {
      const entry = this.#hand
      this.#hand = (this.#hand + 1) % rows
      const idle = directory.state(entry) === ENTRY_STATE.published && directory.interests(entry) === 0
      if (idle && !this.#entries.resident(entry)) return entry
    }
    return this.#cache.oldestEvictable()
  }
}
