import { Mutator, Random } from './mutate.js'
import type { Breach, Target } from './target.js'

/** The first breach of a target, with what brings it back. */
export interface Finding {
  readonly target: string
  readonly hex: string
  readonly breach: Breach
}

/** What one target has been through. */
export interface Progress {
  readonly target: string
  records: number
  finding: Finding | null
}

/** Between looks at the clock. */
const RECORDS_PER_LOOK = 256

/** Feeds one target. Stops at its first breach: what comes after it may only be its consequence. */
export class Feed {
  readonly progress: Progress
  readonly #target: Target
  readonly #mutator: Mutator

  constructor(target: Target, seed: number) {
    this.#target = target
    this.#mutator = new Mutator(new Random(seed))
    this.progress = { target: target.name, records: 0, finding: null }
  }

  /** Runs until `records` in total, the first breach or `over`. */
  turn(records: number, over: () => boolean): void {
    const { progress } = this
    while (progress.finding === null && progress.records < records && !over()) {
      const end = Math.min(records, progress.records + RECORDS_PER_LOOK)
      while (progress.records < end) {
        progress.records++
        const input = this.#mutator.draw(this.#target.seeds)
        const breach = tried(this.#target, input)
        if (breach === null) continue
        progress.finding = { target: this.#target.name, hex: Buffer.from(input).toString('hex'), breach }
        return
      }
    }
  }
}

/** Runs one input; what escapes from the target is a crash. */
export function tried(target: Target, input: Uint8Array): Breach | null {
  try {
    return target.run(input)
  } catch (error) {
    return { kind: 'crash', what: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }
  }
}
