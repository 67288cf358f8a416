import { type ReadLimits, ReadTurns } from '../../shared/scheduling/read-turns.js'
import type { PageStorage } from '../storage/page-storage.js'
import type { FillPurpose } from '../storage/ports.js'
import type { FillWaiter, FillWaiters } from './fill-waiters.js'

/** What reading needs of the Manager. */
interface ReadingContext {
  readonly storage: PageStorage
  readonly fillWaiters: FillWaiters
  readonly nowUs: number
}

/**
 * How the read of one block ended: it is in DRAM; it cannot be read; there was no room for it; nobody wanted it any
 * more, and the device has let go.
 */
export type BlockEnd = 'read' | 'failed' | 'no-room' | 'abandoned'

/** Who reads blocks. */
export interface Reader {
  ended(entry: number, how: BlockEnd): void
  /** Reads that were waited for have ended: plan and advance again. */
  proceed(): void
}

/**
 * The blocks that one ticket reads from SSD into DRAM, batch by batch, in the order of its plan. Reads of the same block
 * by other tickets are shared; leaving stops only what nobody else waits for. A block without room stops what follows.
 */
export class BlockReads implements FillWaiter {
  readonly ticket: number
  readonly #context: ReadingContext
  readonly #turns: ReadTurns
  readonly #reader: Reader
  /** Submitted, wanted, and not ended. */
  readonly #waiting = new Set<number>()
  /** Nobody wants them any more, and the device has not let go. */
  readonly #abandoned = new Set<number>()
  #plan: readonly number[] = []
  #generations: readonly number[] = []
  #purpose: FillPurpose

  constructor(context: ReadingContext, limits: ReadLimits, purpose: FillPurpose, reader: Reader) {
    this.ticket = context.fillWaiters.add(this)
    this.#context = context
    this.#turns = new ReadTurns(limits)
    this.#purpose = purpose
    this.#reader = reader
  }

  /** Nothing is waited for and nothing more will be submitted. */
  get settled(): boolean {
    return this.#turns.settled
  }

  /** Nothing is waited for. */
  get idle(): boolean {
    return this.#turns.outstanding === 0
  }

  /** Nothing new is submitted any more. */
  get stopped(): boolean {
    return this.#turns.stopped
  }

  /** The deadline stopped it with something left to read. */
  get late(): boolean {
    return this.#turns.late
  }

  waitsFor(entry: number): boolean {
    return this.#waiting.has(entry)
  }

  /** Bytes of blocks that nobody wants any more and the device still has. */
  get abandonedBytes(): number {
    let bytes = 0
    for (const entry of this.#abandoned) bytes += this.#bytesOf(entry)
    return bytes
  }

  /** What is to be read from here on, each once; replaces what was planned and not submitted. Starts nothing. */
  plan(entries: readonly number[]): void {
    const { storage } = this.#context
    this.#plan = entries
    this.#generations = entries.map((entry) => storage.generationOf(entry))
    this.#turns.plan(entries.map((entry) => this.#bytesOf(entry)))
  }

  /** Submits batches as far as it goes now. */
  advance(): void {
    for (let turn = this.#next(); turn !== null; turn = this.#next()) {
      for (let index = turn.first; index < turn.end; index++) this.#start(index)
    }
  }

  /** A request needs what is read from here on. */
  claim(): void {
    this.#purpose = 'demand'
  }

  /** The block is not wanted any more: its read ends without its bytes mattering. */
  abandon(entry: number): void {
    if (!this.#waiting.delete(entry)) return
    this.#turns.ended()
    if (this.#context.storage.cancelFill(entry, this.ticket) === 'draining') this.#abandoned.add(entry)
  }

  filled(entry: number, ok: boolean): void {
    if (this.#abandoned.delete(entry)) return this.#reader.ended(entry, 'abandoned')
    if (!this.#waiting.delete(entry)) return
    this.#end(entry, ok ? 'read' : 'failed')
    this.#reader.proceed()
  }

  /**
   * Leaves: the reader hears of nothing any more. Returns the entries whose submitted reads this ticket, the last to
   * leave, waits for; filled() of whoever takes the ticket over follows for each.
   */
  leave(): number[] {
    this.#turns.stop()
    for (const entry of [...this.#waiting]) this.abandon(entry)
    const draining = [...this.#abandoned]
    this.#abandoned.clear()
    this.#context.fillWaiters.remove(this.ticket)
    return draining
  }

  #next() {
    return this.#turns.next(this.#context.nowUs)
  }

  #start(index: number): void {
    const { storage } = this.#context
    const entry = this.#plan[index] as number
    if (this.#turns.stopped) return this.#end(entry, 'no-room')
    // A hint holds nothing: the row may name another block by now.
    const same = storage.generationOf(entry) === this.#generations[index]
    const outcome = same ? storage.fill(entry, this.ticket, this.#purpose) : 'gone'
    if (outcome === 'started' || outcome === 'joined') this.#waiting.add(entry)
    else if (outcome === 'resident') this.#end(entry, 'read')
    else if (outcome === 'gone') this.#end(entry, 'failed')
    else {
      this.#turns.stop()
      this.#end(entry, 'no-room')
    }
  }

  #end(entry: number, how: BlockEnd): void {
    this.#turns.ended()
    this.#reader.ended(entry, how)
  }

  #bytesOf(entry: number): number {
    return this.#context.storage.extentBytes(entry)
  }
}
