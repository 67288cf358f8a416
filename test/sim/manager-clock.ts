import type { Clock } from './clock.js'

/**
 * The monotonic clock as one process of the Manager reads it: it may leap ahead (the host was suspended) or stand still
 * for a while (its thread was not run), and never goes back. Everything else runs on the clock of the world.
 */
export class ManagerClock {
  readonly #world: Clock
  #aheadUs = 0
  #heldUs = 0
  #heldUntilUs = Number.NEGATIVE_INFINITY
  /** It has stood still at least once: what should have ended by itself may still be there. */
  everHeld = false

  constructor(world: Clock) {
    this.#world = world
  }

  get nowUs(): number {
    return this.#world.nowUs < this.#heldUntilUs ? this.#heldUs : this.#world.nowUs + this.#aheadUs
  }

  leap(us: number): void {
    this.#aheadUs += us
  }

  hold(us: number): void {
    this.#heldUs = this.nowUs
    this.#heldUntilUs = this.#world.nowUs + us
    this.everHeld = true
  }

  /** Phase two: it runs on. */
  calm(): void {
    this.#heldUntilUs = Number.NEGATIVE_INFINITY
  }
}
