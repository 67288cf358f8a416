import { crc32 } from 'node:zlib'
import type { ExecutionContext } from 'ava'
import type { StreamOptions } from '../../src/binding/streams.js'
import type { Native } from '../../src/binding/surface.js'
import { ITEM_CODING, ITEM_FORMAT, ITEM_SCALAR, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import { CudaLane } from './cuda-lane.js'

export const SECTOR = 512
/** What pages and pool hold where nobody may write. */
const GUARD = 0x5a
/** Between pages, and behind the room of each item. */
const GUARD_BYTES = 1024

/** One item: what the engine says of it, and its bytes. */
export interface AnsItem {
  readonly scalar: keyof typeof ITEM_SCALAR
  readonly content: Uint8Array
  /** Another format than ANS, so that jobs are mixed. */
  readonly format?: 'ans' | 'fp8' | 'turboquant'
}

export interface Stored {
  readonly bytes: number
  readonly crc: number
}

const up = (bytes: number, alignment: number): number => Math.ceil(bytes / alignment) * alignment

/** bf16 values of a normal distribution: their exponents are few, so that every entropy code makes them shorter. */
export function normals(bytes: number, seed: number): Uint8Array {
  const values = new Uint16Array(bytes / 2)
  const single = new Float32Array(1)
  const bits = new Uint32Array(single.buffer)
  let state = seed
  const uniform = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state + 1) / 4_294_967_297
  }
  for (let i = 0; i < values.length; i++) {
    single[0] = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    values[i] = (bits[0] as number) >>> 16
  }
  return new Uint8Array(values.buffer)
}

/** Bytes that nothing makes shorter. */
export function noise(bytes: number, seed: number): Uint8Array {
  const content = new Uint8Array(bytes)
  let state = seed
  for (let i = 0; i < bytes; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    content[i] = state >>> 11
  }
  return content
}

/** Bytes of text-like state: few values, some often. */
export function letters(bytes: number, seed: number): Uint8Array {
  return noise(bytes, seed).map((byte) => 97 + ((byte & 7) * ((byte >> 3) & 3)) / 3)
}

/** Room that a format asks for: TurboQuant codes keys of 128 values by 4 bits. */
function roomOf(format: NonNullable<AnsItem['format']>, bytes: number): number {
  if (format === 'turboquant') return (bytes / 256) * 66
  return format === 'fp8' ? bytes / 2 : bytes
}

/**
 * Items in memory of a CUDA device, rooms for them in a pool, and pages to decode into: every byte around each is a
 * guard. One template an item, because each has a length of its own.
 */
export class AnsBed {
  readonly lane: CudaLane
  /** Where jobs go: the lane's stream, unless a test has others. */
  stream: number
  readonly items: readonly AnsItem[]
  readonly #native: Native
  readonly #from: number
  readonly #to: number
  readonly #pageBytes: number
  readonly #places: readonly number[]
  readonly #rooms: readonly { readonly offset: number; readonly bytes: number }[]
  readonly #templates: readonly { readonly from: number; readonly to: number }[]

