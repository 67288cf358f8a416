/** Two 32-bit sums over what something holds, each element mixed with its position: cheap to keep up to date. */
export interface Digest {
  readonly low: number
  readonly high: number
}

export const LOW = 0x9e3779b1 | 0
export const HIGH = 0x85ebca77 | 0
/** All numbers here are integers below 2^53: records, counters and serials. */
const UPPER = 2 ** 32

export function mix(position: number, value: number, seed: number): number {
  let hash = Math.imul(position + 1, seed) ^ (value | 0)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  hash = Math.imul(hash ^ (hash >>> 15) ^ Math.floor(value / UPPER), 0x846ca68b)
  hash = Math.imul(hash ^ (hash >>> 16), seed)
  return hash ^ (hash >>> 15)
}

export function digestOf(numbers: ArrayLike<number>): Digest {
  let low = 0
  let high = 0
  for (let i = 0; i < numbers.length; i++) {
    low = (low + mix(i, numbers[i] as number, LOW)) | 0
    high = (high + mix(i, numbers[i] as number, HIGH)) | 0
  }
  return { low, high }
}
