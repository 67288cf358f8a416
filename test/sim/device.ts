import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { CHECKSUM, COPY, TEMPLATE_ITEM } from '../../src/shared/layout/descriptors.js'
import type { Actor } from './actor.js'
import type { Clock } from './clock.js'
import type { EngineMemory } from './descriptors.js'
import type { COPY_FAULTS, FaultSite, Stream } from './faults.js'
import type { Flights, Range } from './ledger.js'
import type { Pool } from './pool.js'
import { must } from './violation.js'

interface Template {
  readonly items: Float64Array
  readonly firstItem: Float64Array
  retired: boolean
}

interface Mapping {
  readonly memory: EngineMemory
  released: boolean
  /** Copies queued or running that name it: it stays mapped until they end. */
  users: number
}

/** One contiguous move of a copy. */
interface Move {
  readonly mapping: Mapping
  readonly pageAt: number
  readonly poolAt: number
  readonly bytes: number
  readonly paddedBytes: number
}

const EINVAL = -22
const EIO = -5

/** Mappings, templates and streams of the host device, to the letter of binding/surface.ts. */
export class Device {
  readonly #pool: Pool
  readonly #flights: Flights
  readonly #mappings = new Map<number, Mapping>()
  readonly #templates = new Map<number, Template>()
  #next = 1

  constructor(pool: Pool, flights: Flights) {
    this.#pool = pool
    this.#flights = flights
  }

  get mappings(): number {
    return this.#mappings.size
  }

  get templates(): number {
    return this.#templates.size
  }

  map(memory: EngineMemory): number {
    const mapping = this.#next++
    this.#mappings.set(mapping, { memory, released: false, users: 0 })
    return mapping
  }

  release(number: number): void {
    const mapping = this.#mappings.get(number)
    must(mapping !== undefined && !mapping.released, 'O5', () => `mapping ${number} is released twice`)
    ;(mapping as Mapping).released = true
    this.#reap(number)
  }

  read(number: number, offsetBytes: number, bytes: number): Uint8Array {
    const memory = this.#mapping(number).memory
    must(offsetBytes + bytes <= memory.bytes.length, 'X3', () => `read past mapping ${number}`)
    return memory.bytes.slice(offsetBytes, offsetBytes + bytes)
  }

  /** As the addon: every item is checked for every page. */
  define(items: Float64Array, firstItem: Float64Array): number | null {
    for (let at = 0; at < items.length; at += TEMPLATE_ITEM.doubles) {
      const field = (name: number) => items[at + name] as number
      const { memory } = this.#mapping(field(TEMPLATE_ITEM.mapping))
      const last =
        field(TEMPLATE_ITEM.baseBytes) + (field(TEMPLATE_ITEM.pageCount) - 1) * field(TEMPLATE_ITEM.pageStrideBytes)
      if (last + field(TEMPLATE_ITEM.bytes) > memory.bytes.length) return null
    }
    const template = this.#next++
    this.#templates.set(template, { items: items.slice(), firstItem: firstItem.slice(), retired: false })
    return template
  }

