import { must } from './violation.js'

const STEPS_MAX = 1_000_000

/** Every event of one seed in one number: equal numbers, equal lives. */
export class Trace {
  /** Machine steps with an input, and ticks that were due. */
  steps = 0
  #hash = 0

  /** Of every event so far. */
  get hash(): number {
    return this.#hash >>> 0
  }

  step(actor: string, input: { readonly kind: string }, nowUs: number): void {
    this.steps++
    must(this.steps < STEPS_MAX, 'D4', () => `${this.steps} steps and no end`)
    let hash = Math.imul(this.#hash ^ nowUs, 0x9e3779b1)
    hash = Math.imul(hash ^ (actor.length * 131 + actor.charCodeAt(actor.length - 1)), 0x85ebca6b)
    const { kind } = input
    hash = Math.imul(hash ^ (kind.length * 31 + kind.charCodeAt(0)), 0xc2b2ae35)
    const inside = input as {
      tag?: number
      connection?: number
      reply?: { kind: string; job?: number; batch?: number }
    }
    hash ^= inside.tag ?? inside.connection ?? inside.reply?.job ?? inside.reply?.batch ?? 0
    this.#hash = hash ^ (hash >>> 15)
  }

  mix(value: number): void {
    const hash = Math.imul(this.#hash ^ value, 0x9e3779b1)
    this.#hash = hash ^ (hash >>> 15)
  }
}
