import type { DeviceName } from '../../src/shared/base/device-name.js'
import { PAGE_BYTES } from '../../src/shared/base/units.js'
import type { Actor } from './actor.js'
import type { CopyMemory, Move } from './device.js'
import { type CheckedGranule, checkedGranules, checksumOf, DeviceStream, type StreamWorld } from './device-stream.js'
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
import type { LaneDevice } from './lane.js'
import type { Range } from './ledger.js'
import { POISON } from './oracle.js'
import type { Pool } from './pool.js'
import { mustBeOwn, type Shard } from './shard.js'
import { must } from './violation.js'

/** What cuFile and CUDA fail with: -errno, or minus a cuFile status. */
const EIO = -5
const FAILURES = [EIO, -5001, -5027, -5030, -5044] as const
/** CU_FILE_MEMORY_ALREADY_REGISTERED, and no memory for a stream. */
const SLOT_REFUSED = -5016
const ENOMEM = 12

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
}

/** Registered device memory of one slot: poison until it is first used, then whatever its last batch left. */
class SlotMemory implements CopyMemory {
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

/** Slots that end after others: held until some other slot has ended something. */
class HeldBack {
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
class StagingSlot extends DeviceStream {
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
  ): number {
    const { flights, device, writes, diskUs } = this.#staging
    this.#mustBeFree('a write')
    this.#memory.mustBeOwned(place.stagingOffsetBytes, place.bytes, 'a write')
    const moves = this.moves(copies, 0, copyCount)
    const strike = writes.strike()
    if (strike?.kind === 'cufile-write-refused') return failureOf(strike)
    const gathered = device.depart(this.#memory, moves, false, 'gather')
    const { fileOffsetBytes: to, stagingOffsetBytes: from, bytes } = place
    const inFile = flights.take(shard.name, to, to + bytes, true, 'cuFile write')
    this.queue(strike, tag, diskUs, () => {
      mustBeOwn(shard, this.#staging.owner, 'a cuFile write')
      this.#landed([inFile])
      const memory = this.#memory.bytes
      memory.fill(0, zeroFromBytes, from + bytes)
      const gathers = this.#gathers(moves, strike)
      device.land(this.#memory, moves, gathered, false, gathers)
      if (gathers < moves.length) return EIO
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

/**
 * The port of the ssd-worker lane, to the letter of binding/cufile.ts: staging slots over registered memory, reads and
 * writes between them and the simulated shards, and streams for copies between the pool and pages.
 */
export class StagingPort implements LaneDevice {
  readonly #world: StagingWorld
  readonly #actor: Actor
  readonly #completed: (tag: number, result: number) => void
  readonly #results: Uint32Array
  readonly #heldBack: HeldBack
  readonly #streams = new Map<number, DeviceStream>()
  #next = 1
  #closedCompletions = 0
  #closedDuplicates = 0

  /** `results`: where checksums go. */
  constructor(
    world: StagingWorld,
    actor: Actor,
    results: Uint32Array,
    completed: (tag: number, result: number) => void,
  ) {
    this.#world = world
    this.#actor = actor
    this.#results = results
    this.#completed = completed
    this.#heldBack = new HeldBack(world)
  }

  /** Slots and streams that exist. */
  get open(): number {
    return this.#streams.size
  }

  get completions(): number {
    return this.#sum(this.#closedCompletions, ({ completions }) => completions)
  }

  get coding(): number {
    return this.#sum(0, ({ coding }) => coding)
  }

  get duplicates(): number {
    return this.#sum(this.#closedDuplicates, ({ duplicates }) => duplicates)
  }

  openStaging(_device: DeviceName, bytes: number): number {
    const strike = this.#world.opens.strike()
    if (strike?.kind === 'slot-refused') return SLOT_REFUSED
    const number = this.#next++
    const memory = new SlotMemory(number, bytes)
    this.#streams.set(number, new StagingSlot(this.#world, memory, this.#heldBack, this.#actor, this.#completed))
    return number
  }

  openStream(_device: DeviceName): number {
    const { opens, parts, pool } = this.#world
    if (opens.strike()?.kind === 'stream-refused') throw Object.assign(new Error('no stream'), { errno: ENOMEM })
    const number = this.#next++
    const world = { ...this.#world, memory: pool, copies: parts, checksums: null }
    this.#streams.set(number, new DeviceStream(world, this.#actor, this.#completed))
    return number
  }

  closeStream(number: number): number {
    const stream = this.#stream(number)
    must(stream.inFlight === 0, 'O10', () => `stream ${number} is closed with ${stream.inFlight} in flight`)
    this.#closedCompletions += stream.completions
    this.#closedDuplicates += stream.duplicates
    this.#streams.delete(number)
    return 0
  }

  stagingRead(
    number: number,
    tag: number,
    file: number,
    fileOffsetBytes: number,
    bytes: number,
    checks: Float64Array,
    offset: number,
    count: number,
    base: number,
  ): number {
    const granules = checkedGranules(checks, offset, count)
    const inside = granules.every(({ start, bytes: granule }) => start >= 0 && start + granule <= bytes)
    must(inside && count > 0, 'X3', () => `checksums of ${count} granules leave the ${bytes} bytes that are read`)
    const shard = this.#shard(file, fileOffsetBytes, 0, bytes)
    return this.#slot(number).read(tag, shard, fileOffsetBytes, bytes, granules, this.#results, base)
  }

  stagingWrite(
    number: number,
    tag: number,
    file: number,
    fileOffsetBytes: number,
    stagingOffsetBytes: number,
    bytes: number,
    zeroFromBytes: number,
    copies: Float64Array,
    _offset: number,
    count: number,
  ): number {
    const shard = this.#shard(file, fileOffsetBytes, stagingOffsetBytes, bytes)
    must(zeroFromBytes <= stagingOffsetBytes + bytes, 'X3', () => `zeros from ${zeroFromBytes} on`)
    const place = { fileOffsetBytes, stagingOffsetBytes, bytes }
    return this.#slot(number).write(tag, shard, place, zeroFromBytes, copies, count)
  }

  /** On a slot a scatter; on a stream without one a copy between the pool and pages. */
  copy(number: number, tag: number, direction: 0 | 1, copies: Float64Array, offset: number, count: number): number {
    return this.#stream(number).copy(tag, direction === 0, copies, offset, count)
  }

  decode(number: number, tag: number, list: Float64Array, offset: number, count: number, base: number): number {
    return this.#stream(number).decode(tag, list, offset, count, this.#results, base)
  }

  unstall(): void {
    for (const stream of this.#streams.values()) stream.unstall()
    this.#heldBack.release()
  }

  #stream(number: number): DeviceStream {
    const stream = this.#streams.get(number)
    must(stream !== undefined, 'O10', () => `stream ${number} is used after it was closed`)
    return stream as DeviceStream
  }

  #slot(number: number): StagingSlot {
    const stream = this.#stream(number)
    must(stream instanceof StagingSlot, 'X3', () => `stream ${number} has no slot`)
    return stream as StagingSlot
  }

  /** As the addon checks an extent: whole pages of the file and of the slot. */
  #shard(file: number, fileOffsetBytes: number, stagingOffsetBytes: number, bytes: number): Shard {
    const shard = this.#world.shards.get(file)
    must(shard !== undefined, 'X3', () => `file ${file} does not exist`)
    const whole = [fileOffsetBytes, stagingOffsetBytes, bytes].every((number) => number % PAGE_BYTES === 0)
    const inside = bytes > 0 && fileOffsetBytes >= 0 && fileOffsetBytes + bytes <= (shard as Shard).bytes.length
    must(whole && inside, 'G3', () => `cuFile at ${fileOffsetBytes}+${bytes} of file ${file}`)
    return shard as Shard
  }

  #sum(closed: number, pick: (stream: DeviceStream) => number): number {
    let sum = closed
    for (const stream of this.#streams.values()) sum += pick(stream)
    return sum
  }
}