  releaseTemplate(number: number): void {
    must(this.#templates.delete(number), 'O5', () => `template ${number} is released twice`)
  }

  /** The moves of one COPY descriptor; null when the addon would refuse it. */
  moves(doubles: Float64Array, at: number): Move[] | null {
    const template = this.#templates.get(doubles[at + COPY.template] as number)
    if (template === undefined) return null
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
        poolAt: (doubles[at + COPY.poolOffsetBytes] as number) + field(TEMPLATE_ITEM.granuleOffsetBytes),
        bytes: field(TEMPLATE_ITEM.bytes),
        paddedBytes: field(TEMPLATE_ITEM.paddedBytes),
      })
    }
    return moves
  }

  /** Queues moves: what they touch is in flight from here to `landed`. */
  depart(moves: readonly Move[], toPages: boolean, what: string): Range[] {
    const ranges: Range[] = []
    for (const { mapping, pageAt, poolAt, bytes, paddedBytes } of moves) {
      must(!mapping.released, 'O10', () => `${what} starts on ${mapping.memory.name} after its release`)
      mapping.users++
      this.#pool.mustBeOwned(poolAt, paddedBytes, what)
      const space = mapping.memory.name
      ranges.push(this.#flights.take({ space, start: pageAt, end: pageAt + bytes, writes: toPages, what }))
      const pool = { space: 'pool', start: poolAt, end: poolAt + paddedBytes, writes: !toPages, what }
      ranges.push(this.#flights.take(pool))
    }
    return ranges
  }

  /** Carries out the first `count` of the moves and takes all of them out of flight. */
  land(moves: readonly Move[], ranges: readonly Range[], toPages: boolean, count: number): void {
    for (const [index, { mapping, pageAt, poolAt, bytes, paddedBytes }] of moves.entries()) {
      const { memory } = mapping
      if (index < count) {
        if (toPages) memory.bytes.set(this.#pool.bytes.subarray(poolAt, poolAt + bytes), pageAt)
        else {
          this.#pool.bytes.set(memory.bytes.subarray(pageAt, pageAt + bytes), poolAt)
          this.#pool.bytes.fill(0, poolAt + bytes, poolAt + paddedBytes)
        }
      }
      mapping.users--
    }
    for (const range of ranges) this.#flights.land(range)
    for (const number of [...this.#mappings.keys()]) this.#reap(number)
  }

  #mapping(number: number): Mapping {
    const mapping = this.#mappings.get(number)
    must(mapping !== undefined, 'O10', () => `mapping ${number} is used after its release`)
    return mapping as Mapping
  }

  #reap(number: number): void {
    const mapping = this.#mappings.get(number)
    if (mapping?.released && mapping.users === 0) this.#mappings.delete(number)
  }
}

/** One stream of the device: jobs complete in the order they were queued; bytes move at the moment of completion. */
export class DeviceStream {
  readonly #device: Device
  readonly #pool: Pool
  readonly #flights: Flights
  readonly #clock: Clock
  readonly #actor: Actor
  readonly #copyUs: Stream
  readonly #faults: FaultSite<(typeof COPY_FAULTS)[number]>
  readonly #completed: (tag: number, result: number) => void
  readonly #held: (() => void)[] = []
  #lastAtUs = 0
  #stalled = false
  inFlight = 0
  completions = 0
  duplicates = 0

  constructor(
    device: Device,
    pool: Pool,
    flights: Flights,
    clock: Clock,
    actor: Actor,
    copyUs: Stream,
    faults: FaultSite<(typeof COPY_FAULTS)[number]>,
    completed: (tag: number, result: number) => void,
  ) {
    this.#device = device
    this.#pool = pool
    this.#flights = flights
    this.#clock = clock
    this.#actor = actor
    this.#copyUs = copyUs
    this.#faults = faults
    this.#completed = completed
  }

  /** As Port.copy: 0, or -errno and no completion follows. */
  copy(tag: number, toPages: boolean, doubles: Float64Array, offset: number, count: number): number {
    const moves: Move[] = []
    for (let index = 0; index < count; index++) {
      const some = this.#device.moves(doubles, offset + index * COPY.doubles)
      must(some !== null, 'X3', () => `a copy names a template, granule or page that is not there`)
      moves.push(...(some as Move[]))
    }
    const strike = this.#faults.strike()
    if (strike?.kind === 'copy-refused') return EINVAL
    const ranges = this.#device.depart(moves, toPages, toPages ? 'copy to pages' : 'copy from pages')
    const failed = strike?.kind === 'copy-failed'
    const landed = failed ? strike.amount % (moves.length + 1) : moves.length
    this.#queue(strike, tag, () => {
      this.#device.land(moves, ranges, toPages, landed)
      return failed ? EIO : 0
    })
    return 0
  }

  /** As Port.checksum. */
  checksum(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
  ): number {
    const granules = Array.from({ length: count }, (_, index) => {
      const at = offset + index * CHECKSUM.doubles
      return {
        start: doubles[at + CHECKSUM.poolOffsetBytes] as number,
        bytes: doubles[at + CHECKSUM.bytes] as number,
        segmentBytes: doubles[at + CHECKSUM.segmentBytes] as number,
        strideBytes: doubles[at + CHECKSUM.segmentStrideBytes] as number,
      }
    })
    const strike = this.#faults.strike()
    if (strike?.kind === 'copy-refused') return EINVAL
    const ranges = granules.map(({ start, bytes }) => {
      this.#pool.mustBeOwned(start, bytes, 'checksum')
      return this.#flights.take({ space: 'pool', start, end: start + bytes, writes: false, what: 'checksum' })
    })
    this.#queue(strike, tag, () => {
      for (const range of ranges) this.#flights.land(range)
      for (const [index, { start, bytes, segmentBytes, strideBytes }] of granules.entries()) {
        results[base + index] = crc32Strided(this.#pool.bytes.subarray(start, start + bytes), segmentBytes, strideBytes)
      }
      return strike?.kind === 'copy-failed' ? EIO : 0
    })
    return 0
  }

  /** Phase two: what was held up for ever goes on. */
  unstall(): void {
    this.#stalled = false
    for (const run of this.#held.splice(0)) run()
  }

  #queue(strike: { kind: string; amount: number } | null, tag: number, land: () => number): void {
    this.inFlight++
    const extraUs = strike?.kind === 'copy-late' ? 500 + strike.amount * 40 : 0
    if (strike?.kind === 'copy-stalled') this.#stalled = true
    const run = () => {
      this.#lastAtUs = Math.max(this.#lastAtUs, this.#clock.nowUs + this.#copyUs.next() + extraUs)
      this.#clock.after(this.#lastAtUs - this.#clock.nowUs, () => {
        this.inFlight--
        this.#complete(0, tag, land(), strike?.kind === 'copy-duplicate')
      })
    }
    // A stream keeps its order: behind a job that never ends everything waits.
    if (this.#stalled) this.#held.push(run)
    else run()
  }

  #complete(delayUs: number, tag: number, result: number, twice: boolean): void {
    this.completions++
    this.#actor.post(delayUs, () => this.#completed(tag, result))
    if (!twice) return
    this.duplicates++
    this.#actor.post(delayUs + 1, () => this.#completed(tag, result))
  }
}
