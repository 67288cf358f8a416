/**
 * The bytes that must be where. Content is a function of who it is (model, key, layer, rank, segment) and of a version
 * that its first word carries: whoever reads bytes can tell whose they are without a stored copy.
 */
export interface Identity {
  readonly salt: number
  readonly key: number
  readonly layer: number
  readonly rank: number
  readonly segment: number
}

/** First word of memory that nobody has written: never a version. */
export const POISON = 0xdeadbeef

/** Writes `words` words of content at `words32[at]`. Versions are 1 … 2^31 - 1. */
export function writeContent(words32: Uint32Array, at: number, words: number, who: Identity, version: number): void {
  words32[at] = version
  let state = seedOf(who, version)
  for (let index = at + 1; index < at + words; index++) {
    state = nextWord(state)
    words32[index] = state
  }
}

/** The word of content that follows another one, but for the first two. */
export function nextWord(word: number): number {
  return (Math.imul(word, 1664525) + 1013904223) >>> 0
}

/** The words at `words32[at]` are content of somebody, in some version. */
export function continues(words32: Uint32Array, at: number, words: number): boolean {
  for (let index = at + 2; index < at + words; index++) {
    if (words32[index] !== nextWord(words32[index - 1] as number)) return false
  }
  return words32[at] !== POISON
}

/** The version of the content at `words32[at]` when every word of it is right, else -1. */
export function versionAt(words32: Uint32Array, at: number, words: number, who: Identity): number {
  const version = words32[at] as number
  let state = seedOf(who, version)
  for (let index = at + 1; index < at + words; index++) {
    state = nextWord(state)
    if (words32[index] !== state) return -1
  }
  return version === POISON ? -1 : version
}

function seedOf(who: Identity, version: number): number {
  let hash = Math.imul(who.salt + 1, 0x9e3779b1)
  for (const part of [who.key, who.layer, who.rank, who.segment, version]) {
    hash = Math.imul(hash ^ part, 0x85ebca6b)
    hash ^= hash >>> 13
  }
  return hash
}
