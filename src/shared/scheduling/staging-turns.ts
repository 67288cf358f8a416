import { invariant } from '../base/invariant.js'

/** Read batches after which a write that waits has the next turn. */
export const READ_BURST = 4

export type StagingTurn<Read, Write> =
  | { readonly kind: 'read'; readonly job: Read }
  | { readonly kind: 'write'; readonly job: Write }

/**
 * Whose batch goes into the next free staging slot. Reads come first; a write that has waited for READ_BURST reads goes
 * before the next one. Never more than one write is in flight, which leaves a slot for demand reads. Jobs rotate: a
 * job that has had a turn goes behind the others of its kind.
 *
 * Invariants: a job waits at most once; a waiting write is passed by at most READ_BURST reads while no write is in
 * flight; a read is never held up by anything but a write whose turn it is.
 */
export class StagingTurns<Read, Write> {
  readonly #reads: Read[] = []
  readonly #writes: Write[] = []
  /** Reads that have had a turn while a write waited. */
  #passed = 0

  get readsWaiting(): number {
    return this.#reads.length
  }

  get writesWaiting(): number {
    return this.#writes.length
  }

  addRead(job: Read): void {
    invariant(!this.#reads.includes(job), 'a job waits once for a turn')
    this.#reads.push(job)
  }

  addWrite(job: Write): void {
    invariant(!this.#writes.includes(job), 'a job waits once for a turn')
    this.#writes.push(job)
  }

  /** The job starts nothing any more; nothing when it does not wait. */
  removeRead(job: Read): void {
    remove(this.#reads, job)
  }

  removeWrite(job: Write): void {
    remove(this.#writes, job)
    if (this.#writes.length === 0) this.#passed = 0
  }

  /** Takes the next turn; the job waits no more and is added again when it has more batches. Null: nobody may go. */
  take(writeInFlight: boolean): StagingTurn<Read, Write> | null {
    const write = writeInFlight ? undefined : this.#writes[0]
    const read = this.#reads[0]
    if (write !== undefined && (read === undefined || this.#passed >= READ_BURST)) {
      this.#writes.shift()
      this.#passed = 0
      return { kind: 'write', job: write }
    }
    if (read === undefined) return null
    this.#reads.shift()
    if (this.#writes.length > 0) this.#passed += 1
    return { kind: 'read', job: read }
  }
}

function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item)
  if (at >= 0) list.splice(at, 1)
}
