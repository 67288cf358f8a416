import { invariant } from '../base/invariant.js'

/** Bits of a hash that say how rare it is; the register index comes from the other word. */
const RANK_BITS = 32

/**
 * Estimates how many different things it was shown, in 2^bits registers of one byte. A histogram of the registers is
 * kept beside them, so that an estimate costs a few dozen steps whatever the size: Ertl's estimator ("New cardinality
 * estimation algorithms for HyperLogLog sketches", 2017), which needs no table of corrections and is unbiased from
 * zero on. Relative error about 1.04 / sqrt(2^bits).
 */
export class HyperLogLog {
  readonly bits: number
  readonly #registers: Uint8Array
  /** histogram[v]: registers of value v. */
  readonly #histogram = new Int32Array(RANK_BITS + 2)

  constructor(bits: number) {
    invariant(bits >= 4 && bits <= 18, 'a sketch has 2^4 to 2^18 registers', { bits })
    this.bits = bits
    this.#registers = new Uint8Array(2 ** bits)
    this.#histogram[0] = this.#registers.length
  }

  /** Shows one thing by its hash: two independent uint32. */
  add(high: number, low: number): void {
    this.#raise(high >>> (32 - this.bits), Math.clz32(low) + 1)
  }

  /** Afterwards this one has seen what either had seen. */
  merge(other: HyperLogLog): void {
    invariant(other.bits === this.bits, 'sketches of one size are merged')
    for (let index = 0; index < this.#registers.length; index++) {
      this.#raise(index, other.#registers[index] as number)
    }
  }

  clear(): void {
    this.#registers.fill(0)
    this.#histogram.fill(0)
    this.#histogram[0] = this.#registers.length
  }

  /** How many different things were shown, about. */
  estimate(): number {
    const registers = this.#registers.length
    let z = registers * tau(1 - (this.#histogram[RANK_BITS + 1] as number) / registers)
    for (let value = RANK_BITS; value >= 1; value--) z = 0.5 * (z + (this.#histogram[value] as number))
    z += registers * sigma((this.#histogram[0] as number) / registers)
    return (registers * registers) / (2 * Math.LN2 * z)
  }

  #raise(index: number, value: number): void {
    const before = this.#registers[index] as number
    if (value <= before) return
    this.#registers[index] = value
    this.#histogram[before] = (this.#histogram[before] as number) - 1
    this.#histogram[value] = (this.#histogram[value] as number) + 1
  }
}

/** What registers that are still empty say. */
function sigma(x: number): number {
  if (x === 1) return Number.POSITIVE_INFINITY
  let power = x
  let y = 1
  let z = x
  for (let before = -1; z !== before; ) {
    power *= power
    before = z
    z += power * y
    y += y
  }
  return z
}

/** What registers that are full say. */
function tau(x: number): number {
  if (x === 0 || x === 1) return 0
  let root = x
  let y = 1
  let z = 1 - x
  for (let before = -1; z !== before; ) {
    root = Math.sqrt(root)
    before = z
    y *= 0.5
    z -= (1 - root) ** 2 * y
  }
  return z / 3
}
