import { COPY, ITEM_FORMAT, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import type { Codings } from './codings.js'
import type { EngineMemory } from './descriptors.js'
import type { Flights, Range } from './ledger.js'
import { type Coding, codingAt } from './toy-coding.js'
import { must } from './violation.js'

interface Template {
  readonly items: Float64Array
  readonly firstItem: Float64Array
  /** One ITEM_CODING an item, or null: all are raw. */
  readonly codings: Float64Array | null
  retired: boolean
}

interface Mapping {
  readonly memory: EngineMemory
  released: boolean
  /** Copies queued or running that name it: it stays mapped until they end. */
  users: number
  /** Of these, codings. */
  codings: number
}

/** What copies move bytes to and from beside pages: the pool, or one staging slot. */
export interface CopyMemory {
  /** Its name among the flights. */
  readonly space: string
  readonly bytes: Uint8Array
  /** What was encoded where in it: of the pool alone. */
  readonly codings: Codings | null
  /** A device may be pointed at these bytes. */
  mustBeOwned(offsetBytes: number, bytes: number, what: string): void
}

/** One contiguous move of a copy. */
export interface Move {
  readonly mapping: Mapping
  readonly pageAt: number
  /** In the memory that the copy is with. */
  readonly memoryAt: number
  readonly bytes: number
  readonly paddedBytes: number
}

/** One item that is encoded or decoded: `paddedBytes` is its room, or what it is stored in. */
export interface CodedMove extends Move {
  readonly coding: Coding
}

/**
 * Mappings and templates of all devices, and what copies between them and other memory do; as binding/memory.ts and
 * binding/templates.ts.
 */
export class Device {
  readonly #flights: Flights
  readonly #unfitOneIn: number
  readonly #mappings = new Map<number, Mapping>()
  readonly #templates = new Map<number, Template>()
  /** Released, and still named by copies. */
  readonly #leaving = new Set<number>()
  #next = 1
  /** Everything that it is asked to do fails, until its process is started anew. */
  sticky = false
  /** Items that were encoded and decoded, so far. */
  encoded = 0
  decoded = 0

  /** `unfitOneIn`: so many items on average hold one that no format can code, by what they hold; 0: none. */
  constructor(flights: Flights, unfitOneIn = 0) {
    this.#flights = flights
    this.#unfitOneIn = unfitOneIn
  }

  /** The item holds values that no format has. */
  unfit(item: Uint32Array): boolean {
    return this.#unfitOneIn > 0 && ((item[1] as number) >>> 16) % this.#unfitOneIn === 0
  }

  get mappings(): number {
    return this.#mappings.size
  }

  get templates(): number {
    return this.#templates.size
  }

  map(memory: EngineMemory): number {
    const mapping = this.#next++
    this.#mappings.set(mapping, { memory, released: false, users: 0, codings: 0 })
    return mapping
  }

  release(number: number): void {
    const mapping = this.#mappings.get(number)
    must(mapping !== undefined && !mapping.released, 'O5', () => `mapping ${number} is released twice`)
    ;(mapping as Mapping).released = true
    this.#leaving.add(number)
    this.#reap(number)
  }

  read(number: number, offsetBytes: number, bytes: number): Uint8Array {
    const memory = this.#mapping(number).memory
    must(offsetBytes + bytes <= memory.bytes.length, 'X3', () => `read past mapping ${number}`)
    return memory.bytes.slice(offsetBytes, offsetBytes + bytes)
  }

  /** As the addon: every item is checked for every page. */
  define(items: Float64Array, firstItem: Float64Array, codings?: Float64Array): number | null {
    for (let at = 0; at < items.length; at += TEMPLATE_ITEM.doubles) {
      const field = (name: number) => items[at + name] as number
      const { memory } = this.#mapping(field(TEMPLATE_ITEM.mapping))
      const last =
        field(TEMPLATE_ITEM.baseBytes) + (field(TEMPLATE_ITEM.pageCount) - 1) * field(TEMPLATE_ITEM.pageStrideBytes)
      if (last + field(TEMPLATE_ITEM.bytes) > memory.bytes.length) return null
    }
    const template = this.#next++
    this.#templates.set(template, {
      items: items.slice(),
      firstItem: firstItem.slice(),
      codings: codings?.slice() ?? null,
      retired: false,
    })
    return template
  }

  releaseTemplate(number: number): void {
    must(this.#templates.delete(number), 'O5', () => `template ${number} is released twice`)
  }

  /** The moves of one COPY descriptor; null when the addon would refuse it. */
  moves(doubles: Float64Array, at: number): Move[] | null {
    const template = this.#templates.get(doubles[at + COPY.template] as number)
    if (template === undefined || doubles[at + COPY.storedBytes] !== 0) return null
    const { items, firstItem } = template
    const granule = doubles[at + COPY.granule] as number
    const first = (firstItem[granule] as number) + (doubles[at + COPY.firstItem] as number)
    const end = first + (doubles[at + COPY.itemCount] as number)
    if (!(end <= (firstItem[granule + 1] as number)) || end <= first) return null
    const page = doubles[at + COPY.page] as number
    const moves: Move[] = []
    for (let item = first; item < end; item++) {
      const field = (name: number) => items[item * TEMPLATE_ITEM.doubles + name] as number
      const mapping = this.#mappings.get(field(TEMPLATE_ITEM.mapping))
      if (mapping === undefined || mapping.released || page >= field(TEMPLATE_ITEM.pageCount)) return null
      moves.push({
        mapping,
        pageAt: field(TEMPLATE_ITEM.baseBytes) + page * field(TEMPLATE_ITEM.pageStrideBytes),
        memoryAt: (doubles[at + COPY.poolOffsetBytes] as number) + field(TEMPLATE_ITEM.granuleOffsetBytes),
        bytes: field(TEMPLATE_ITEM.bytes),
        paddedBytes: field(TEMPLATE_ITEM.paddedBytes),
      })
    }
    return moves
  }

  /** The coding of one COPY descriptor that has stored bytes; null when the addon would refuse it. */
  coded(doubles: Float64Array, at: number): CodedMove | null {
    const template = this.#templates.get(doubles[at + COPY.template] as number)
    const storedBytes = doubles[at + COPY.storedBytes] as number
    if (!template?.codings || !(storedBytes > 0)) return null
    const granule = doubles[at + COPY.granule] as number
    const item = template.firstItem[granule] as number
    const alone = template.firstItem[granule + 1] === item + 1
    const whole = doubles[at + COPY.firstItem] === 0 && doubles[at + COPY.itemCount] === 1
    const coding = codingAt(template.codings, item)
    if (!alone || !whole || coding.format === ITEM_FORMAT.raw) return null
    const plain = doubles.slice(at, at + COPY.doubles)
    plain[COPY.storedBytes] = 0
    const move = this.moves(plain, 0)?.[0]
    return move === undefined ? null : { ...move, paddedBytes: storedBytes, coding }
  }

  /** Codings that are in flight from or to a memory; of any memory when none is given. */
  coding(memory?: EngineMemory): number {
    let count = 0
    for (const mapping of this.#mappings.values()) {
      if (memory === undefined || mapping.memory === memory) count += mapping.codings
    }
    return count
  }

  /** As depart, for codings. */
  departCoded(memory: CopyMemory, moves: readonly CodedMove[], toPages: boolean, what: string): Range[] {
    for (const { mapping } of moves) mapping.codings++
    return this.depart(memory, moves, toPages, what)
  }

  /** Takes codings out of flight. */
  arriveCoded(moves: readonly CodedMove[], ranges: readonly Range[]): void {
    for (const { mapping } of moves) mapping.codings--
    this.#arrive(moves, ranges)
  }

  /** Queues moves: what they touch is in flight from here to `landed`. */
  depart(memory: CopyMemory, moves: readonly Move[], toPages: boolean, what: string): Range[] {
    const ranges: Range[] = []
    for (const { mapping, pageAt, memoryAt, bytes, paddedBytes } of moves) {
      must(!mapping.released, 'O10', () => `${what} starts on ${mapping.memory.name} after its release`)
      mapping.users++
      memory.mustBeOwned(memoryAt, paddedBytes, what)
      ranges.push(this.#flights.take(mapping.memory.name, pageAt, pageAt + bytes, toPages, what))
      ranges.push(this.#flights.take(memory.space, memoryAt, memoryAt + paddedBytes, !toPages, what))
    }
    return ranges
  }

  /**
   * Carries out the first `count` of the moves, the last of them only by half when `torn`, and takes all of them out of
   * flight.
   */
  land(
    memory: CopyMemory,
    moves: readonly Move[],
    ranges: readonly Range[],
    toPages: boolean,
    count: number,
    torn = false,
  ): void {
    for (let index = 0; index < moves.length; index++) {
      const { mapping, pageAt, memoryAt, bytes, paddedBytes } = moves[index] as Move
      if (index < count) {
        const done = torn && index === count - 1 ? bytes >> 1 : bytes
        const page = mapping.memory.bytes
        if (toPages) page.set(memory.bytes.subarray(memoryAt, memoryAt + done), pageAt)
        else {
          memory.bytes.set(page.subarray(pageAt, pageAt + done), memoryAt)
          memory.codings?.forget(memoryAt)
          if (done === bytes) memory.bytes.fill(0, memoryAt + bytes, memoryAt + paddedBytes)
        }
      }
    }
    this.#arrive(moves, ranges)
  }

  #arrive(moves: readonly Move[], ranges: readonly Range[]): void {
    for (const { mapping } of moves) mapping.users--
    for (const range of ranges) this.#flights.land(range)
    for (const number of this.#leaving) this.#reap(number)
  }

  #mapping(number: number): Mapping {
    const mapping = this.#mappings.get(number)
    must(mapping !== undefined, 'O10', () => `mapping ${number} is used after its release`)
    return mapping as Mapping
  }

  #reap(number: number): void {
    const mapping = this.#mappings.get(number)
    if (!mapping?.released || mapping.users > 0) return
    this.#mappings.delete(number)
    this.#leaving.delete(number)
  }
}
