import { invariant } from '../base/invariant.js'
import { type ItemCoding, storedBytesOf, vectorBytes } from './coding.js'
import { largestFinite, type NarrowFloat, narrow, widen } from './narrow-floats.js'

/**
 * TurboQuant, version 1, as plain as it can be said: what the addon and the kernels of a GPU are held to, bit for bit.
 * Real items are coded natively.
 *
 * Every sum, product, quotient and root is rounded to binary32 (`f`) before it is used again. Sums of squares add halves:
 * x[i] + x[i + D/2], and so on until one is left.
 */
const f = Math.fround

/** Lloyd-Max levels of N(0, 1), which are symmetric: the positive halves. 0 is a boundary too. */
const LEVELS: Readonly<Record<number, { boundaries: readonly number[]; centroids: readonly number[] }>> = {
  3: {
    boundaries: [0.500549730075, 1.049957279855, 1.747927491521],
    centroids: [0.245094178944, 0.756005281206, 1.343909278505, 2.151945704537],
  },
  4: {
    boundaries: [
      0.258221664671, 0.522403709011, 0.79954978751, 1.099285826917, 1.437138791685, 1.843531806277, 2.400803398763,
    ],
    centroids: [
      0.128395029851, 0.38804829949, 0.656759118532, 0.942340456487, 1.256231197347, 1.618046386022, 2.069017226531,
      2.732589570995,
    ],
  },
}

/** The least step between levels of V. */
const SCALE_MIN = f(1e-8)

function levelsOf(bits: number): { boundaries: number[]; centroids: number[] } {
  const half = LEVELS[bits]
  invariant(half !== undefined, 'values have 3 or 4 bits', { bits })
  const mirrored = (values: readonly number[]): number[] => values.map((value) => -f(value)).reverse()
  return {
    boundaries: [...mirrored(half.boundaries), 0, ...half.boundaries.map(f)],
    centroids: [...mirrored(half.centroids), ...half.centroids.map(f)],
  }
}

/** Whether coordinate `i` is negated by the rotation of `seed`: the finalizer of MurmurHash3 over seed + i * golden ratio. */
export function isNegated(seed: number, i: number): boolean {
  let hash = (seed + Math.imul(i, 0x9e3779b9)) >>> 0
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  hash ^= hash >>> 16
  return hash >>> 31 === 1
}

/** The Walsh-Hadamard transform, in place and without scaling. */
export function hadamard(x: number[]): void {
  for (let half = 1; half < x.length; half *= 2) {
    for (let i = 0; i < x.length; i++) {
      if ((i & half) !== 0) continue
      const [a, b] = [x[i] as number, x[i + half] as number]
      x[i] = f(a + b)
      x[i + half] = f(a - b)
    }
  }
}

function norm(x: readonly number[]): number {
  let sums = x.map((value) => f(value * value))
  while (sums.length > 1) {
    const half = sums.length / 2
    sums = sums.slice(0, half).map((sum, i) => f(sum + (sums[i + half] as number)))
  }
  return f(Math.sqrt(sums[0] as number))
}

/** Codes and the bits of trailers; null when the vector cannot be coded. */
type Coded = { readonly codes: number[]; readonly trailers: number[] } | null

function encodeKey(x: readonly number[], bits: number, seed: number): Coded {
  const n = norm(x)
  const n16 = narrow('fp16', n)
  const fits = x.every(Number.isFinite) && Number.isFinite(widen('fp16', n16))
  // What FP16 has no norm for, or binary32 no squares, would come back as nothing.
  if (!fits || (n16 === 0 && x.some((value) => value !== 0))) return null
  const z = x.map((value, i) => (n === 0 ? 0 : f(value / n) * (isNegated(seed, i) ? -1 : 1)))
  hadamard(z)
  const { boundaries } = levelsOf(bits)
  return { codes: z.map((value) => boundaries.filter((boundary) => value > boundary).length), trailers: [n16] }
}

function decodeKey(codes: readonly number[], [n16 = 0]: readonly number[], bits: number, seed: number): number[] {
  const n = widen('fp16', n16)
  if (n === 0) return codes.map(() => 0)
  const { centroids } = levelsOf(bits)
  const c = codes.map((code) => centroids[code] as number)
  const gain = f(n / f(norm(c) * f(Math.sqrt(c.length))))
  hadamard(c)
  return c.map((value, i) => f(value * gain) * (isNegated(seed, i) ? -1 : 1))
}

function encodeValue(x: readonly number[], bits: number): Coded {
  const top = 2 ** bits - 1
  const least = Math.min(...x) + 0 // -0 counts as +0
  const range = f(Math.max(...x) + 0 - least)
  const scale = Math.max(f(range / top), SCALE_MIN)
  const [scale16, least16] = [narrow('fp16', scale), narrow('fp16', least)]
  const fits = [scale16, least16].every((trailer) => Number.isFinite(widen('fp16', trailer)))
  if (!x.every(Number.isFinite) || !Number.isFinite(range) || !fits || (scale16 === 0 && range > 0)) return null
  const codes = x.map((value) => Math.min(Math.max(Math.floor(f(f(f(value - least) / scale) + 0.5)), 0), top))
  return { codes, trailers: [scale16, least16] }
}

