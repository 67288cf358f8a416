import { invariant } from '../../shared/base/invariant.js'

/** Who owns a job that a lane works on. `R` is what the lane replies. */
export interface JobOwner<R> {
  /** A job number is free: send the job now. Called once for each `request`. */
  start(job: number): void
  /** The lane's terminal reply to the job. */
  replied(reply: R): void
}

/**
 * The jobs that one lane has outstanding, and who waits for a place. A lane's completion ring has `capacity` records,
 * so no more jobs than that are ever open, and a reply always finds room.
 *
 * Invariants: never more than `capacity` open; a number is not reused before its job was closed; waiters start in
 * the order of their requests.
 */
export class LaneJobs<R> {
  readonly #capacity: number
  readonly #owners = new Map<number, JobOwner<R>>()
  readonly #waiting = new Set<JobOwner<R>>()
  #next = 1

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get open(): number {
    return this.#owners.size
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Starts `owner` now, or as soon as an earlier job closes. */
  request(owner: JobOwner<R>): void {
    invariant(!this.#waiting.has(owner), 'an owner waits for one job at a time')
    if (this.#owners.size < this.#capacity && this.#waiting.size === 0) this.#start(owner)
    else this.#waiting.add(owner)
  }

  /** Takes a request back. False when the job had started. */
  withdraw(owner: JobOwner<R>): boolean {
    return this.#waiting.delete(owner)
  }

  /** Hands a terminal reply to the job's owner, and its number to the next who waits. */
  replied(job: number, reply: R): void {
    const owner = this.#owners.get(job)
    invariant(owner !== undefined, 'a lane answers a job once, and only jobs it was given', { job })
    this.#owners.delete(job)
    owner.replied(reply)
    for (const next of this.#waiting) {
      if (this.#owners.size >= this.#capacity) return
      this.#waiting.delete(next)
      this.#start(next)
    }
  }

  #start(owner: JobOwner<R>): void {
    while (this.#owners.has(this.#next)) this.#advance()
    const job = this.#next
    this.#advance()
    this.#owners.set(job, owner)
    owner.start(job)
  }

  #advance(): void {
    this.#next = this.#next >= 0x7fffffff ? 1 : this.#next + 1
  }
}
