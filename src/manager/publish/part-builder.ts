import { COPY } from '../../shared/layout/descriptors.js'
import type { SavePart } from './parts.js'

/** Copies of one kind, and whose they are. */
interface Copies {
  readonly entries: number[]
  /** Triples, see RUN_NUMBERS. */
  readonly runs: number[]
  readonly descriptors: number[]
}

const none = (): Copies => ({ entries: [], runs: [], descriptors: [] })

/** Puts a SavePart together: what is copied as it is comes first, then what is coded, so that a lane codes in long batches. */
export class PartBuilder {
  readonly #raw = none()
  readonly #coded = none()

  /** Copies so far. */
  get count(): number {
    return this.#raw.entries.length + this.#coded.entries.length
  }

  /** One run of `entry`, and its COPY descriptor. */
  add(
    entry: number,
    run: readonly [granule: number, firstItem: number, itemCount: number],
    copy: readonly number[],
  ): void {
    const to = copy[COPY.storedBytes] === 0 ? this.#raw : this.#coded
    to.entries.push(entry)
    to.runs.push(...run)
    to.descriptors.push(...copy)
  }

  build(): SavePart {
    const [raw, coded] = [this.#raw, this.#coded]
    return {
      entries: raw.entries.concat(coded.entries),
      runs: raw.runs.concat(coded.runs),
      descriptors: Float64Array.from(raw.descriptors.concat(coded.descriptors)),
    }
  }
}
