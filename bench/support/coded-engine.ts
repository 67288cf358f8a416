import type { Native } from '../../src/binding/surface.js'
import { alignUp, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { type ItemCoding, storedBytesOf } from '../../src/shared/codec/coding.js'
import {
  COPY,
  ITEM_CODING,
  ITEM_FORMAT,
  ITEM_ROLE,
  ITEM_SCALAR,
  TEMPLATE_ITEM,
} from '../../src/shared/layout/descriptors.js'
import type { PageMemory } from './page-memory.js'

/** ITEM_CODING of an item. */
export function codingWords({ format, scalar, role, bits, headDim, seed }: ItemCoding): Float64Array {
  const words = new Float64Array(ITEM_CODING.doubles)
  words[ITEM_CODING.format] = ITEM_FORMAT[format]
  words[ITEM_CODING.scalar] = ITEM_SCALAR[scalar]
  words[ITEM_CODING.role] = ITEM_ROLE[role]
  words[ITEM_CODING.bits] = bits
  words[ITEM_CODING.headDim] = headDim
  words[ITEM_CODING.seed] = seed
  return words
}

/** A template of one item a granule: `codings[g]` says how granule g is stored; its pages lie behind those of g - 1. */
export function codedTemplate(
  native: Native,
  memory: PageMemory,
  itemBytes: number,
  pages: number,
  codings: readonly ItemCoding[],
): number {
  const items = new Float64Array(codings.length * TEMPLATE_ITEM.doubles)
  const words = new Float64Array(codings.length * ITEM_CODING.doubles)
  for (const [granule, coding] of codings.entries()) {
    const at = granule * TEMPLATE_ITEM.doubles
    items[at + TEMPLATE_ITEM.mapping] = memory.mapping
    items[at + TEMPLATE_ITEM.baseBytes] = granule * pages * itemBytes
    items[at + TEMPLATE_ITEM.pageStrideBytes] = itemBytes
    items[at + TEMPLATE_ITEM.pageCount] = pages
    items[at + TEMPLATE_ITEM.bytes] = itemBytes
    items[at + TEMPLATE_ITEM.paddedBytes] = alignUp(itemBytes, SECTOR_BYTES)
    words.set(codingWords(coding), granule * ITEM_CODING.doubles)
  }
  const firsts = Float64Array.from({ length: codings.length + 1 }, (_, granule) => granule)
  return native.defineTemplate(items, firsts, words)
}

/** Pool bytes that an item's coding may take: what the Manager gives it. */
export function roomOf(coding: ItemCoding, itemBytes: number): number {
  return alignUp(storedBytesOf(coding, itemBytes), SECTOR_BYTES)
}

/** One COPY descriptor of a whole item; `storedBytes` 0 copies it as it is. */
export interface ItemCopy {
  readonly template: number
  readonly granule: number
  readonly page: number
  readonly poolOffsetBytes: number
  readonly storedBytes: number
}

export function copyList(copies: readonly ItemCopy[]): Float64Array {
  const list = new Float64Array(copies.length * COPY.doubles)
  for (const [i, { template, granule, page, poolOffsetBytes, storedBytes }] of copies.entries()) {
    const at = i * COPY.doubles
    list[at + COPY.template] = template
    list[at + COPY.granule] = granule
    list[at + COPY.page] = page
    list[at + COPY.poolOffsetBytes] = poolOffsetBytes
    list[at + COPY.itemCount] = 1
    list[at + COPY.storedBytes] = storedBytes
  }
  return list
}
