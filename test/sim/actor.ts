import type { Clock } from './clock.js'
import type { Stream } from './faults.js'
import { must } from './violation.js'

/** What an actor's loop does around its machine; the same order as runLane: tick, take, act, give back. */
export interface ActorWork {
  tick(nowUs: number): void
  nextTickUs(): number
  /** Performs the effects decided since the last call. */
  perform(): void
}

/** Ticks at one moment that achieve nothing: a loop that would spin. */
const IDLE_TICKS_MAX = 8

/**
 * One thread of the process: inputs gather while it sleeps, a turn takes all of them. How long it sleeps after a
 * wake-up is drawn before the run, so that turns of one and of many inputs both happen.
 */
export class Actor {
  readonly name: string
  readonly #clock: Clock
  readonly #wakeUs: Stream
  readonly #work: ActorWork
  #inputs: (() => void)[] = []
  #released: (() => void)[] = []
  #awake = false
  #tickAtUs = Number.POSITIVE_INFINITY
  #idleTicks = 0
  ticks = 0

  constructor(name: string, clock: Clock, wakeUs: Stream, work: ActorWork) {
    this.name = name
    this.#clock = clock
    this.#wakeUs = wakeUs
    this.#work = work
  }

  /** `input` steps the machine in the first turn at least `delayUs` from now. */
  post(delayUs: number, input: () => void): void {
    this.#clock.after(delayUs, () => {
      this.#inputs.push(input)
      this.wake()
    })
  }

  /** Called while a turn runs: `release` runs when the turn gives back what it took. */
  onRelease(release: () => void): void {
    this.#released.push(release)
  }

  wake(): void {
    if (this.#awake) return
    this.#awake = true
    this.#clock.after(this.#wakeUs.next(), () => this.#turn())
  }

  #turn(): void {
    this.#awake = false
    const inputs = this.#inputs
    this.#inputs = []
    const dueUs = this.#work.nextTickUs()
    const due = this.#clock.nowUs >= dueUs
    if (due) this.ticks++
    this.#work.tick(this.#clock.nowUs)
    for (const input of inputs) input()
    this.#work.perform()
    for (const release of this.#released.splice(0)) release()
    this.#spins(inputs.length > 0)
    this.#scheduleTick()
  }

  /** After a tick the next one must lie ahead, or the loop would spin without ever sleeping. */
  #spins(worked: boolean): void {
    this.#idleTicks = !worked && this.#work.nextTickUs() <= this.#clock.nowUs ? this.#idleTicks + 1 : 0
    must(
      this.#idleTicks < IDLE_TICKS_MAX,
      'D4',
      () => `${this.name} asks for a tick at ${this.#work.nextTickUs()}, again and again, at ${this.#clock.nowUs}`,
    )
  }

  #scheduleTick(): void {
    const atUs = this.#work.nextTickUs()
    if (atUs === Number.POSITIVE_INFINITY || atUs >= this.#tickAtUs) return
    this.#tickAtUs = atUs
    this.#clock.after(Math.max(0, Math.ceil(atUs - this.#clock.nowUs)), () => {
      if (this.#tickAtUs !== atUs) return
      this.#tickAtUs = Number.POSITIVE_INFINITY
      this.wake()
    })
  }
}
