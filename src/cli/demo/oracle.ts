import type { CodecName } from '../../shared/codec/setting.js'
import { HEAD_DIM, segmentContent } from './content.js'

/**
 * What an engine's pages hold, and what they may hold after a restore: the same bytes without a codec or with an exact one,
 * exactly the rounded values with FP8, values within the error of the format with TurboQuant. Everything here is
 * computed by plain arithmetic and knows nothing of the codecs of this project, so that both are wrong together only by
 * chance. The Python engine has its own.
 *
 * Codecs get 16-bit floats, not random bytes: 2^-3 to below 2, either sign, ten random bits each.
 */
export class Oracle {
  /** Sums of squares of what was published and of how far the restored is from it: K error, K, V error, V. */
  readonly sums: [number, number, number, number] = [0, 0, 0, 0]
  readonly #codec: CodecName
  readonly #layers: number

  constructor(codec: CodecName, layers: number) {
    this.#codec = codec
    this.#layers = layers
  }

  /** What the segment (layer, part) of a block holds. */
  content(key: Uint8Array, layer: number, part: 0 | 1, bytes: number): Uint8Array {
    const random = segmentContent(key, layer, part, bytes)
    return this.#codec === 'none' ? random : floatsOf(random)
  }

  /** Whether a restored segment is what the codec may make of the published one. */
  accepts(layer: number, part: 0 | 1, published: Uint8Array, restored: Uint8Array): boolean {
    if (this.#codec === 'fp8') return same(roundedToE4m3(published), restored)
    if (vectorErrorMax(this.#codec) === 0 || this.#isProtected(layer)) return same(published, restored)
    return this.#vectorsAreClose(part, published, restored)
  }

  /** TurboQuant leaves the first and last two layers of a stage alone. */
  #isProtected(layer: number): boolean {
    return layer < 2 || layer >= this.#layers - 2
  }

  #vectorsAreClose(part: 0 | 1, published: Uint8Array, restored: Uint8Array): boolean {
    const [was, is] = [lanesOf(published), lanesOf(restored)]
    const max = vectorErrorMax(this.#codec)
    let close = was.length === is.length
    for (let vector = 0; vector < was.length && close; vector += HEAD_DIM) {
      let [error, power] = [0, 0]
      for (let i = vector; i < vector + HEAD_DIM; i++) {
        const x = VALUES[was[i] as number] as number
        const difference = (VALUES[is[i] as number] as number) - x
        error += difference * difference
        power += x * x
      }
      this.sums[2 * part] = (this.sums[2 * part] as number) + error
      this.sums[2 * part + 1] = (this.sums[2 * part + 1] as number) + power
      close = error <= max * power
    }
    return close
  }
}

/**
 * Mean square error of restored values over their mean square, K and V, that 4 and 3 bits may have over many vectors;
 * null for codecs whose values are determined. Measured on Gaussian vectors: 0.0092 and 0.0099, 0.0337 and 0.0457.
 */
export function relativeErrorMax(codec: CodecName): readonly [k: number, v: number] | null {
  if (codec === 'turboquant-4') return [0.0105, 0.014]
  if (codec === 'turboquant-3') return [0.038, 0.062]
  return null
}

/** The same for any single vector: three times the worst of 20,000. A foreign vector is off by about 2. */
function vectorErrorMax(codec: CodecName): number {
  return codec === 'turboquant-4' ? 0.15 : codec === 'turboquant-3' ? 0.3 : 0
}

/** Keeps the sign, two bits of the exponent and the mantissa of each random value; the exponent is then -3 to 0. */
export function floatsOf(random: Uint8Array): Uint8Array {
  const lanes = new Uint16Array(random.length / 2)
  for (let i = 0; i < lanes.length; i++) {
    const low = random[2 * i] as number
    const high = random[2 * i + 1] as number
    lanes[i] = ((low | (high << 8)) & 0x81ff) | 0x3e00
  }
  return new Uint8Array(lanes.buffer)
}

/** What FP8 makes of such values: each the nearest that E4M3 has. */
export function roundedToE4m3(floats: Uint8Array): Uint8Array {
  const lanes = lanesOf(floats)
  const rounded = new Uint16Array(lanes.length)
  for (let i = 0; i < lanes.length; i++) rounded[i] = nearestOf(lanes[i] as number)
  return new Uint8Array(rounded.buffer)
}

/** Values of E4M3 from 0 to 448 by their code: sign, four bits of exponent with bias 7, three of mantissa. */
const E4M3 = Array.from({ length: 127 }, (_, code) => {
  const [exponent, mantissa] = [code >> 3, code & 7]
  return exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7)
})

const nearest = new Map<number, number>()

/** The bfloat16 of the E4M3 value that is nearest to a bfloat16 from -448 to 448; of two the one with the even code. */
function nearestOf(pattern: number): number {
  const known = nearest.get(pattern)
  if (known !== undefined) return known
  const magnitude = Math.abs(VALUES[pattern] as number)
  let best = 0
  for (let code = 1; code < E4M3.length; code++) {
    const closer = Math.abs((E4M3[code] as number) - magnitude) - Math.abs((E4M3[best] as number) - magnitude)
    if (closer < 0 || (closer === 0 && code % 2 === 0)) best = code
  }
  const [bits] = new Uint32Array(Float32Array.of(E4M3[best] as number).buffer)
  const found = ((bits as number) >>> 16) | (pattern & 0x8000)
  nearest.set(pattern, found)
  return found
}

/** The value of every bfloat16 pattern: the upper half of a binary32. */
const VALUES = new Float32Array(Uint32Array.from({ length: 65_536 }, (_, pattern) => pattern << 16).buffer)

/** Little-endian 16-bit values, wherever the bytes begin. */
function lanesOf(bytes: Uint8Array): Uint16Array {
  return new Uint16Array(new Uint8Array(bytes).buffer)
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
