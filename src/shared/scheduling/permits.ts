import { invariant } from '../base/invariant.js'

/** Rights to have one more job queued or active: granted = returned + outstanding, never above the cap. */
export class Permits {
  readonly limit: number
  #outstanding = 0
  #peak = 0

  constructor(limit: number) {
    invariant(Number.isSafeInteger(limit) && limit >= 0, 'a permit cap is a count', { limit })
    this.limit = limit
  }

  get outstanding(): number {
    return this.#outstanding
  }

  get available(): number {
    return this.limit - this.#outstanding
  }

  /** The most permits that were ever outstanding at once. */
  get peak(): number {
    return this.#peak
  }

  /** Takes one permit, or refuses and changes nothing. */
  acquire(): boolean {
    if (this.#outstanding === this.limit) return false
    this.#outstanding++
    if (this.#outstanding > this.#peak) this.#peak = this.#outstanding
    return true
  }

  /** Returns one permit, at the terminal completion of its job and never before. */
  release(): void {
    invariant(this.#outstanding > 0, 'only an outstanding permit is released', { limit: this.limit })
    this.#outstanding--
  }
}
