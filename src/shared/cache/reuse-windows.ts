import { HyperLogLog } from './hyper-log-log.js'

/** A span of time that ends now, and the name that metrics give it. */
export interface ReuseWindow {
  readonly name: string
  readonly us: number
}

export interface ReuseReading {
  /** Different blocks asked for in the window. */
  readonly cardinality: number
  /** Blocks asked for in the window. */
  readonly requests: number
  /** Part of them that a cache without bounds would have had: all but the first of each. */
  readonly hitRate: number
}

/** A window is counted in so many slices; the oldest leaves when a new one begins. */
export const WINDOW_SLICES = 8

/**
 * How much of what is asked for was asked for before, over several windows of time: the hit rate that more capacity
 * could reach. One sketch a slice, and their union, so that both adding and reading are cheap; only the turn of a slice
 * costs a merge.
 */
export class ReuseWindows {
  readonly #windows: readonly SlidingWindow[]

  constructor(windows: readonly ReuseWindow[], registerBits: number, nowUs: number) {
    this.#windows = windows.map(({ us }) => new SlidingWindow(us, registerBits, nowUs))
  }

  /** One block was asked for: two independent uint32 stand for its key. */
  observe(high: number, low: number, nowUs: number): void {
    for (const window of this.#windows) window.observe(high, low, nowUs)
  }

  /** One reading a window, in their order. */
  read(nowUs: number): ReuseReading[] {
    return this.#windows.map((window) => window.read(nowUs))
  }
}

class SlidingWindow {
  readonly #sliceUs: number
  readonly #slices: { readonly sketch: HyperLogLog; requests: number }[]
  readonly #union: HyperLogLog
  #current = 0
  #sliceEndsUs: number
  #requests = 0

  constructor(us: number, bits: number, nowUs: number) {
    this.#sliceUs = us / WINDOW_SLICES
    this.#slices = Array.from({ length: WINDOW_SLICES }, () => ({ sketch: new HyperLogLog(bits), requests: 0 }))
    this.#union = new HyperLogLog(bits)
    this.#sliceEndsUs = nowUs + this.#sliceUs
  }

  observe(high: number, low: number, nowUs: number): void {
    this.#turn(nowUs)
    const slice = this.#slices[this.#current] as { sketch: HyperLogLog; requests: number }
    slice.sketch.add(high, low)
    slice.requests++
    this.#union.add(high, low)
    this.#requests++
  }

  read(nowUs: number): ReuseReading {
    this.#turn(nowUs)
    // There are never more different blocks than requests, whatever an estimate says.
    const cardinality = Math.min(this.#requests, Math.round(this.#union.estimate()))
    return {
      cardinality,
      requests: this.#requests,
      hitRate: this.#requests === 0 ? 0 : 1 - cardinality / this.#requests,
    }
  }

  /** Drops slices that have left the window. */
  #turn(nowUs: number): void {
    if (nowUs < this.#sliceEndsUs) return
    const turns = Math.floor((nowUs - this.#sliceEndsUs) / this.#sliceUs) + 1
    this.#sliceEndsUs += turns * this.#sliceUs
    for (let left = Math.min(turns, WINDOW_SLICES); left > 0; left--) {
      this.#current = (this.#current + 1) % WINDOW_SLICES
      const slice = this.#slices[this.#current] as { sketch: HyperLogLog; requests: number }
      this.#requests -= slice.requests
      slice.requests = 0
      slice.sketch.clear()
    }
    this.#union.clear()
    for (const { sketch, requests } of this.#slices) if (requests > 0) this.#union.merge(sketch)
  }
}
