/** Words of one key: 32 bytes. */
export const KEY_WORDS = 8
export const KEY_BYTES = 32

/**
 * A second uint32 of the same key, independent of the first for the purposes of sketches: the first, which is keyed,
 * mixed with one word of the key.
 */
export function secondHash(first: number, word: number): number {
  let mixed = Math.imul(first, 0x9e3779b1) ^ word
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Per-process secret of the hash, two random uint32 that the caller draws. */
export type HashSeed = readonly [seed0: number, seed1: number]

/**
 * Keyed hash of (key, class): the HalfSipHash construction with one round a word and three to finish, over nine words
 * of fixed length. Keys are digests already, but a peer chooses them: without a secret it could put all of its keys
 * into one bucket and make every lookup walk them.
 *
 * @returns a uint32.
 */
export function hashKey(words: Uint32Array, at: number, classId: number, seed0: number, seed1: number): number {
  let v0 = seed0 | 0
  let v1 = seed1 | 0
  let v2 = 0x6c796765 ^ seed0
  let v3 = 0x74656462 ^ seed1
  for (let index = 0; index <= KEY_WORDS; index++) {
    const word = index === KEY_WORDS ? classId : (words[at + index] as number) | 0
    v3 ^= word
    v0 = (v0 + v1) | 0
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
    v0 = (v0 + v3) | 0
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
    v2 = (v2 + v1) | 0
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
    v2 = (v2 << 16) | (v2 >>> 16)
    v0 ^= word
  }
  v2 ^= 0xff
  for (let round = 0; round < 3; round++) {
    v0 = (v0 + v1) | 0
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
    v0 = (v0 + v3) | 0
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
    v2 = (v2 + v1) | 0
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
    v2 = (v2 << 16) | (v2 >>> 16)
  }
  return (v1 ^ v3) >>> 0
}
