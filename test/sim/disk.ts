import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { ExtentShard } from '../../src/shared/extents/extent-shard.js'
import type { Actor } from './actor.js'
import type { Clock } from './clock.js'
import type { FaultSite, READ_FAULTS, Stream, WRITE_FAULTS } from './faults.js'
import { Engagements, type Flights } from './ledger.js'
import { POISON } from './oracle.js'
import type { Pool } from './pool.js'
import { must } from './violation.js'

const EIO = -5
const ENOSPC = -28
const EBADMSG = -74
const ECANCELED = -125
const SECTOR = 512

/** One backing file: poison until it is written. */
export interface Shard {
  readonly file: number
  readonly name: string
  readonly bytes: Uint8Array
  readonly engaged: Engagements
}

export function shardOf(file: number, capacityBytes: number): Shard {
  const words = new Uint32Array(capacityBytes / 4).fill(POISON)
  const name = `file ${file}`
  return { file, name, bytes: new Uint8Array(words.buffer), engaged: new Engagements(name, capacityBytes, SECTOR) }
}

/** The allocator of one shard under watch: bytes with work on them are given to nobody. */
export class WatchedShard extends ExtentShard {
  readonly #shard: Shard
  readonly #flights: Flights

  constructor(shard: Shard, alignmentBytes: number, extentsMax: number, flights: Flights) {
    super(shard.bytes.length, alignmentBytes, extentsMax)
    this.#shard = shard
    this.#flights = flights
  }

  override reserve(bytes: number, owner: number, evicted: number[]): number {
    const extent = super.reserve(bytes, owner, evicted)
    if (extent > 0) this.#watch(extent, 'reserves')
    return extent
  }

  override abort(extent: number): void {
    this.#watch(extent, 'aborts')
    super.abort(extent)
  }

  override release(extent: number): void {
    this.#watch(extent, 'releases')
    super.release(extent)
  }

  #watch(extent: number, verb: string): void {
    const start = this.offsetBytes(extent)
    this.#shard.engaged.mustBeClear(start, this.bytes(extent), verb)
    this.#flights.mustBeClear(this.#shard.name, start, start + this.bytes(extent), verb)
  }
}

export interface ReadOrder {
  readonly tag: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly poolOffsetBytes: number
  readonly bytes: number
  readonly segmentBytes: number
  readonly segmentStrideBytes: number
  readonly crc32: number
  readonly verify: boolean
}

export interface WriteOrder {
  readonly tag: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly poolOffsetBytes: number
  readonly bytes: number
}

interface Strike<K> {
  readonly kind: K
  readonly amount: number
}

/** One lane's port to the disk. Completions come in any order; bytes move at the moment of completion. */
export class DiskPort {
  readonly #shards: ReadonlyMap<number, Shard>
  readonly #pool: Pool
  readonly #flights: Flights
  readonly #clock: Clock
  readonly #actor: Actor
  readonly #delayUs: Stream
  readonly #reads: FaultSite<(typeof READ_FAULTS)[number]>
  readonly #writes: FaultSite<(typeof WRITE_FAULTS)[number]>
  readonly #completed: (tag: number, result: number) => void
  readonly #stalled: (() => void)[] = []
  #lastTag = 0
  inFlight = 0
  completions = 0
  duplicates = 0

  constructor(
    shards: ReadonlyMap<number, Shard>,
    pool: Pool,
    flights: Flights,
    clock: Clock,
    actor: Actor,
    delayUs: Stream,
    reads: FaultSite<(typeof READ_FAULTS)[number]>,
    writes: FaultSite<(typeof WRITE_FAULTS)[number]>,
    completed: (tag: number, result: number) => void,
  ) {
    this.#shards = shards
    this.#pool = pool
    this.#flights = flights
    this.#clock = clock
    this.#actor = actor
    this.#delayUs = delayUs
    this.#reads = reads
    this.#writes = writes
    this.#completed = completed
  }

