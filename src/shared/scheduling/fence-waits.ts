/**
 * How often a lane looks at a fence word that a client will write: at once, then after an eighth of the time already
 * waited, between 50 us and 2 ms. A fence that comes early is seen early; one that never comes costs 500 looks a second
 * until its job is cancelled.
 */
export const FENCE_LOOK_US_MIN = 50
export const FENCE_LOOK_US_MAX = 2000

interface Wait<Job> {
  readonly job: Job
  readonly sinceUs: number
  nextLookUs: number
}

/** The jobs of a lane that wait for their client's fence, and when to look at each again. Bounded by the lane's jobs. */
export class FenceWaits<Job> {
  readonly #waits: Wait<Job>[] = []
  #nextLookUs = Number.POSITIVE_INFINITY

  get size(): number {
    return this.#waits.length
  }

  /** When the next look is due; infinite while nothing waits. */
  get nextLookUs(): number {
    return this.#nextLookUs
  }

  /** A job that has waited since `sinceUs`: due at once. */
  add(job: Job, sinceUs: number): void {
    this.#waits.push({ job, sinceUs, nextLookUs: Number.NEGATIVE_INFINITY })
    this.#nextLookUs = Number.NEGATIVE_INFINITY
  }

  /** Ends the wait of a job; nothing when it does not wait. */
  remove(job: Job): void {
    const at = this.#waits.findIndex((wait) => wait.job === job)
    if (at >= 0) this.#waits.splice(at, 1)
    this.#reckon()
  }

  find(matches: (job: Job) => boolean): Job | undefined {
    return this.#waits.find((wait) => matches(wait.job))?.job
  }

  /** The jobs whose fence is to be looked at now; each is due again later. */
  takeDue(nowUs: number): Job[] {
    if (nowUs < this.#nextLookUs) return []
    const due: Job[] = []
    for (const wait of this.#waits) {
      if (nowUs < wait.nextLookUs) continue
      wait.nextLookUs = nowUs + lookDelayUs(nowUs - wait.sinceUs)
      due.push(wait.job)
    }
    this.#reckon()
    return due
  }

  #reckon(): void {
    let next = Number.POSITIVE_INFINITY
    for (const wait of this.#waits) next = Math.min(next, wait.nextLookUs)
    this.#nextLookUs = next
  }
}

/** Microseconds until the next look, for a fence waited on for `waitedUs`. */
export function lookDelayUs(waitedUs: number): number {
  return Math.min(FENCE_LOOK_US_MAX, Math.max(FENCE_LOOK_US_MIN, waitedUs / 8))
}
