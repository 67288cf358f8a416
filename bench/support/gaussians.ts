/** bf16 values of a normal distribution, as keys and values of a model have; the same on every run. */
export function gaussians(bytes: number): Buffer {
  const values = new Uint16Array(bytes / 2)
  const single = new Float32Array(1)
  const bits = new Uint32Array(single.buffer)
  let state = 0x2545f491
  const uniform = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return ((state >>> 0) + 1) / 4_294_967_297
  }
  for (let i = 0; i < values.length; i++) {
    single[0] = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    const wide = bits[0] as number
    // To the nearest, ties to even; no value here is near the end of the range.
    values[i] = (wide + 0x7fff + ((wide >>> 16) & 1)) >>> 16
  }
  return Buffer.from(values.buffer)
}