function decodeValue(codes: readonly number[], [scale16 = 0, least16 = 0]: readonly number[]): number[] {
  const [scale, least] = [widen('fp16', scale16), widen('fp16', least16)]
  return codes.map((code) => f(f(code * scale) + least))
}

/** The vectors of an item in turn: their first byte, and whether they are keys. */
function vectorsOf(coding: ItemCoding, itemBytes: number): { at: number; isKey: boolean }[] {
  const { role, headDim } = coding
  return Array.from({ length: itemBytes / (2 * headDim) }, (_, i) => ({
    at: i * 2 * headDim,
    isKey: role === 'k' || (role === 'packed' && i % 2 === 0),
  }))
}

/** True when `itemBytes` are whole vectors of what TurboQuant codes. */
function isWhole({ format, scalar, role, bits, headDim }: ItemCoding, itemBytes: number): boolean {
  const isKnown = format === 'turboquant' && (scalar === 'bf16' || scalar === 'fp16') && role !== 'none'
  const step = 2 * headDim * (role === 'packed' ? 2 : 1)
  return isKnown && bits in LEVELS && [32, 64, 128, 256].includes(headDim) && itemBytes % step === 0
}

/** The coding of an item's bytes, little-endian; null when one of its vectors cannot be coded. */
export function encodeTurboquant(coding: ItemCoding, item: Uint8Array): Uint8Array | null {
  const { bits, headDim, seed } = coding
  invariant(isWhole(coding, item.length), 'whole vectors are coded', { ...coding, vector: vectorBytes(coding) })
  const from = new DataView(item.buffer, item.byteOffset, item.byteLength)
  const stored = new Uint8Array(storedBytesOf(coding, item.length))
  let at = 0
  for (const vector of vectorsOf(coding, item.length)) {
    const x = Array.from({ length: headDim }, (_, i) =>
      widen(coding.scalar as NarrowFloat, from.getUint16(vector.at + 2 * i, true)),
    )
    const coded = vector.isKey ? encodeKey(x, bits, seed) : encodeValue(x, bits)
    if (coded === null) return null
    coded.codes.forEach((code, i) => {
      for (let bit = 0; bit < bits; bit++) {
        const place = i * bits + bit
        const byte = at + Math.floor(place / 8)
        stored[byte] = (stored[byte] as number) | (((code >> bit) & 1) << (place % 8))
      }
    })
    at += Math.ceil((headDim * bits) / 8)
    for (const trailer of coded.trailers) {
      new DataView(stored.buffer).setUint16(at, trailer, true)
      at += 2
    }
  }
  return stored
}

/** The item of `itemBytes` that a coding stands for; null when `stored` is none: another length, a trailer that is not finite. */
export function decodeTurboquant(coding: ItemCoding, stored: Uint8Array, itemBytes: number): Uint8Array | null {
  const { bits, headDim, seed } = coding
  invariant(isWhole(coding, itemBytes), 'whole vectors are coded', { ...coding, vector: vectorBytes(coding) })
  if (stored.length !== storedBytesOf(coding, itemBytes)) return null
  const scalar = coding.scalar as NarrowFloat
  const from = new DataView(stored.buffer, stored.byteOffset, stored.byteLength)
  const item = new Uint8Array(itemBytes)
  const to = new DataView(item.buffer)
  let at = 0
  for (const vector of vectorsOf(coding, itemBytes)) {
    const codes = Array.from({ length: headDim }, (_, i) => {
      let code = 0
      for (let bit = 0; bit < bits; bit++) {
        const place = i * bits + bit
        code |= (((stored[at + Math.floor(place / 8)] as number) >> (place % 8)) & 1) << bit
      }
      return code
    })
    at += Math.ceil((headDim * bits) / 8)
    const trailers = Array.from({ length: vector.isKey ? 1 : 2 }, (_, i) => from.getUint16(at + 2 * i, true))
    at += 2 * trailers.length
    if (!trailers.every((trailer) => Number.isFinite(widen('fp16', trailer)))) return null
    const x = vector.isKey ? decodeKey(codes, trailers, bits, seed) : decodeValue(codes, trailers)
    x.forEach((value, i) => {
      to.setUint16(vector.at + 2 * i, saturated(scalar, value), true)
    })
  }
  return item
}

/** The bits nearest to a value that is finite: those of the largest finite value instead of infinity. */
function saturated(format: NarrowFloat, value: number): number {
  const largest = largestFinite(format)
  return narrow(format, Math.min(Math.max(value, -largest), largest))
}
