import type { Tally } from '../../shared/base/tally.js'
import { STORAGE_COUNT } from '../storage/counters.js'

/**
 * What became of bytes that were read on a guess: each block is counted once as prepared and once as restored or
 * unused; until then it is pending. At any time: prepared = restored + unused + pending.
 */
export class Guesses {
  readonly #tally: Tally
  #pendingBytes = 0

  constructor(tally: Tally) {
    this.#tally = tally
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  arrived(bytes: number): void {
    this.#pendingBytes += bytes
    this.#tally.add(STORAGE_COUNT.warmPreparedBytes, bytes)
  }

  /** A request put them into engine pages after `waitUs` in DRAM. */
  restored(bytes: number, waitUs: number): void {
    this.#pendingBytes -= bytes
    this.#tally.add(STORAGE_COUNT.warmRestoredBytes, bytes)
    this.#tally.add(STORAGE_COUNT.warmWaitRestored, (bytes * waitUs) / 1e6)
  }

  /** They left DRAM after `waitUs` without a use. */
  unused(bytes: number, waitUs: number): void {
    this.#pendingBytes -= bytes
    this.#tally.add(STORAGE_COUNT.warmUnusedBytes, bytes)
    this.#tally.add(STORAGE_COUNT.warmWaitUnused, (bytes * waitUs) / 1e6)
  }
}
