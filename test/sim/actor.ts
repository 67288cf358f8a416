import type { Clock } from './clock.js'
import type { FaultSite, Stream, WAKE_FAULTS } from './faults.js'
import { must } from './violation.js'

/** What an actor's loop does around its machine; the same order as runLane: tick, take, act, give back. */
export interface ActorWork {
  tick(nowUs: number): void
  nextTickUs(): number
  /** Performs the effects decided since the last call. */
  perform(): void
}

/** The process that an actor is a thread of: its time, and whether its threads run at all. */
export interface ActorHost {
  readonly clock: Clock
  readonly nowUs: number
  readonly wakeUs: Stream
  readonly wakes: FaultSite<(typeof WAKE_FAULTS)[number]>
  /** Microseconds of the world until threads run again; 0 when they do. */
  readonly stoppedForUs: number
  readonly alive: boolean
  /** Runs `turn`; a process that is killed inside of it ends there. */
  run(turn: () => void): void
}

/** Ticks at one moment that achieve nothing: a loop that would spin. */
const IDLE_TICKS_MAX = 8
/** No lane parks for longer: what it was not woken for it finds then. */
export const PARK_US_MAX = 100_000

/**
 * One thread of the process: inputs gather while it sleeps, a turn takes all of them. How long it sleeps after a
 * wake-up is drawn before the run, so that turns of one and of many inputs both happen.
 */
export class Actor {
  readonly name: string
  readonly #host: ActorHost
  readonly #work: ActorWork
  #inputs: (() => void)[] = []
  #spare: (() => void)[] = []
  #released: (() => void)[] = []
  #awake = false
  #tickAtUs = Number.POSITIVE_INFINITY
  #idleTicks = 0
  /** The thread has ended: nothing reaches it any more. */
  dead = false
  ticks = 0

  constructor(name: string, host: ActorHost, work: ActorWork) {
    this.name = name
    this.#host = host
    this.#work = work
  }

  /** `input` steps the machine in the first turn at least `delayUs` from now. */
  post(delayUs: number, input: () => void): void {
    this.#host.clock.after(delayUs, () => {
      if (this.dead || !this.#host.alive) return
      this.#inputs.push(input)
      const strike = this.#host.wakes.strike()
      if (strike === null) return this.wake()
      if (strike.kind === 'wake-spurious') {
        this.wake()
        this.#host.clock.after(1 + (strike.amount & 15), () => this.wake())
      } else this.#host.clock.after(PARK_US_MAX, () => this.wake())
    })
  }

  /** Called while a turn runs: `release` runs when the turn gives back what it took. */
  onRelease(release: () => void): void {
    this.#released.push(release)
  }

  wake(): void {
    if (this.#awake) return
    this.#awake = true
    this.#host.clock.after(this.#host.wakeUs.next(), this.#woken)
  }

  readonly #woken = (): void => {
    if (this.dead || !this.#host.alive) return
    const stoppedForUs = this.#host.stoppedForUs
    if (stoppedForUs > 0) this.#host.clock.after(stoppedForUs, this.#woken)
    else this.#host.run(this.#turn)
  }

  readonly #turn = (): void => {
    this.#awake = false
    const inputs = this.#inputs
    this.#inputs = this.#spare
    const nowUs = this.#host.nowUs
    if (nowUs >= this.#work.nextTickUs()) this.ticks++
    this.#work.tick(nowUs)
    for (const input of inputs) input()
    this.#work.perform()
    const worked = inputs.length > 0
    inputs.length = 0
    this.#spare = inputs
    if (this.#released.length > 0) for (const release of this.#released.splice(0)) release()
    this.#settle(worked)
  }

  /** After a tick the next one must lie ahead, or the loop would spin without ever sleeping. */
  #settle(worked: boolean): void {
    const atUs = this.#work.nextTickUs()
    const { nowUs } = this.#host
    this.#idleTicks = !worked && atUs <= nowUs ? this.#idleTicks + 1 : 0
    must(
      this.#idleTicks < IDLE_TICKS_MAX,
      'D4',
      () => `${this.name} asks for a tick at ${atUs}, again and again, at ${nowUs}`,
    )
    if (atUs === Number.POSITIVE_INFINITY || atUs >= this.#tickAtUs) return
    this.#tickAtUs = atUs
    this.#host.clock.after(Math.max(0, Math.ceil(atUs - nowUs)), () => {
      if (this.#tickAtUs !== atUs) return
      this.#tickAtUs = Number.POSITIVE_INFINITY
      this.wake()
    })
  }
}
