import type { Tally } from '../../shared/base/tally.js'
import { KeyHistory } from '../../shared/cache/key-history.js'
import { KEY_BYTES } from '../../shared/directory/key-hash.js'
import { WRITE_SKIP_COUNT, type WriteSkip } from './counters.js'
import type { Entries } from './entries.js'
import type { WritePolicyName } from './ports.js'
import type { Writes } from './writes.js'

/**
 * Which sealed blocks are offered to the SSD. `all`: every save of a block that the SSD neither has nor is about to
 * get. `reuse`: only when the same key was saved before within the history, or when a request was given the block.
 * Every save that is not offered is counted with a reason.
 */
export class WritePolicy {
  readonly #entries: Entries
  readonly #writes: Writes
  readonly #tally: Tally
  readonly #history: KeyHistory | null
  readonly #key = new Uint8Array(KEY_BYTES)
  readonly #on: boolean
  /** By entry, between a judgement and the seal. */
  readonly #judged = new Map<number, boolean>()

  constructor(entries: Entries, writes: Writes, policy: WritePolicyName, ssd: boolean, tally: Tally) {
    this.#entries = entries
    this.#writes = writes
    this.#tally = tally
    this.#on = ssd
    this.#history = ssd && policy === 'reuse' ? new KeyHistory() : null
  }

  /** Keys that the history remembers. */
  get remembered(): number {
    return this.#history?.size ?? 0
  }

  /**
   * Decides before the seal, for a block that could be written while it is copied. What was decided holds for its seal:
   * one save is looked up in the history once.
   */
  judge(entry: number): boolean {
    if (!this.#on) return false
    if (this.#history === null) return true
    const known = this.#judged.get(entry)
    if (known !== undefined) return known
    const wanted = this.#history.note(this.#nameOf(entry))
    this.#judged.set(entry, wanted)
    return wanted
  }

  /** A block that was judged ends without a seal. */
  forget(entry: number): void {
    this.#judged.delete(entry)
  }

  /** A block was sealed. */
  sealed(entry: number, nowUs: number): void {
    const judged = this.#judged.get(entry)
    if (judged === undefined) return this.#offer(entry, nowUs)
    this.#judged.delete(entry)
    if (judged) this.#writes.admit(entry, nowUs)
    else this.skipped('cold')
  }

  /** An engine saves a key again that is published. */
  savedAgain(entry: number, nowUs: number): void {
    if (!this.#on) return
    if (this.#entries.onSsd(entry)) this.skipped('resident')
    else if (this.#entries.writing(entry)) this.skipped('pending')
    else this.#offer(entry, nowUs)
  }

  /** A request was given the block. */
  returned(entry: number, nowUs: number): void {
    if (this.#history === null || this.#entries.onSsd(entry) || this.#entries.writing(entry)) return
    if (this.#entries.resident(entry)) this.#writes.admit(entry, nowUs)
  }

  skipped(reason: WriteSkip): void {
    if (this.#on) this.#tally.add(WRITE_SKIP_COUNT[reason], 1)
  }

  #offer(entry: number, nowUs: number): void {
    if (this.#history === null || this.#history.note(this.#nameOf(entry))) this.#writes.admit(entry, nowUs)
    else this.skipped('cold')
  }

  #nameOf(entry: number): string {
    const { directory } = this.#entries
    directory.copyKey(entry, this.#key, 0)
    return `${directory.classId(entry)}/${String.fromCharCode(...this.#key)}`
  }
}
