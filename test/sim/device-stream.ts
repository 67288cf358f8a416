import { SECTOR_BYTES } from '../../src/shared/base/units.js'
import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { CHECKSUM, COPY } from '../../src/shared/layout/descriptors.js'
import type { Actor, ActorHost } from './actor.js'
import { Arena } from './arena.js'
import { decodeItems, encodeItems } from './coding-jobs.js'
import type { CodedMove, CopyMemory, Device, Move } from './device.js'
import type {
  CHECKSUM_FAULTS,
  COPY_FAULTS,
  DECODE_FAULTS,
  ENCODE_FAULTS,
  FaultKind,
  FaultSite,
  PART_FAULTS,
  SCATTER_FAULTS,
  Stream,
  Strike,
} from './faults.js'
import type { Flights, Range } from './ledger.js'
import { must } from './violation.js'

const EINVAL = -22
const EIO = -5
const EBUSY = -16
const E2BIG = -7

type CopyFault = (typeof COPY_FAULTS | typeof SCATTER_FAULTS | typeof PART_FAULTS)[number]

/** What a stream is made on. */
export interface StreamWorld {
  readonly host: ActorHost & { readonly exited: boolean }
  readonly device: Device
  /** What its copies are between, beside pages: the pool, or a staging slot. */
  readonly memory: CopyMemory
  readonly flights: Flights
  readonly copyUs: Stream
  readonly copies: FaultSite<CopyFault>
  readonly checksums: FaultSite<(typeof CHECKSUM_FAULTS)[number]> | null
  readonly encodes: FaultSite<(typeof ENCODE_FAULTS)[number]>
  readonly decodes: FaultSite<(typeof DECODE_FAULTS)[number]>
  /** A twin whose completions come before the bytes. */
  readonly early: boolean
  /** The device has failed for good: its process has to be started anew. */
  readonly failed: () => void
}

/** Items of one job at most. */
const CODED_MAX = 256

/** How long an early event of a broken device is ahead of its bytes. */
const EARLY_US = 150

/** What a fault does, whatever it strikes: the last word of its name. */
export function manner(strike: Strike | null): string | null {
  return strike === null ? null : strike.kind.slice(strike.kind.lastIndexOf('-') + 1)
}

/** How much longer what was struck takes. */
function latenessUs(strike: Strike | null): number {
  return manner(strike) === 'late' ? 500 + (strike?.amount ?? 0) * 40 : 0
}

/** One granule whose checksum is asked for. */
export interface CheckedGranule {
  readonly start: number
  readonly bytes: number
  readonly segmentBytes: number
  readonly strideBytes: number
}

export function checkedGranules(doubles: Float64Array, offset: number, count: number): CheckedGranule[] {
  return Array.from({ length: count }, (_, index) => {
    const field = (name: number) => doubles[offset + index * CHECKSUM.doubles + name] as number
    return {
      start: field(CHECKSUM.poolOffsetBytes),
      bytes: field(CHECKSUM.bytes),
      segmentBytes: field(CHECKSUM.segmentBytes),
      strideBytes: field(CHECKSUM.segmentStrideBytes),
    }
  })
}

export function checksumOf(memory: Uint8Array, { start, bytes, segmentBytes, strideBytes }: CheckedGranule): number {
  return crc32Strided(memory.subarray(start, start + bytes), segmentBytes, strideBytes)
}

/** One stream of the device: jobs complete in the order they were queued; bytes move at the moment of completion. */
export class DeviceStream {
  protected readonly world: StreamWorld
  readonly #actor: Actor
  readonly #completed: (tag: number, result: number) => void
  #held: (() => void)[] = []
  #lastAtUs = 0
  #stalled = false
  readonly arena = new Arena()
  inFlight = 0
  /** Of these, codings. */
  coding = 0
  /** The codec keeps memory on the device: from its first coding on until it is released. */
  holdsWorkspace = false
  completions = 0
  duplicates = 0

  constructor(world: StreamWorld, actor: Actor, completed: (tag: number, result: number) => void) {
    this.world = world
    this.#actor = actor
    this.#completed = completed
  }

