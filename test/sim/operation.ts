import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import type { PageRef } from './pages.js'
import type { Rank } from './process.js'
import type { SlotEnd } from './slots.js'
import { must } from './violation.js'

/** One PUBLISH or RESTORE as the engine sees it, from its frame to the end of its slot. */
export class Operation {
  readonly rank: Rank
  readonly slot: number
  readonly generation: number
  readonly kind: 'publish' | 'restore'
  readonly pages: readonly PageRef[]
  /** Layers of the pages that it concerns; null for all. */
  readonly layers: readonly number[] | null
  /** `end` null: refused, nothing was started. */
  readonly ended: (end: SlotEnd | null) => void
  answered = false
  seenTerminal = false
  cancelAsked = false

  constructor(
    rank: Rank,
    slot: number,
    generation: number,
    kind: Operation['kind'],
    pages: readonly PageRef[],
    layers: readonly number[] | null,
    ended: Operation['ended'],
  ) {
    this.rank = rank
    this.slot = slot
    this.generation = generation
    this.kind = kind
    this.pages = pages
    this.layers = layers
    this.ended = ended
  }

  /** CANCELLED is for what somebody cancelled. */
  mayEndIn(state: number, leaving: boolean): void {
    must(
      state !== SLOT_STATE.cancelled || this.cancelAsked || leaving,
      'C7',
      () => `${this.text()} was cancelled by nobody`,
    )
  }

  text(): string {
    return `${this.kind} of rank ${this.rank.number} in slot ${this.slot} generation ${this.generation}`
  }
}
