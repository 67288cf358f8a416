import type { ReuseWindows } from '../../shared/cache/reuse-windows.js'
import type { PageStorage } from '../storage/page-storage.js'
import type { ManagerTally } from '../tally.js'

/** Where requests are counted. */
interface CountingContext {
  readonly storage: PageStorage
  readonly tally: ManagerTally
  readonly reuse: ReuseWindows | null
  readonly nowUs: number
}

/**
 * What one request asked for, by where it was found: counted once, when the request is answered. A block that was found
 * and not read, because a limit stopped the reads, is neither a hit nor a miss.
 */
export class RequestCounts {
  /** Two words a key that was asked for, in the order of the request. */
  readonly #hashes: Uint32Array
  /** 1: the key is not counted. */
  readonly #skipped: Uint8Array
  #ram = 0
  #ssd = 0
  #missed = 0
  #unread = 0

  constructor(hashes: Uint32Array) {
    this.#hashes = hashes
    this.#skipped = new Uint8Array(hashes.length / 2)
  }

  found(inDram: boolean): void {
    if (inDram) this.#ram++
    else this.#ssd++
  }

  missing(blocks: number): void {
    this.#missed += blocks
  }

  /** Key `at` of the request, which was found, is not read. */
  unread(at: number, inDram: boolean): void {
    this.#skipped[at] = 1
    this.#unread++
    if (inDram) this.#ram--
    else this.#ssd--
  }

  /** A block that was found on SSD cannot be read. */
  failed(): void {
    this.#ssd--
    this.#missed++
  }

  /** The request is answered. */
  count(context: CountingContext): void {
    const { storage, tally, reuse, nowUs } = context
    storage.countRequest(this.#ram, this.#ssd, this.#missed)
    tally.unread(this.#unread)
    for (let key = 0; key < this.#skipped.length; key++) {
      if (this.#skipped[key] === 1) continue
      const high = this.#hashes[2 * key] as number
      const low = this.#hashes[2 * key + 1] as number
      reuse?.observe(high, low, nowUs)
      storage.requested(high, low)
    }
  }
}
