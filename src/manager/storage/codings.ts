import type { Tally } from '../../shared/base/tally.js'
import type { GranuleSpec } from '../../shared/layout/regions.js'
import type { Assemblies } from './assemblies.js'
import { STORAGE_COUNT } from './counters.js'
import type { Entries } from './entries.js'

/**
 * What codecs leave of granules that are being assembled: how much room each gets, what came of it, and how much was
 * saved. An entry that is assembled no more is not counted.
 */
export class Codings {
  readonly #entries: Entries
  readonly #assemblies: Assemblies
  readonly #tally: Tally

  constructor(entries: Entries, assemblies: Assemblies, tally: Tally) {
    this.#entries = entries
    this.#assemblies = assemblies
    this.#tally = tally
  }

  /** Bytes that a codec may fill; 0: the granule is copied as it is. */
  room(entry: number, granule: number): number {
    return this.#assemblies.codes(entry, granule) ? this.#entries.granule(entry, granule).bytes : 0
  }

  /** A codec left `storedBytes` with this CRC32: a coding, or the item itself. */
  ended(entry: number, granule: number, storedBytes: number, crc32: number): void {
    this.#count(entry, granule, storedBytes)
    this.#assemblies.coded(entry, granule, storedBytes, crc32)
  }

  /** A codec left nothing: the granule will be copied as it is. */
  refused(entry: number, granule: number): void {
    this.#count(entry, granule, 0)
    this.#assemblies.keepRaw(entry, granule)
  }

  /** Stored bytes as many as the item's, or none: the codec was asked in vain. */
  #count(entry: number, granule: number, storedBytes: number): void {
    if (!this.#assemblies.has(entry)) return
    const { segmentBytes } = this.#entries.shape(entry).geometry.granules[granule] as GranuleSpec
    if (storedBytes === 0 || storedBytes === segmentBytes) return this.#tally.add(STORAGE_COUNT.codecSkips, 1)
    this.#tally.add(STORAGE_COUNT.codecLogicalBytes, segmentBytes)
    this.#tally.add(STORAGE_COUNT.codecStoredBytes, storedBytes)
  }
}
