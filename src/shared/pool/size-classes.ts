/**
 * Size classes of free blocks, in pages. Up to 256 pages (1 MiB, the largest granule) every length has a class of its
 * own, so a request there takes the tightest block there is and wastes nothing; longer runs share classes 1/16 of
 * their power of two wide.
 */
const EXACT = 256
const EXACT_LOG = 8
const SUB_LOG = 4

/** Longest block, in pages. */
export const PAGES_MAX = 2 ** 31 - 1
export const CLASSES = EXACT + (31 - EXACT_LOG) * (1 << SUB_LOG)

export function classOf(pages: number): number {
  if (pages <= EXACT) return pages - 1
  const log = 31 - Math.clz32(pages)
  return EXACT + ((log - EXACT_LOG) << SUB_LOG) + ((pages >>> (log - SUB_LOG)) & ((1 << SUB_LOG) - 1))
}

/** True when every block of the class has one length. */
export function isExact(sizeClass: number): boolean {
  return sizeClass < EXACT
}

/** A set of size classes that finds the next member in two steps: 20 words, and a word that says which are not 0. */
export class ClassSet {
  readonly #words = new Int32Array(Math.ceil(CLASSES / 32))
  #summary = 0

  add(sizeClass: number): void {
    const word = sizeClass >>> 5
    this.#words[word] = this.#word(word) | (1 << (sizeClass & 31))
    this.#summary |= 1 << word
  }

  delete(sizeClass: number): void {
    const word = sizeClass >>> 5
    const rest = this.#word(word) & ~(1 << (sizeClass & 31))
    this.#words[word] = rest
    if (rest === 0) this.#summary &= ~(1 << word)
  }

  /** The smallest member that is at least `sizeClass`, or -1. */
  next(sizeClass: number): number {
    if (sizeClass >= CLASSES) return -1
    const word = sizeClass >>> 5
    const here = this.#word(word) & (-1 << (sizeClass & 31))
    if (here !== 0) return (word << 5) + lowestBit(here)
    const above = this.#summary & (-2 << word)
    if (above === 0) return -1
    const found = lowestBit(above)
    return (found << 5) + lowestBit(this.#word(found))
  }

  /** The largest member, or -1. */
  last(): number {
    if (this.#summary === 0) return -1
    const word = 31 - Math.clz32(this.#summary)
    return (word << 5) + 31 - Math.clz32(this.#word(word))
  }

  #word(index: number): number {
    return this.#words[index] as number
  }
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
