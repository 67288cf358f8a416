import { invariant } from '../base/invariant.js'

const ROWS = 4
const COUNT_MAX = 255
/** Counts are halved after so many notes an item: what was asked for long ago fades. */
const NOTES_PER_ITEM = 8

/**
 * How often things were noted lately, about: a count-min sketch of 8-bit counters, four an item. An estimate is never
 * below the truth (up to 255) and rarely above it; all counts are halved after 8 notes an item, so that popularity of
 * the past does not last (TinyLFU).
 */
export class FrequencySketch {
  readonly #counts: Uint8Array
  /** The same bytes, four at a time. */
  readonly #words: Uint32Array
  readonly #mask: number
  readonly #notesMax: number
  #notes = 0

  /** `items`: how many things compete, a power of two or rounded up to one. */
  constructor(items: number) {
    invariant(items >= 1 && items <= 2 ** 24, 'a sketch is for 1 to 2^24 items', { items })
    const width = 2 ** Math.max(2, Math.ceil(Math.log2(items)))
    this.#counts = new Uint8Array(width * ROWS)
    this.#words = new Uint32Array(this.#counts.buffer)
    this.#mask = width - 1
    this.#notesMax = NOTES_PER_ITEM * width
  }

  /** Notes since counts were halved last. */
  get notes(): number {
    return this.#notes
  }

  /** One use of the thing that two independent uint32 stand for. */
  note(high: number, low: number): void {
    for (let row = 0; row < ROWS; row++) {
      const at = this.#place(high, low, row)
      const count = this.#counts[at] as number
      if (count < COUNT_MAX) this.#counts[at] = count + 1
    }
    if (++this.#notes >= this.#notesMax) this.#halve()
  }

  /** How often it was noted lately: at most 255. */
  estimate(high: number, low: number): number {
    let least = COUNT_MAX
    for (let row = 0; row < ROWS; row++) least = Math.min(least, this.#counts[this.#place(high, low, row)] as number)
    return least
  }

  #place(high: number, low: number, row: number): number {
    const index = (high + Math.imul(row, low | 1)) & this.#mask
    return row * (this.#mask + 1) + index
  }

  #halve(): void {
    const words = this.#words
    for (let index = 0; index < words.length; index++) words[index] = ((words[index] as number) >>> 1) & 0x7f7f7f7f
    this.#notes = Math.floor(this.#notes / 2)
  }
}
