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
      entries: joined(raw.entries, coded.entries),
      runs: joined(raw.runs, coded.runs),
      descriptors: Float64Array.from(joined(raw.descriptors, coded.descriptors)),
    }
  }
}

/** Nothing is copied where only one kind is there. */
function joined(raw: readonly number[], coded: readonly number[]): readonly number[] {
  if (coded.length === 0) return raw
  return raw.length === 0 ? coded : raw.concat(coded)
}