  /** As Port.copy: 0, or -errno and no completion follows. */
  copy(tag: number, toPages: boolean, doubles: Float64Array, offset: number, count: number): number {
    const { device, memory, copies, copyUs } = this.world
    const moves = this.moves(doubles, offset, count)
    const strike = copies.strike()
    const how = manner(strike)
    if (how === 'refused') return EINVAL
    if (how === 'sticky' && !device.sticky) {
      device.sticky = true
      this.world.failed()
    }
    const ranges = device.depart(memory, moves, toPages, toPages ? 'copy to pages' : 'copy from pages')
    this.queue(strike, tag, copyUs, () => {
      const partial = how === 'partial'
      const failed = partial || how === 'failed' || device.sticky
      const amount = strike?.amount ?? 0
      const landed = partial ? 1 + (amount % moves.length) : failed ? 0 : moves.length
      device.land(memory, moves, ranges, toPages, landed, partial && (amount & 1) === 1)
      return failed ? EIO : 0
    })
    return 0
  }

  /** As Port.encode: results come in twos. */
  encode(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
  ): number {
    return this.arena.free ? this.#encode(tag, doubles, offset, count, results, base, false) : EBUSY
  }

  /** As Port.encodeHeld, with room for so many codings. */
  encodeHeld(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
    most: number,
  ): number {
    if (!this.arena.free) return EBUSY
    return count > most ? E2BIG : this.#encode(tag, doubles, offset, count, results, base, true)
  }

