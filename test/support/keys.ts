/** Seeded keys of 32 bytes, all different: the last word counts, those before it are drawn. */
export class KeyCounter {
  private state: number
  private next = 0
  private readonly seed: number

  private readonly wordsDrawn: readonly number[]

  /** With `alike` the first sixteen bytes of all keys are zero. */
  constructor(seed: number, alike = false) {
    this.seed = seed >>> 0
    this.wordsDrawn = alike ? [4, 5] : [0, 1, 2, 3, 4, 5]
    this.state = this.seed | 1
  }

  /** The next `count` keys, one after the other. */
  take(count: number): Uint8Array {
    const words = new Uint32Array(count * 8)
    for (let key = 0; key < count; key++) {
      for (const word of this.wordsDrawn) words[key * 8 + word] = this.draw()
      words[key * 8 + 6] = this.seed
      // The lowest bit stays 0, so that a neighbour (last bit turned) is never another key.
      words[key * 8 + 7] = this.next++ * 2
    }
    return new Uint8Array(words.buffer)
  }

  private draw(): number {
    this.state ^= this.state << 13
    this.state ^= this.state >>> 17
    this.state ^= this.state << 5
    return this.state >>> 0
  }
}

const few = new Map<number, Uint8Array>()

/** The first `count` keys of one fixed seed, made once. */
export function keysOf(count: number): Uint8Array {
  const keys = few.get(count) ?? new KeyCounter(1).take(count)
  few.set(count, keys)
  return keys
}
