import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR } from '../../src/shared/layout/descriptors.js'

const native = loadNative()

export const GUARD = 0x5a

/** One ITEM_CODING by names. */
export interface Coding {
  readonly format: keyof typeof ITEM_FORMAT
  readonly scalar: keyof typeof ITEM_SCALAR
  readonly role?: keyof typeof ITEM_ROLE
  readonly bits?: number
  readonly headDim?: number
  readonly seed?: number
}

export const codingFields = ({ format, scalar, role = 'none', bits = 0, headDim = 0, seed = 0 }: Coding): number[] => [
  ITEM_FORMAT[format],
  ITEM_SCALAR[scalar],
  ITEM_ROLE[role],
  bits,
  headDim,
  seed,
]

/** One item a granule: `bytes` bytes of each page, `base` bytes into the memory and `pageStride` apart. */
export interface CodedItem {
  readonly coding: Coding
  readonly bytes: number
  readonly base: number
  readonly pageStride: number
}

export const aligned = (bytes: number): number => Math.ceil(bytes / 512) * 512

/** Engine memory whose items are coded: guard bytes lie around every item of every page. */
export class CodedEngine {
  readonly mapping: number
  readonly template: number
  readonly bytes: Uint8Array
  readonly items: readonly CodedItem[]
  readonly pages: number

  constructor(t: ExecutionContext, items: readonly CodedItem[], pages: number) {
    this.items = items
    this.pages = pages
    const ends = items.map(({ base, pageStride, bytes }) => base + (pages - 1) * pageStride + bytes)
    const end = Math.max(...ends) + 64
    const fd = native.createMemory(end)
    this.mapping = native.importMemory(fd).mapping
    native.closeFd(fd)
    this.bytes = native.mappingView(this.mapping, 0, end).fill(GUARD)
    this.template = native.defineTemplate(
      Float64Array.from(
        items.flatMap(({ base, pageStride, bytes }) => [
          this.mapping,
          base,
          pageStride,
          pages,
          0,
          bytes,
          aligned(bytes),
        ]),
      ),
      Float64Array.from({ length: items.length + 1 }, (_, g) => g),
      Float64Array.from(items.flatMap(({ coding }) => codingFields(coding))),
    )
    t.teardown(() => native.releaseMapping(this.mapping))
  }

  item(index: number, page: number): Uint8Array {
    const { base, pageStride, bytes } = this.items[index] as CodedItem
    return this.bytes.subarray(base + page * pageStride, base + page * pageStride + bytes)
  }

  /** The COPY descriptor of an item with `stored` bytes of coding or of room. */
  copy(index: number, page: number, poolOffset: number, stored: number): number[] {
    return [this.template, index, page, poolOffset, 0, 1, stored]
  }
}

/** Deterministic values of N(0, 1), by sums of twelve uniform ones. */
export class Gaussians {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  #uniform(): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return this.#state / 2 ** 32
  }

  next(): number {
    let sum = -6
    for (let i = 0; i < 12; i++) sum += this.#uniform()
    return sum
  }
}

const word = new Uint32Array(1)
const float = new Float32Array(word.buffer)

/** bfloat16 nearest to a value; for test data, so that ties do not matter. */
export function bf16Of(value: number): number {
  float[0] = value
  return ((word[0] as number) + 0x8000) >>> 16
}

/** Fills bytes with bfloat16 values of N(0, 1). */
export function fillGaussians(bytes: Uint8Array, seed: number): void {
  const values = new Gaussians(seed)
  for (let i = 0; i + 1 < bytes.length; i += 2) {
    const bits = bf16Of(values.next())
    bytes[i] = bits & 255
    bytes[i + 1] = bits >> 8
  }
}