  read(order: ReadOrder): void {
    const shard = this.#shard(order.file, order.fileOffsetBytes, order.bytes)
    const strike = this.#reads.strike()
    const { poolOffsetBytes: to, fileOffsetBytes: from, bytes } = order
    this.#pool.mustBeOwned(to, bytes, 'read')
    const ranges = [
      this.#flights.take({ space: 'pool', start: to, end: to + bytes, writes: true, what: 'read' }),
      this.#flights.take({ space: shard.name, start: from, end: from + bytes, writes: false, what: 'read' }),
    ]
    this.#later(strike, 'read-late', 'read-stalled', () => {
      for (const range of ranges) this.#flights.land(range)
      this.#complete(order.tag, this.#carryRead(shard, order, strike), strike?.kind === 'read-duplicate')
      if (strike?.kind === 'read-stale-tag') this.#stray(this.#lastTag)
      this.#lastTag = order.tag
    })
  }

  write(order: WriteOrder): void {
    const shard = this.#shard(order.file, order.fileOffsetBytes, order.bytes)
    const strike = this.#writes.strike()
    const { poolOffsetBytes: from, fileOffsetBytes: to, bytes } = order
    this.#pool.mustBeOwned(from, bytes, 'write')
    const ranges = [
      this.#flights.take({ space: 'pool', start: from, end: from + bytes, writes: false, what: 'write' }),
      this.#flights.take({ space: shard.name, start: to, end: to + bytes, writes: true, what: 'write' }),
    ]
    this.#later(strike, 'write-late', 'write-stalled', () => {
      for (const range of ranges) this.#flights.land(range)
      this.#complete(order.tag, this.#carryWrite(shard, order, strike), strike?.kind === 'write-duplicate')
      this.#lastTag = order.tag
    })
  }

  /** Phase two: what was held up for ever goes on. */
  unstall(): void {
    for (const run of this.#stalled.splice(0)) this.#clock.after(1, run)
  }

  #carryRead(shard: Shard, order: ReadOrder, strike: Strike<(typeof READ_FAULTS)[number]> | null): number {
    const { fileOffsetBytes, poolOffsetBytes, bytes } = order
    const amount = strike?.amount ?? 0
    // What a failed read leaves behind in its destination is anybody's guess.
    const part = Math.floor((bytes * (amount % 16)) / 16)
    const at =
      strike?.kind === 'read-misdirected' ? (amount * SECTOR) % (shard.bytes.length - bytes + 1) : fileOffsetBytes
    const failed = strike?.kind === 'read-eio' || strike?.kind === 'read-cancelled' || strike?.kind === 'read-short'
    this.#pool.bytes.set(shard.bytes.subarray(at, at + (failed ? part : bytes)), poolOffsetBytes)
    if (strike?.kind === 'read-eio') return EIO
    if (strike?.kind === 'read-cancelled') return ECANCELED
    if (strike?.kind === 'read-short') return part
    if (!order.verify) return bytes
    const landed = this.#pool.bytes.subarray(poolOffsetBytes, poolOffsetBytes + bytes)
    return crc32Strided(landed, order.segmentBytes, order.segmentStrideBytes) === order.crc32 ? bytes : EBADMSG
  }

  #carryWrite(shard: Shard, order: WriteOrder, strike: Strike<(typeof WRITE_FAULTS)[number]> | null): number {
    const { fileOffsetBytes, poolOffsetBytes, bytes } = order
    const amount = strike?.amount ?? 0
    const part = Math.floor((bytes * (amount % 16)) / 16)
    const put = (at: number, count: number) =>
      shard.bytes.set(this.#pool.bytes.subarray(poolOffsetBytes, poolOffsetBytes + count), at)
    switch (strike?.kind) {
      case 'write-eio':
        put(fileOffsetBytes, part)
        return EIO
      case 'write-enospc':
        return ENOSPC
      case 'write-short':
        put(fileOffsetBytes, part)
        return part
      case 'write-torn':
        put(fileOffsetBytes, part)
        return bytes
      case 'write-lost':
        return bytes
      case 'write-misdirected':
        put((amount * SECTOR) % (shard.bytes.length - bytes + 1), bytes)
        return bytes
      case 'bit-rot': {
        put(fileOffsetBytes, bytes)
        const at = fileOffsetBytes + ((amount * 37) % bytes)
        shard.bytes[at] = (shard.bytes[at] as number) ^ (1 << (amount % 8))
        return bytes
      }
      default:
        put(fileOffsetBytes, bytes)
        return bytes
    }
  }

  #later(strike: Strike<string> | null, late: string, stalled: string, run: () => void): void {
    this.inFlight++
    const end = () => {
      this.inFlight--
      run()
    }
    if (strike?.kind === stalled) this.#stalled.push(end)
    else this.#clock.after(this.#delayUs.next() + (strike?.kind === late ? 500 + strike.amount * 40 : 0), end)
  }

  #complete(tag: number, result: number, twice: boolean): void {
    this.completions++
    this.#actor.post(0, () => this.#completed(tag, result))
    if (twice) this.#stray(tag)
  }

  /** A completion of something that has ended: it must change nothing. */
  #stray(tag: number): void {
    this.duplicates++
    this.#actor.post(1, () => this.#completed(tag, 0))
  }

  #shard(file: number, offsetBytes: number, bytes: number): Shard {
    const shard = this.#shards.get(file)
    must(shard !== undefined, 'X3', () => `file ${file} does not exist`)
    const inside = offsetBytes >= 0 && bytes > 0 && offsetBytes + bytes <= (shard as Shard).bytes.length
    must(inside && offsetBytes % SECTOR === 0 && bytes % SECTOR === 0, 'G3', () => `${offsetBytes}+${bytes} in ${file}`)
    return shard as Shard
  }
}
