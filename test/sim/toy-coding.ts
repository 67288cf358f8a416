import { alignUp } from '../../src/shared/base/units.js'
import type { ItemCoding } from '../../src/shared/codec/coding.js'
import { ITEM_CODING, ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR } from '../../src/shared/layout/descriptors.js'
import { continues, nextWord } from './oracle.js'

/** How an item is coded: the fields of one ITEM_CODING. */
export interface Coding {
  readonly format: number
  readonly scalar: number
  readonly role: number
  readonly bits: number
  readonly headDim: number
  readonly seed: number
}

/** The coding of an item of a template. */
export function codingAt(codings: Float64Array, item: number): Coding {
  const field = (name: number) => codings[item * ITEM_CODING.doubles + name] as number
  return {
    format: field(ITEM_CODING.format),
    scalar: field(ITEM_CODING.scalar),
    role: field(ITEM_CODING.role),
    bits: field(ITEM_CODING.bits),
    headDim: field(ITEM_CODING.headDim),
    seed: field(ITEM_CODING.seed),
  }
}

/** The same of a granule as the Manager has it, by names. */
export function codingOf({ format, scalar, role, bits, headDim, seed }: ItemCoding): Coding {
  return {
    format: ITEM_FORMAT[format],
    scalar: ITEM_SCALAR[scalar],
    role: ITEM_ROLE[role],
    bits,
    headDim,
    seed,
  }
}

/** The two words that content is known by, and then at least one byte that proves them. */
const HEAD_BYTES = 8

/** Lengths that compressed content has, in hundredths of its own: some are not worth keeping. */
const ANS_HUNDREDTHS = [20, 45, 60, 80, 97, 130] as const

/**
 * What stands in for every format: content of the oracle follows from its first two words, so a coding holds these and
 * then bytes that follow from them and from how it is coded, to the length that the format has. It gives every byte
 * back, fits nothing that is not content, and one bit that differs, another length or another coding is no coding.
 */
export function encodeToy(coding: Coding, words: Uint32Array): Uint8Array | null {
  if (!continues(words, 0, words.length)) return null
  const version = words[0] as number
  const second = words[1] as number
  const stored = storedBytes(coding, words.length * 4, second)
  if (stored < HEAD_BYTES + 1 || !saves(stored, words.length * 4)) return null
  const codes = new Uint8Array(stored)
  const mask = hashOf(coding)
  const view = new DataView(codes.buffer)
  view.setUint32(0, version ^ mask, true)
  view.setUint32(4, second ^ mask, true)
  fill(codes, mask, version, second)
  return codes
}

/** The words of an item of `itemBytes` bytes, or null: these bytes are not its coding. */
export function decodeToy(coding: Coding, codes: Uint8Array, itemBytes: number): Uint32Array | null {
  if (codes.length < HEAD_BYTES + 1) return null
  const mask = hashOf(coding)
  const view = new DataView(codes.buffer, codes.byteOffset, codes.length)
  const version = (view.getUint32(0, true) ^ mask) >>> 0
  const second = (view.getUint32(4, true) ^ mask) >>> 0
  if (storedBytes(coding, itemBytes, second) !== codes.length) return null
  const right = new Uint8Array(codes.length)
  right.set(codes.subarray(0, HEAD_BYTES))
  fill(right, mask, version, second)
  if (Buffer.compare(right, codes) !== 0) return null
  const words = new Uint32Array(itemBytes / 4)
  words[0] = version
  words[1] = second
  for (let index = 2; index < words.length; index++) words[index] = nextWord(words[index - 1] as number)
  return words
}

/** A coding is kept when what it takes, in whole sectors, is at least an eighth less than what the item takes. */
function saves(stored: number, itemBytes: number): boolean {
  return alignUp(stored, 512) * 8 <= alignUp(itemBytes, 512) * 7
}

/** Lengths of the formats, written here once more. `second`: the second word, which compressed lengths follow from. */
function storedBytes({ format, role, bits, headDim }: Coding, itemBytes: number, second: number): number {
  const values = itemBytes / 2
  switch (format) {
    case ITEM_FORMAT.fp8:
      return values
    case ITEM_FORMAT.turboquant: {
      const codeBytes = Math.ceil((headDim * bits) / 8)
      const vectors = values / headDim
      if (role === ITEM_ROLE.packed) return (vectors / 2) * (2 * codeBytes + 2 + 4)
      return vectors * (codeBytes + (role === ITEM_ROLE.k ? 2 : 4))
    }
    case ITEM_FORMAT.ans:
      return Math.floor((itemBytes * (ANS_HUNDREDTHS[(second >>> 8) % ANS_HUNDREDTHS.length] as number)) / 100)
    default:
      return 0
  }
}

function hashOf({ format, scalar, role, bits, headDim, seed }: Coding): number {
  let hash = 0x9e3779b1
  for (const part of [format, scalar, role, bits, headDim, seed]) {
    hash = Math.imul(hash ^ part, 0x85ebca6b)
    hash ^= hash >>> 13
  }
  return hash >>> 0
}

function fill(codes: Uint8Array, mask: number, version: number, second: number): void {
  let state = (Math.imul(version ^ mask, 0x85ebca6b) ^ second) >>> 0
  for (let at = HEAD_BYTES; at < codes.length; at++) {
    state = nextWord(state)
    codes[at] = state >>> 24
  }
}
