import { invariant } from '../base/invariant.js'
import { alignUp, SECTOR_BYTES } from '../base/units.js'
import type { ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR } from '../layout/descriptors.js'

/**
 * How one item is coded: what an ITEM_CODING says, by names. An item of the coding RAW is always stored as it is; one of
 * another coding is where that pays, and raw where it does not or may not: its stored length tells which.
 */
export interface ItemCoding {
  readonly format: keyof typeof ITEM_FORMAT
  readonly scalar: keyof typeof ITEM_SCALAR
  readonly role: keyof typeof ITEM_ROLE
  /** Bits of a value; TurboQuant's, else 0. */
  readonly bits: number
  /** Values of a head's vector; TurboQuant's, else 0. */
  readonly headDim: number
  /** Of the rotation's signs, below 2^32; TurboQuant's, else 0. */
  readonly seed: number
}

/** The engine's bytes as they are. */
export const RAW: ItemCoding = { format: 'raw', scalar: 'bytes', role: 'none', bits: 0, headDim: 0, seed: 0 }

/** Why a layer's items, or one of its items, are stored as the engine has them. */
export const RAW_REASONS = [
  /** No codec is set. */
  'no-codec',
  /** Not a type of numbers that the codec knows. */
  'dtype',
  /** Its role is none that the codec may change: recurrent state, opaque bytes; a latent under TurboQuant. */
  'role',
  /** It belongs to a checkpoint group: recurrent state must come back exactly. */
  'checkpoint',
  /** The dimension of a head is unknown or none that the codec has, or bytes are no whole vectors. */
  'head-layout',
  /** An address or stride that the codec cannot read from. */
  'alignment',
  /** Among the first or last layers of its stage, which TurboQuant keeps exact. */
  'protected',
  /** Segments above 16 MiB. */
  'large',
  /** Too small to save an eighth of its sectors. */
  'small',
  /** ANS is coded by a GPU, and the pages are in the host's memory. */
  'device',
] as const
export type RawReason = (typeof RAW_REASONS)[number]

/** How the items of one layer are coded, unless an item is too small (itemCoding of representation.ts). */
export interface LayerCoding {
  /** One for each segment as the engine registered it. */
  readonly segments: readonly ItemCoding[]
  /** Null when the layer is coded. */
  readonly rawReason: RawReason | null
}

/** Bytes of a value of every scalar that is quantized. */
const SCALAR_BYTES = 2
/** A 16-bit float behind a vector's codes: the norm of a key; scale and least value of a value. */
const TRAILER_BYTES = { k: 2, v: 4, packed: 6 } as const

/** True when an item may be stored in another form than the engine's. */
export function isCoded(coding: ItemCoding): boolean {
  return coding.format !== 'raw'
}

/**
 * Bytes that an item of `itemBytes` is expected to take: exact for FP8 (a byte a value) and TurboQuant (codes and their
 * trailer a vector); the item's own for ANS, whose length depends on the values, and for raw items.
 */
export function storedBytesOf(coding: ItemCoding, itemBytes: number): number {
  if (coding.format === 'fp8') return itemBytes / SCALAR_BYTES
  if (coding.format !== 'turboquant') return itemBytes
  return (itemBytes / vectorBytes(coding)) * codedVectorBytes(coding)
}

/** Engine bytes that TurboQuant codes at once: a head's vector of a token; with role `packed` its key and its value. */
export function vectorBytes({ role, headDim }: ItemCoding): number {
  return headDim * SCALAR_BYTES * (role === 'packed' ? 2 : 1)
}

/** What TurboQuant stores for vectorBytes(): codes of `bits` each, rounded up to a byte a vector, then the trailer. */
function codedVectorBytes({ role, headDim, bits }: ItemCoding): number {
  invariant(role !== 'none', 'a quantized item has a role', { headDim, bits })
  return Math.ceil((headDim * bits) / 8) * (role === 'packed' ? 2 : 1) + TRAILER_BYTES[role]
}

/** The savings rule: a coding is kept when whole sectors of it are at most seven eighths of the item's. */
export function savesEnough(storedBytes: number, itemBytes: number): boolean {
  return alignUp(storedBytes, SECTOR_BYTES) * 8 <= alignUp(itemBytes, SECTOR_BYTES) * 7
}
