import { invariant } from '../../shared/base/invariant.js'
import { nextRun, type Run, type RunMax } from '../../shared/codec/coded-run.js'
import { COPY } from '../../shared/layout/descriptors.js'

/** Copies between DRAM and pages that a job still has to queue, in COPY descriptors. */
export class Copies {
  readonly doubles: Float64Array
  readonly #count: number
  #next = 0

  constructor(count: number) {
    this.#count = count
    this.doubles = new Float64Array(count * COPY.doubles)
  }

  get left(): number {
    return this.#count - this.#next
  }

  /** Takes the next that go together, from `first` on. */
  take(max: RunMax): Run & { readonly first: number } {
    const first = this.#next
    const run = nextRun(this.doubles, first * COPY.doubles, this.#count * COPY.doubles, max)
    invariant(run.count > 0, 'a lane that was told of no codec gets nothing coded', { first })
    this.#next += run.count
    return { ...run, first }
  }

  drop(): void {
    this.#next = this.#count
  }
}

export const NO_COPIES = new Copies(0)
