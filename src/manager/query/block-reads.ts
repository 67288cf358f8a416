import { type ReadLimits, ReadTurns } from '../../shared/scheduling/read-turns.js'
import type { PageStorage } from '../storage/page-storage.js'
import type { FillPurpose } from '../storage/ports.js'
import type { FillWaiter, FillWaiters } from './fill-waiters.js'

/** How the read of one block ended: it is in DRAM, it is not readable, or it was never asked of the device. */
export type BlockEnd = 'read' | 'failed' | 'unread'

/** What reading needs of the Manager. */
interface ReadingContext {
  readonly storage: PageStorage
  readonly fillWaiters: FillWaiters
  readonly nowUs: number
}

/**
 * The blocks that one ticket reads from SSD into DRAM, batch by batch. Reads of the same block by other tickets are
 * shared; leaving stops only what nobody else waits for.
 *
 * Every entry gets one `ended` while somebody listens: when its read ends, at once when it cannot start, and at the
 * stop for what was not submitted. The first failure is a stop: what comes after it in the order of reading is of no
 * use to a prefix.
 */
export class BlockReads implements FillWaiter {
  readonly ticket: number
  readonly #context: ReadingContext
  readonly #entries: readonly number[]
  readonly #generations: readonly number[]
  readonly #turns: ReadTurns
  readonly #waiting = new Set<number>()
  readonly #ended: (entry: number, how: BlockEnd) => void
  #purpose: FillPurpose
  #unread = 0

  /** `entries` are distinct and in the order of reading. Nothing starts before advance(). */
  constructor(
    context: ReadingContext,
    entries: readonly number[],
    limits: ReadLimits,
    purpose: FillPurpose,
    ended: (entry: number, how: BlockEnd) => void,
  ) {
    this.ticket = context.fillWaiters.add(this)
    this.#context = context
    this.#entries = entries
    this.#generations = entries.map((entry) => context.storage.generationOf(entry))
    this.#turns = new ReadTurns(
      entries.map((entry) => context.storage.geometryOf(entry).extentBytes),
      limits,
    )
    this.#purpose = purpose
    this.#ended = ended
  }

  /** Nothing is outstanding and nothing more will be submitted. */
  get settled(): boolean {
    return this.#turns.settled
  }

  /** A stop left blocks unread. */
  get cut(): boolean {
    return this.#turns.stopped && this.#turns.unread > 0
  }

  /** Submits batches as far as it goes now: call it at the start, when time passes, and after a wait. */
  advance(): void {
    for (let turn = this.#next(); turn !== null; turn = this.#next()) {
      for (let index = turn.first; index < turn.end; index++) this.#start(index)
    }
    if (this.#turns.stopped) this.#reportUnread()
  }

  /** Nothing new is submitted. */
  stop(): void {
    this.#turns.stop()
    this.#reportUnread()
  }

  /** A request needs the blocks from here on. */
  claim(): void {
    this.#purpose = 'demand'
  }

  filled(entry: number, ok: boolean): void {
    if (!this.#waiting.delete(entry)) return
    this.#end(entry, ok ? 'read' : 'failed')
    this.advance()
  }

  /**
   * Leaves: nobody listens any more. Returns the entries whose submitted reads this ticket, the last to leave, waits
   * for; filled() of whoever takes the ticket over follows for each.
   */
  leave(): number[] {
    this.#turns.stop()
    const draining: number[] = []
    for (const entry of this.#waiting) {
      if (this.#context.storage.cancelFill(entry, this.ticket) === 'draining') draining.push(entry)
    }
    this.#waiting.clear()
    this.#context.fillWaiters.remove(this.ticket)
    return draining
  }

  #next() {
    return this.#turns.next(this.#context.nowUs)
  }

  #start(index: number): void {
    const { storage } = this.#context
    const entry = this.#entries[index] as number
    if (this.#turns.stopped) return this.#end(entry, 'unread')
    // A hint holds nothing: the row may name another block by now.
    const same = storage.generationOf(entry) === this.#generations[index]
    const outcome = same ? storage.fill(entry, this.ticket, this.#purpose) : 'gone'
    if (outcome === 'started' || outcome === 'joined') this.#waiting.add(entry)
    else if (outcome === 'resident') this.#end(entry, 'read')
    else this.#end(entry, outcome === 'gone' ? 'failed' : 'unread')
  }

  #end(entry: number, how: BlockEnd): void {
    this.#turns.ended()
    if (how !== 'read') this.#turns.stop()
    this.#ended(entry, how)
  }

  /** What will never be submitted ends as unread, once. */
  #reportUnread(): void {
    const first = this.#entries.length - this.#turns.unread
    for (let index = Math.max(first, this.#unread); index < this.#entries.length; index++) {
      this.#ended(this.#entries[index] as number, 'unread')
    }
    this.#unread = this.#entries.length
  }
}
