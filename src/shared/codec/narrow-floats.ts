/**
 * The 16-bit floats of engine pages by their definition, for references and tests; real pages are converted natively.
 */
export type NarrowFloat = 'bf16' | 'fp16'

const MANTISSA_BITS: Record<NarrowFloat, number> = { bf16: 7, fp16: 10 }

const exponentTop = (format: NarrowFloat): number => 2 ** (15 - MANTISSA_BITS[format]) - 1
const biasOf = (format: NarrowFloat): number => (exponentTop(format) - 1) / 2

/** The largest finite value of a format. */
export function largestFinite(format: NarrowFloat): number {
  return widen(format, (exponentTop(format) << MANTISSA_BITS[format]) - 1)
}

/** The number that 16 bits mean. */
export function widen(format: NarrowFloat, bits: number): number {
  const mantissaBits = MANTISSA_BITS[format]
  const exponent = (bits & 0x7fff) >> mantissaBits
  const fraction = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits
  const sign = bits >= 0x8000 ? -1 : 1
  if (exponent === exponentTop(format)) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  if (exponent === 0) return sign * fraction * 2 ** (1 - biasOf(format))
  return sign * (1 + fraction) * 2 ** (exponent - biasOf(format))
}

/** The bits nearest to a number, ties to even; infinite from half a step above the largest finite value on. */
export function narrow(format: NarrowFloat, value: number): number {
  const mantissaBits = MANTISSA_BITS[format]
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  if (Number.isNaN(value)) return (exponentTop(format) << mantissaBits) | 1
  const magnitude = Math.abs(value)
  const exponent = Math.max(exponentOf(magnitude), 1 - biasOf(format))
  // Whole steps between neighbours: 2^mantissaBits of them from one power of two to the next.
  const steps = roundHalfEven(magnitude / 2 ** (exponent - mantissaBits))
  const bits = steps + (exponent + biasOf(format) - 1) * 2 ** mantissaBits
  return sign | Math.min(bits, exponentTop(format) << mantissaBits)
}

/** The largest e with 2^e <= magnitude; that of tiny and infinite ones is beyond every format. */
function exponentOf(magnitude: number): number {
  if (magnitude === 0) return -2000
  if (magnitude === Number.POSITIVE_INFINITY) return 1000
  const near = Math.floor(Math.log2(magnitude))
  if (2 ** near > magnitude) return near - 1
  return 2 ** (near + 1) <= magnitude ? near + 1 : near
}

function roundHalfEven(value: number): number {
  const below = Math.floor(value)
  const over = value - below
  if (over !== 0.5) return over < 0.5 ? below : below + 1
  return below % 2 === 0 ? below : below + 1
}
