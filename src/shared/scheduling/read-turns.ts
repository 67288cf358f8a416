import { invariant } from '../base/invariant.js'

/** How the reads of one query are cut and when they stop. */
export interface ReadLimits {
  /** Bytes submitted at once; 0: everything. */
  readonly batchBytes: number
  /** Batches after which nothing more is submitted; 0: no bound. */
  readonly batchesMax: number
  /** From this time on nothing is submitted; Infinity: no bound. Microseconds. */
  readonly deadlineUs: number
}

export const READ_EVERYTHING: ReadLimits = { batchBytes: 0, batchesMax: 0, deadlineUs: Number.POSITIVE_INFINITY }

/** Items [first, end) of the plan to submit now. */
export interface ReadTurn {
  readonly first: number
  readonly end: number
}

/**
 * Whose turn it is among the blocks that one query must read: in the order of the plan, a batch at a time, the next one
 * when the last has ended in full; without batches everything that is planned at once. After a stop nothing new is submitted; what was submitted ends by itself. Knows no
 * block and no device.
 */
export class ReadTurns {
  readonly #limits: ReadLimits
  #bytes: ArrayLike<number> = []
  #next = 0
  #outstanding = 0
  #batches = 0
  #stopped = false
  #late = false

  constructor(limits: ReadLimits) {
    this.#limits = limits
  }

  /** What is to be read from here on, in its order: bytes of each item. What was submitted is not among it. */
  plan(bytes: ArrayLike<number>): void {
    this.#bytes = bytes
    this.#next = 0
  }

  get outstanding(): number {
    return this.#outstanding
  }

  /** Items of the plan that were not submitted. */
  get unread(): number {
    return this.#bytes.length - this.#next
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** The deadline stopped it with something left to read. */
  get late(): boolean {
    return this.#late
  }

  /** Nothing is outstanding and nothing more will be submitted. */
  get settled(): boolean {
    return this.#outstanding === 0 && (this.#stopped || this.unread === 0)
  }

  /** The batch to submit now; null when there is none, or its turn has not come. */
  next(nowUs: number): ReadTurn | null {
    const { batchBytes, batchesMax, deadlineUs } = this.#limits
    const waits = batchBytes > 0 && this.#outstanding > 0
    if (this.#stopped || waits || this.unread === 0) return null
    this.#late = nowUs >= deadlineUs
    if (this.#late || (batchesMax > 0 && this.#batches >= batchesMax)) {
      this.#stopped = true
      return null
    }
    const first = this.#next
    this.#next = this.#endOf(first)
    this.#outstanding += this.#next - first
    this.#batches++
    return { first, end: this.#next }
  }

  /** One submitted item has ended. */
  ended(): void {
    invariant(this.#outstanding > 0, 'an item that ends was submitted')
    this.#outstanding--
  }

  /** Nothing new is submitted from here on. */
  stop(): void {
    this.#stopped = true
  }

  /** As many items as fit into a batch, at least one. */
  #endOf(first: number): number {
    const { batchBytes } = this.#limits
    if (batchBytes === 0) return this.#bytes.length
    let end = first + 1
    let bytes = this.#bytes[first] as number
    while (end < this.#bytes.length && bytes + (this.#bytes[end] as number) <= batchBytes) {
      bytes += this.#bytes[end++] as number
    }
    return end
  }
}
