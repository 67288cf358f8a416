import { CLIENT_READS_MAX } from '../../actors/host-reader/messages.js'
import { invariant } from '../../shared/base/invariant.js'

/** Something that wants granules read: sends as many as it is given credits for. */
export interface ReadJob {
  /** Granules not sent yet. */
  readonly unsent: number
  /** Sends up to `credits` granules to the lane. */
  send(credits: number): void
}

/**
 * One host-reader lane as its client sees it: how many granules are outstanding, and who waits for a place. First
 * come, first served; a job that does not fit whole goes in parts.
 */
export class ReadCredits {
  readonly #waiting: ReadJob[] = []
  #outstanding = 0

  get outstanding(): number {
    return this.#outstanding
  }

  /** Granules that wait for a credit. */
  get queued(): number {
    let queued = 0
    for (const job of this.#waiting) queued += job.unsent
    return queued
  }

  enqueue(job: ReadJob): void {
    this.#waiting.push(job)
    this.#pump()
  }

  /** The job sends nothing more. No-op when it does not wait. */
  withdraw(job: ReadJob): void {
    const at = this.#waiting.indexOf(job)
    if (at >= 0) this.#waiting.splice(at, 1)
  }

  /** One outstanding granule has ended. */
  returned(): void {
    invariant(this.#outstanding > 0, 'a read that ends was outstanding')
    this.#outstanding--
    this.#pump()
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#outstanding < CLIENT_READS_MAX) {
      const job = this.#waiting[0] as ReadJob
      const credits = Math.min(job.unsent, CLIENT_READS_MAX - this.#outstanding)
      this.#outstanding += credits
      job.send(credits)
      if (job.unsent === 0) this.#waiting.shift()
    }
  }
}
