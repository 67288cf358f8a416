import type { GranuleRun } from '../../shared/layout/granules.js'
import type { PublishItem } from './parts.js'

/** What is left to bring of one item. */
export interface Errand {
  readonly item: PublishItem
  /** Its place in the publication. */
  readonly index: number
  /** Runs that storage was not offered yet, or has to be offered again. */
  readonly left: GranuleRun[]
}

/**
 * What a publication has still to bring: items that were begun and have runs left, then those that were not begun, in
 * their order. An item is here from admission until its last run was offered, and once more when the codec refused some.
 */
export class Errands {
  readonly #items: readonly PublishItem[]
  readonly #begun: Errand[] = []
  #next = 0

  constructor(items: readonly PublishItem[]) {
    this.#items = items
  }

  /** Items that are here. */
  get count(): number {
    return this.#begun.length + this.#items.length - this.#next
  }

  /** The item whose turn it is; null: every run was offered. */
  get current(): Errand | null {
    const begun = this.#begun[0]
    if (begun !== undefined) return begun
    const item = this.#items[this.#next]
    if (item === undefined) return null
    const errand = { item, index: this.#next++, left: [...item.offered] }
    this.#begun.push(errand)
    return errand
  }

  /** Index of the item whose turn it is; past the last one when there is none. */
  get index(): number {
    return this.#begun[0]?.index ?? this.#next
  }

  has(errand: Errand): boolean {
    return this.#begun.includes(errand)
  }

  /** Nothing of the item is to be brought any more. */
  remove(errand: Errand): void {
    const at = this.#begun.indexOf(errand)
    if (at >= 0) this.#begun.splice(at, 1)
  }

  /** Some runs of these items have to be brought again: before all others, for their blocks hold memory. */
  again(refused: ReadonlyMap<Errand, readonly GranuleRun[]>): void {
    for (const [errand, runs] of refused) {
      this.remove(errand)
      errand.left.unshift(...runs)
    }
    this.#begun.unshift(...refused.keys())
  }

  /** Takes everything out. */
  takeAll(): PublishItem[] {
    const rest = [...this.#begun.map(({ item }) => item), ...this.#items.slice(this.#next)]
    this.#begun.length = 0
    this.#next = this.#items.length
    return rest
  }
}