  constructor(t: ExecutionContext, native: Native, items: readonly AnsItem[], options: StreamOptions = {}) {
    this.#native = native
    this.items = items
    let place = GUARD_BYTES
    this.#places = items.map(({ content }) => {
      const here = place
      place += up(content.length + GUARD_BYTES, 16)
      return here
    })
    this.#pageBytes = place
    let offset = GUARD_BYTES
    this.#rooms = items.map(({ content, format = 'ans' }) => {
      const bytes = up(roomOf(format, content.length), SECTOR)
      const room = { offset, bytes }
      offset += bytes + GUARD_BYTES
      return room
    })
    this.lane = new CudaLane(native, offset, options)
    this.stream = this.lane.stream
    const uuid = native.cudaProbe().devices[0]?.uuid ?? ''
    this.#from = native.allocateDeviceMemory(uuid, this.#pageBytes).mapping
    this.#to = native.allocateDeviceMemory(uuid, this.#pageBytes).mapping
    this.#templates = items.map((item, i) => ({
      from: this.#template(this.#from, this.#places[i] as number, item),
      to: this.#template(this.#to, this.#places[i] as number, item),
    }))
    const pages = this.#image(() => true)
    native.writeMapping(this.#from, 0, pages)
    t.teardown(() => {
      for (const { from, to } of this.#templates) for (const one of [from, to]) native.releaseTemplate(one)
      native.releaseMapping(this.#from)
      native.releaseMapping(this.#to)
      this.lane.close()
    })
  }

  /** Encodes all items in one job; `result`: what its completion says. */
  encode(how: 'pump' | 'park' = 'pump'): { readonly result: number; readonly stored: Stored[] } {
    const accepted = this.begin()
    if (accepted !== 0) return { result: accepted, stored: [] }
    const [completion] = this.lane.reap(1, how)
    return { result: completion?.result ?? Number.NaN, stored: this.stored() }
  }

  /** Queues the encoding of all items under a tag; what the stream answers. */
  begin(tag = 1): number {
    this.lane.poolBytes.fill(GUARD)
    this.lane.results.fill(0xffff_ffff)
    const list = this.#list(
      (i) => (this.#templates[i] as { from: number }).from,
      (i) => this.#room(i).bytes,
    )
    return this.lane.port.encode(this.stream, tag, list, 0, this.items.length, 0)
  }

  /** What was said of each item. */
  stored(): Stored[] {
    return this.items.map((_, i) => ({
      bytes: this.lane.results[2 * i] as number,
      crc: this.lane.results[2 * i + 1] as number,
    }))
  }

  /** Decodes items that are shorter than they were, into pages full of guards. */
  decode(stored: readonly Stored[], which = this.#coded(stored)): { result: number; refused: number[] } {
    this.#native.writeMapping(this.#to, 0, new Uint8Array(this.#pageBytes).fill(GUARD))
    this.lane.results.fill(0xffff_ffff)
    const list = this.#list(
      (i) => (this.#templates[i] as { to: number }).to,
      (i) => (stored[i] as Stored).bytes,
      which,
    )
    const accepted = this.lane.port.decode(this.stream, 2, list, 0, which.length, 0)
    if (accepted !== 0) return { result: accepted, refused: [] }
    const [completion] = this.lane.reap(1)
    if (completion?.result !== 0) return { result: completion?.result ?? Number.NaN, refused: [] }
    return {
      result: 0,
      refused: which.filter((_, at) => this.lane.results[at] !== 0),
    }
  }

  /** What is stored is what was said, with zeroes behind it and nothing else touched. */
  checkPool(t: ExecutionContext, stored: readonly Stored[]): void {
    const pool = this.lane.poolBytes
    let from = 0
    for (const [i, { bytes, crc }] of stored.entries()) {
      const { offset, bytes: room } = this.#room(i)
      const end = offset + up(bytes, SECTOR)
      t.true(bytes > 0 && bytes <= (this.items[i] as AnsItem).content.length, `item ${i}: ${bytes} bytes`)
      t.is(crc32(pool.subarray(offset, offset + bytes)), crc, `item ${i}: CRC32 of what is stored`)
      t.true(
        pool.subarray(offset + bytes, end).every((byte) => byte === 0),
        `item ${i}: zeroes behind it`,
      )
      t.true(
        pool.subarray(from, offset).every((byte) => byte === GUARD),
        `what lies before item ${i}`,
      )
      t.true(end <= offset + room)
      // Nobody asks for what the room holds behind the last sector.
      from = offset + room
    }
    t.true(
      pool.subarray(from, from + GUARD_BYTES).every((byte) => byte === GUARD),
      'what lies behind',
    )
  }

  /** The pages that were decoded are exact, and nothing between them was touched. */
  checkPages(t: ExecutionContext, stored: readonly Stored[], exact = this.#coded(stored)): void {
    const seen = new Uint8Array(this.#pageBytes)
    this.#native.readMapping(this.#to, 0, seen)
    const expected = this.#image((i) => exact.includes(i))
    for (const [i, { content }] of this.items.entries()) {
      // What a refused coding leaves in its page is nothing of worth; FP8 rounds.
      if (exact.includes(i) && this.items[i]?.format !== 'fp8') continue
      const at = this.#places[i] as number
      if (this.#coded(stored).includes(i)) expected.set(seen.subarray(at, at + content.length), at)
    }
    t.is(Buffer.compare(seen, expected), 0, 'pages and what lies between them')
  }

  /** An item as it lies in the pool. */
  poolOf(i: number, bytes: number): Uint8Array {
    const { offset } = this.#room(i)
    return this.lane.poolBytes.subarray(offset, offset + bytes)
  }

  #coded(stored: readonly Stored[]): number[] {
    return this.items.flatMap((item, i) => ((stored[i] as Stored).bytes < item.content.length ? [i] : []))
  }

  #room(i: number) {
    return this.#rooms[i] as { readonly offset: number; readonly bytes: number }
  }

  #image(has: (item: number) => boolean): Uint8Array {
    const image = new Uint8Array(this.#pageBytes).fill(GUARD)
    for (const [i, { content }] of this.items.entries()) if (has(i)) image.set(content, this.#places[i])
    return image
  }

  #list(
    template: (item: number) => number,
    stored: (item: number) => number,
    which = this.items.map((_, i) => i),
  ): Float64Array {
    return Float64Array.from(which.flatMap((i) => [template(i), 0, 0, this.#room(i).offset, 0, 1, stored(i)]))
  }

  #template(mapping: number, base: number, { scalar, content, format = 'ans' }: AnsItem): number {
    const item = new Float64Array(TEMPLATE_ITEM.doubles)
    item[TEMPLATE_ITEM.mapping] = mapping
    item[TEMPLATE_ITEM.baseBytes] = base
    item[TEMPLATE_ITEM.pageCount] = 1
    item[TEMPLATE_ITEM.bytes] = content.length
    item[TEMPLATE_ITEM.paddedBytes] = up(content.length, SECTOR)
    const coding = new Float64Array(ITEM_CODING.doubles)
    coding[ITEM_CODING.format] = ITEM_FORMAT[format]
    coding[ITEM_CODING.scalar] = ITEM_SCALAR[scalar]
    if (format !== 'ans') coding[ITEM_CODING.role] = 1
    if (format === 'turboquant') {
      coding[ITEM_CODING.bits] = 4
      coding[ITEM_CODING.headDim] = 128
      coding[ITEM_CODING.seed] = 42
    }
    return this.#native.defineTemplate(item, Float64Array.of(0, 1), coding)
  }
}
