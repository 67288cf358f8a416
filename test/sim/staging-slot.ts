import { alignUp, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import type { Actor } from './actor.js'
import type { Reading } from './arena.js'
import type { CopyMemory, Move } from './device.js'
import { type CheckedGranule, checksumOf, DeviceStream, type StreamWorld } from './device-stream.js'
import type {
  FaultKind,
  FaultSite,
  PART_FAULTS,
  SCATTER_FAULTS,
  STAGING_OPEN_FAULTS,
  STAGING_READ_FAULTS,
  STAGING_WRITE_FAULTS,
  Stream,
  Strike,
} from './faults.js'
import type { Range } from './ledger.js'
import { POISON } from './oracle.js'
import type { Pool } from './pool.js'
import { mustBeOwn, type Shard } from './shard.js'
import { must } from './violation.js'

/** What cuFile and CUDA fail with: -errno, or minus a cuFile status. */
const EIO = -5
const FAILURES = [EIO, -5001, -5027, -5030, -5044] as const

/** A slot that is held back has been overtaken by then. */
const HELD_BACK_US_MAX = 5_000

type ReadKind = (typeof STAGING_READ_FAULTS)[number]
type WriteKind = (typeof STAGING_WRITE_FAULTS)[number]

/** What staging is made on. */
export interface StagingWorld extends Omit<StreamWorld, 'memory' | 'copies' | 'checksums'> {
  readonly pool: Pool
  readonly shards: ReadonlyMap<number, Shard>
  /** Who opened the shards. */
  readonly owner: object
  readonly diskUs: Stream
  readonly opens: FaultSite<(typeof STAGING_OPEN_FAULTS)[number]>
  readonly reads: FaultSite<ReadKind>
  readonly writes: FaultSite<WriteKind>
  readonly scatters: FaultSite<(typeof SCATTER_FAULTS)[number]>
  readonly parts: FaultSite<(typeof PART_FAULTS)[number]>
  /** Codings that one arena holds. */
  readonly heldCodes: number
}

/** Registered device memory of one slot: poison until it is first used, then whatever its last batch left. */
export class SlotMemory implements CopyMemory {
  readonly space: string
  readonly bytes: Uint8Array
  readonly codings = null

  constructor(number: number, bytes: number) {
    this.space = `staging ${number}`
    this.bytes = new Uint8Array(new Uint32Array(bytes / 4).fill(POISON).buffer)
  }

  mustBeOwned(offsetBytes: number, bytes: number, what: string): void {
    const inside = offsetBytes >= 0 && offsetBytes + bytes <= this.bytes.length
    must(inside, 'X3', () => `${what} at ${offsetBytes}+${bytes} leaves ${this.space}`)
  }
}

/** A coding that goes to a place in the slot. */
export interface PlacedCode {
  readonly at: number
  readonly reading: Reading
}

/** Slots that end after others: held until some other slot has ended something. */
export class HeldBack {
  readonly #world: StagingWorld
  #waiting: (() => void)[] = []

  constructor(world: StagingWorld) {
    this.#world = world
  }

  hold(run: () => void): void {
    this.#waiting.push(run)
    this.#world.host.clock.after(HELD_BACK_US_MAX, () => {
      if (this.#waiting.includes(run)) this.release()
    })
  }

  release(): void {
    for (const run of this.#waiting.splice(0)) this.#world.host.clock.after(1, run)
  }
}

/** One staging slot: registered memory and a stream on which reads, writes and scatters take their turns. */
export class StagingSlot extends DeviceStream {
  readonly #memory: SlotMemory
  readonly #staging: StagingWorld
  readonly #heldBack: HeldBack

  constructor(
    staging: StagingWorld,
    memory: SlotMemory,
    heldBack: HeldBack,
    actor: Actor,
    completed: (tag: number, result: number) => void,
  ) {
    super({ ...staging, memory, copies: staging.scatters, checksums: null }, actor, completed)
    this.#staging = staging
    this.#memory = memory
    this.#heldBack = heldBack
  }

  read(
    tag: number,
    shard: Shard,
    fileOffsetBytes: number,
    bytes: number,
    granules: readonly CheckedGranule[],
    results: Uint32Array,
    base: number,
  ): number {
    const { flights, reads, diskUs } = this.#staging
    this.#mustBeFree('a read')
    this.#memory.mustBeOwned(0, bytes, 'a read')
    const strike = reads.strike()
    if (strike?.kind === 'cufile-read-refused') return failureOf(strike)
    const memory = this.#memory.bytes
    const ranges = [
      flights.take(this.#memory.space, 0, bytes, true, 'cuFile read'),
      flights.take(shard.name, fileOffsetBytes, fileOffsetBytes + bytes, false, 'cuFile read'),
    ]
    this.queue(strike, tag, diskUs, () => {
      this.#landed(ranges)
      const result = this.#carryRead(shard, fileOffsetBytes, bytes, granules, strike)
      // After anything but a full read the numbers mean nothing.
      for (const [index, granule] of granules.entries()) results[base + index] = checksumOf(memory, granule)
      return result
    })
    return 0
  }

  write(
    tag: number,
    shard: Shard,
    place: { readonly fileOffsetBytes: number; readonly stagingOffsetBytes: number; readonly bytes: number },
    zeroFromBytes: number,
    copies: Float64Array,
    copyCount: number,
    codes: readonly PlacedCode[],
  ): number {
    const { flights, device, writes, diskUs } = this.#staging
    this.#mustBeFree('a write')
    this.#memory.mustBeOwned(place.stagingOffsetBytes, place.bytes, 'a write')
    const moves = this.moves(copies, 0, copyCount)
    const strike = writes.strike()
    if (strike?.kind === 'cufile-write-refused') {
      for (const { reading } of codes) reading.end()
      return failureOf(strike)
    }
    const inSlot = codes.map(({ at, reading: { code } }) => {
      const end = at + alignUp(code.length, SECTOR_BYTES)
      this.#memory.mustBeOwned(at, end - at, 'a gather')
      return flights.take(this.#memory.space, at, end, true, 'gather')
    })
    const gathered = device.depart(this.#memory, moves, false, 'gather')
    const { fileOffsetBytes: to, stagingOffsetBytes: from, bytes } = place
    const inFile = flights.take(shard.name, to, to + bytes, true, 'cuFile write')
    this.queue(strike, tag, diskUs, () => {
      mustBeOwn(shard, this.#staging.owner, 'a cuFile write')
      this.#landed([inFile, ...inSlot])
      const memory = this.#memory.bytes
      memory.fill(0, zeroFromBytes, from + bytes)
      for (const { at, reading } of codes) {
        memory.fill(0, at, at + alignUp(reading.code.length, SECTOR_BYTES))
        memory.set(reading.code, at)
        reading.end()
      }
      const failed = this.#staging.device.sticky || strike?.kind === 'gather-failed'
      const gathers = failed && moves.length > 0 ? this.#gathers(moves, strike) : moves.length
      device.land(this.#memory, moves, gathered, false, gathers)
      if (failed) return EIO
      return this.#carryWrite(shard, to, memory.subarray(from, from + bytes), strike)
    })
    return 0
  }

  protected override start(strike: Strike<FaultKind> | null, run: () => void): void {
    if (strike?.kind.endsWith('-reordered')) this.#heldBack.hold(run)
    else run()
  }

  protected override ended(): void {
    this.#heldBack.release()
  }

  /** The words of a transfer are those of its slot: one at a time. */
  #mustBeFree(what: string): void {
    must(this.inFlight === 0, 'O2', () => `${what} is queued on ${this.#memory.space}, which is at work`)
  }

  #landed(ranges: readonly Range[]): void {
    for (const range of ranges) this.#staging.flights.land(range)
  }

  #gathers(moves: readonly Move[], strike: Strike | null): number {
    if (this.#staging.device.sticky) return 0
    return strike?.kind === 'gather-failed' ? strike.amount % moves.length : moves.length
  }

  #carryRead(
    shard: Shard,
    from: number,
    bytes: number,
    granules: readonly CheckedGranule[],
    strike: Strike<ReadKind> | null,
  ): number {
    const memory = this.#memory.bytes
    const amount = strike?.amount ?? 0
    const take = (source: Uint8Array, at: number, count: number) => memory.set(source.subarray(at, at + count), 0)
    if (this.#staging.device.sticky) return EIO
    switch (strike?.kind) {
      case 'cufile-read-failed':
        take(shard.bytes, from, Math.floor((bytes * (amount % 16)) / 16))
        return failureOf(strike)
      case 'cufile-read-short': {
        const count = shortOf(bytes, amount)
        take(shard.bytes, from, count)
        return count
      }
      case 'cufile-read-lost':
        return bytes
      case 'cufile-read-stale':
        take(shard.before, from, bytes)
        return bytes
      case 'cufile-read-misdirected':
        take(shard.bytes, (amount * PAGE_BYTES) % (shard.bytes.length - bytes + 1), bytes)
        return bytes
      case 'cufile-read-rotten': {
        take(shard.bytes, from, bytes)
        const { start, segmentBytes } = granules[amount % granules.length] as CheckedGranule
        const at = start + ((amount * 37) % segmentBytes)
        memory[at] = (memory[at] as number) ^ (1 << (amount & 7))
        return bytes
      }
      default:
        take(shard.bytes, from, bytes)
        return bytes
    }
  }

  #carryWrite(shard: Shard, to: number, source: Uint8Array, strike: Strike<WriteKind> | null): number {
    const amount = strike?.amount ?? 0
    const bytes = source.length
    const put = (at: number, count: number) => shard.put(at, source.subarray(0, count))
    switch (strike?.kind) {
      case 'cufile-write-failed':
        put(to, Math.floor((bytes * (amount % 16)) / 16))
        return failureOf(strike)
      case 'cufile-write-short': {
        const count = shortOf(bytes, amount)
        put(to, count)
        return count
      }
      case 'cufile-write-lost':
        return bytes
      case 'cufile-write-torn':
        put(to, Math.floor((bytes * (amount % 16)) / 16))
        return bytes
      case 'cufile-write-misdirected':
        put((amount * PAGE_BYTES) % (shard.bytes.length - bytes + 1), bytes)
        return bytes
      default:
        put(to, bytes)
        return bytes
    }
  }
}

/** The counts that S1 names. */
function shortOf(bytes: number, amount: number): number {
  return [0, 1, 511, 512, bytes - PAGE_BYTES, bytes - 1][amount % 6] as number
}

function failureOf({ amount }: Strike): number {
  return FAILURES[amount % FAILURES.length] as number
}