  #encode(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
    held: boolean,
  ): number {
    const { device, memory, encodes } = this.world
    const moves = this.#coded(doubles, offset, count)
    must(base >= 0 && base + 2 * count <= results.length, 'X3', () => `results of ${count} codings at ${base}`)
    for (const { paddedBytes: room } of moves) {
      must(room % SECTOR_BYTES === 0, 'X3', () => `an encoding has ${room} bytes of room`)
    }
    const strike = encodes.strike()
    const refused = this.#code(strike, tag, moves, false, () => {
      const result = encodeItems(device, memory, moves, strike, results, base)
      if (held) this.#keep(result, moves, results, base)
      return result
    })
    if (refused === 0 && held) this.arena.begin()
    return refused
  }

  /** What was coded stays in the arena as well, unless the job failed. */
  #keep(result: number, moves: readonly CodedMove[], results: Uint32Array, base: number): void {
    if (result !== 0) return this.arena.failed()
    const { bytes } = this.world.memory
    const codes = moves.map(({ memoryAt, bytes: item }, index) => {
      const stored = results[base + 2 * index] as number
      return stored > 0 && stored < item ? bytes.slice(memoryAt, memoryAt + stored) : null
    })
    this.arena.made(codes)
  }

  /** As Port.decode. */
  decode(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
  ): number {
    const { device, memory, decodes } = this.world
    const moves = this.#coded(doubles, offset, count)
    must(base >= 0 && base + count <= results.length, 'X3', () => `results of ${count} codings at ${base}`)
    for (const { memoryAt, paddedBytes: storedBytes, bytes } of moves) {
      must(storedBytes < bytes, 'X3', () => `${storedBytes} bytes are decoded to ${bytes}`)
      const written = memory.codings?.at(memoryAt) ?? null
      must(
        written === null || written.storedBytes === storedBytes,
        'V5',
        () => `${storedBytes} bytes at ${memoryAt} are decoded, the coding there has ${written?.storedBytes}`,
      )
    }
    const strike = decodes.strike()
    return this.#code(strike, tag, moves, true, () => decodeItems(device, memory, moves, strike, results, base))
  }

  /** A job of codings: `land` happens at its end and says its result. */
  #code(
    strike: Strike<FaultKind> | null,
    tag: number,
    moves: CodedMove[],
    toPages: boolean,
    land: () => number,
  ): number {
    if (manner(strike) === 'refused') return EINVAL
    const { device, memory, copyUs } = this.world
    const ranges = device.departCoded(memory, moves, toPages, toPages ? 'decoding' : 'encoding')
    this.coding++
    this.holdsWorkspace = true
    this.queue(strike, tag, copyUs, () => {
      this.coding--
      device.arriveCoded(moves, ranges)
      return land()
    })
    return 0
  }

  /** As Port.releaseCodecWorkspace. */
  releaseWorkspace(): number {
    if (this.coding > 0) return EBUSY
    this.holdsWorkspace = false
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
    const { memory, flights, checksums, copyUs, device } = this.world
    const granules = checkedGranules(doubles, offset, count)
    const ranges: Range[] = granules.map(({ start, bytes }) => {
      memory.mustBeOwned(start, bytes, 'checksum')
      return flights.take(memory.space, start, start + bytes, false, 'checksum')
    })
    const strike = checksums?.strike() ?? null
    this.queue(strike, tag, copyUs, () => {
      for (const [index, granule] of granules.entries()) {
        flights.land(ranges[index] as Range)
        const crc = checksumOf(memory.bytes, granule)
        const flipped = strike?.kind === 'checksum-flipped' && index === strike.amount % count
        results[base + index] = flipped ? crc ^ 1 : crc
      }
      return strike?.kind === 'checksum-failed' || device.sticky ? EIO : 0
    })
    return 0
  }

  /** Phase two: what was held up for ever goes on. */
  unstall(): void {
    this.#stalled = false
    const held = this.#held
    this.#held = []
    for (const run of held) run()
  }

  /** Every move of some COPY descriptors. */
  protected moves(doubles: Float64Array, offset: number, count: number): Move[] {
    const moves: Move[] = []
    for (let index = 0; index < count; index++) {
      const some = this.world.device.moves(doubles, offset + index * COPY.doubles)
      must(some !== null, 'X3', () => 'a copy names a template, granule or page that is not there')
      for (const move of some as Move[]) moves.push(move)
    }
    return moves
  }

  #coded(doubles: Float64Array, offset: number, count: number): CodedMove[] {
    must(count > 0 && count <= CODED_MAX, 'O8', () => `one job codes ${count} items`)
    return Array.from({ length: count }, (_, index) => {
      const move = this.world.device.coded(doubles, offset + index * COPY.doubles)
      must(
        move !== null,
        'X3',
        () => 'a coding names a template, granule or page that is not there, or an item that is raw',
      )
      return move as CodedMove
    })
  }

  /** `land` moves the bytes and says the result, once everything before it has ended and its time has passed. */
  protected queue(strike: Strike<FaultKind> | null, tag: number, delayUs: Stream, land: () => number): void {
    const { host, early } = this.world
    this.inFlight++
    const how = manner(strike)
    const lateUs = latenessUs(strike)
    if (how === 'stalled') this.#stalled = true
    const run = () => {
      this.#lastAtUs = Math.max(this.#lastAtUs, host.clock.nowUs + delayUs.next() + lateUs)
      host.clock.after(this.#lastAtUs - host.clock.nowUs, () => {
        // A killed process is not gone before its device work is: until its exit is reported, bytes may still move.
        if (host.exited) return
        this.inFlight--
        if (early) {
          host.clock.after(EARLY_US, land)
          return this.#complete(tag, 0, false)
        }
        const result = land()
        if (host.alive) this.#complete(tag, result, how === 'duplicate')
        this.ended()
      })
    }
    // A stream keeps its order: behind a job that never ends everything waits.
    if (this.#stalled) this.#held.push(run)
    else this.start(strike, run)
  }

  /** A job is next in its stream. */
  protected start(_strike: Strike<FaultKind> | null, run: () => void): void {
    run()
  }

  /** A job of the stream has ended. */
  protected ended(): void {}

  #complete(tag: number, result: number, twice: boolean): void {
    this.completions++
    this.#actor.post(0, () => this.#completed(tag, result))
    if (!twice) return
    this.duplicates++
    this.#actor.post(1, () => this.#completed(tag, result))
  }
}
