/** xorshift128: the same numbers everywhere from one seed. */
export class Random {
  #a: number
  #b = 0x9e3779b9
  #c = 0x7f4a7c15
  #d = 0x2545f491

  constructor(seed: number) {
    this.#a = (seed ^ 0x6c078965) | 1
    for (let i = 0; i < 16; i++) this.next()
  }

  /** An unsigned 32-bit number. */
  next(): number {
    const t = this.#d ^ (this.#d << 11)
    this.#d = this.#c
    this.#c = this.#b
    this.#b = this.#a
    this.#a = this.#a ^ (this.#a >>> 19) ^ t ^ (t >>> 8)
    return this.#a >>> 0
  }

  /** Below `end`, which is not 0. */
  below(end: number): number {
    return this.next() % end
  }
}

/** Largest input: a few of the largest seeds. */
export const INPUT_BYTES_MAX = 16_384

const ODD_BYTES = [0, 1, 2, 3, 4, 0x20, 0x2d, 0x7f, 0x80, 0xfe, 0xff] as const

/** Turns seeds into inputs, in memory of its own: an input lives until the next one. */
export class Mutator {
  readonly #random: Random
  readonly #memory = new Uint8Array(INPUT_BYTES_MAX)
  #bytes = 0

  constructor(random: Random) {
    this.#random = random
  }

  /** One seed with one to eight changes. */
  draw(seeds: readonly Uint8Array[]): Uint8Array {
    const seed = seeds[this.#random.below(seeds.length)] as Uint8Array
    this.#bytes = Math.min(seed.length, INPUT_BYTES_MAX)
    this.#memory.set(seed.subarray(0, this.#bytes))
    for (let changes = 1 + this.#random.below(8); changes > 0; changes--) this.#change(seeds)
    return this.#memory.subarray(0, this.#bytes)
  }

  #change(seeds: readonly Uint8Array[]): void {
    const random = this.#random
    const memory = this.#memory
    const at = random.below(Math.max(1, this.#bytes))
    switch (random.below(8)) {
      case 0:
        memory[at] = (memory[at] as number) ^ (1 << random.below(8))
        return
      case 1:
        memory[at] = ODD_BYTES[random.below(ODD_BYTES.length)] as number
        return
      case 2:
        memory[at] = random.next()
        return
      case 3:
        this.#bytes = random.below(this.#bytes + 1)
        return
      case 4:
        return this.#insert(memory.slice(at, Math.min(this.#bytes, at + 1 + random.below(16))))
      case 5: {
        const other = seeds[random.below(seeds.length)] as Uint8Array
        const from = random.below(Math.max(1, other.length))
        return this.#insert(other.subarray(from, from + 1 + random.below(64)))
      }
      case 6: {
        const count = Math.min(1 + random.below(8), this.#bytes - at)
        memory.copyWithin(at, at + count, this.#bytes)
        this.#bytes -= Math.max(0, count)
        return
      }
      default:
        // A count or a length, made large.
        for (let i = 0; i < 4 && at + i < this.#bytes; i++)
          memory[at + i] = random.below(2) === 0 ? 0xff : random.next()
    }
  }

  #insert(part: Uint8Array): void {
    const room = Math.min(part.length, INPUT_BYTES_MAX - this.#bytes)
    const at = this.#random.below(this.#bytes + 1)
    this.#memory.copyWithin(at + room, at, this.#bytes)
    this.#memory.set(part.subarray(0, room), at)
    this.#bytes += room
  }
}
