import { invariant } from '../../shared/base/invariant.js'

/**
 * What codecs hold on one device, as the manager sees it: memory that the copying lanes keep from their first coding on, and
 * give back when the last rank with pages there leaves.
 *
 *   kept ──the last rank leaves──▶ asked ──every lane has answered──▶ kept, of nothing
 *
 * Invariants
 * - the lanes are asked in rounds, one at a time; a rank that begins to wait during one waits for the next, because its own
 *   codings may have come behind the question;
 * - a rank that waits has nothing in flight, and leaves only when its round has ended;
 * - while a rank stays that does not wait, nobody waits.
 */
export class WorkspaceReleases {
  readonly #lanes: number
  readonly #ask: () => void
  /** Holds of the ranks that wait. */
  readonly #waiting = new Set<object>()
  /** Those of them that leave with the round. */
  #round: object[] = []
  /** Lanes that have not answered. */
  #unanswered = 0
  /** Their round has ended, and they have yet to leave. */
  readonly #free = new Set<object>()

  /** `ask`: every one of `lanes` lanes for what it holds. */
  constructor(lanes: number, ask: () => void) {
    this.#lanes = lanes
    this.#ask = ask
  }

  /** Lanes that were asked and have not answered. */
  get open(): number {
    return this.#unanswered
  }

  /**
   * True when a rank may leave: others stay, or the lanes gave back what they hold. Otherwise they were asked, and
   * `answered` names the rank. `ranks`: how many have pages on the device, with this one.
   */
  left(hold: object, ranks: number): boolean {
    if (this.#free.delete(hold)) return true
    if (this.#waiting.has(hold)) return false
    if (ranks - this.#waiting.size > 1) return true
    this.#waiting.add(hold)
    if (this.#unanswered === 0) this.#begin()
    return false
  }

  /** A lane gave back what it held: who leaves now. */
  answered(): readonly object[] {
    invariant(this.#unanswered > 0, 'a lane gives its workspace back when it was asked to')
    this.#unanswered -= 1
    if (this.#unanswered > 0) return []
    const round = this.#round
    for (const hold of round) {
      this.#waiting.delete(hold)
      this.#free.add(hold)
    }
    this.#round = []
    if (this.#waiting.size > 0) this.#begin()
    return round
  }

  #begin(): void {
    this.#round = [...this.#waiting]
    this.#unanswered = this.#lanes
    this.#ask()
  }
}
