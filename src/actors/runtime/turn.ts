/** A machine as a loop drives it. `Input` includes the tick. */
export interface SteppedMachine<Input, Effect> {
  step(input: Input | Tick, out: Effect[]): void
  /**
   * Called after the last input of a turn: what is better decided once for all of them. Must end: what it decides may
   * be answered by inputs, after which it is called again.
   */
  settle?(out: Effect[]): void
}

export interface Tick {
  readonly kind: 'tick'
  readonly nowUs: number
}

/**
 * One turn of a lane after another: the clock is read once, before the first input of a turn, and what the machine
 * decides is kept until the loop performs it. An effect may have an answer (a fence word, a refused copy): stepping
 * while performing is allowed, what it decides is performed in the same turn.
 */
export class LaneTurn<Input, Effect> {
  readonly #machine: SteppedMachine<Input, Effect>
  readonly #nowUs: () => number
  readonly #effects: Effect[] = []
  #clockRead = false
  #settled = true

  constructor(machine: SteppedMachine<Input, Effect>, nowUs: () => number) {
    this.#machine = machine
    this.#nowUs = nowUs
  }

  step(input: Input): void {
    if (!this.#clockRead) this.tick(this.#nowUs())
    this.#settled = false
    this.#machine.step(input, this.#effects)
  }

  tick(nowUs: number): void {
    this.#clockRead = true
    this.#settled = false
    this.#machine.step({ kind: 'tick', nowUs }, this.#effects)
  }

  /** Performs what was decided, in order, and ends the turn. */
  perform(each: (effect: Effect) => void): void {
    const effects = this.#effects
    for (let at = 0; ; at++) {
      if (at === effects.length && !this.#settled) {
        this.#settled = true
        this.#machine.settle?.(effects)
      }
      if (at === effects.length) break
      each(effects[at] as Effect)
    }
    effects.length = 0
    this.#clockRead = false
  }
}
