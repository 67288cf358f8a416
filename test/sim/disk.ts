import { crc32Strided } from '../../src/shared/codec/crc32.js'
import type { Actor, ActorHost } from './actor.js'
import type { FaultSite, READ_FAULTS, Stream, Strike, WRITE_FAULTS } from './faults.js'
import type { Flights, Range } from './ledger.js'
import type { Pool } from './pool.js'
import { mustBeOwn, DISK_SECTOR_BYTES as SECTOR, type Shard } from './shard.js'
import { must } from './violation.js'

const EIO = -5
const EAGAIN = -11
const EFBIG = -27
const ENOSPC = -28
const EBADMSG = -74
const ECANCELED = -125

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
  readonly bytes: number
  /** Where in the pool the bytes are, one after the other. */
  readonly spans: readonly Span[]
  /** A span may have several granules. */
  readonly joined: boolean
}

export interface Span {
  readonly poolOffsetBytes: number
  readonly bytes: number
}

type ReadKind = (typeof READ_FAULTS)[number]
type WriteKind = (typeof WRITE_FAULTS)[number]

/** What a port is connected to. */
export interface DiskWorld {
  readonly host: ActorHost
  readonly pool: Pool
  readonly flights: Flights
  readonly shards: ReadonlyMap<number, Shard>
  /** Who opened the shards. */
  readonly owner: object
  readonly delayUs: Stream
  readonly reads: FaultSite<ReadKind>
  readonly writes: FaultSite<WriteKind>
}

/** Something held back until others have ended, or faults stop. */
interface Overtaken {
  left: number
  readonly run: () => void
}

/** After this long nothing is overtaken any more. */
const OVERTAKEN_US_MAX = 5_000

/** One lane's port to the disk. Completions come in any order; bytes move at the moment of completion. */
export class DiskPort {
  readonly #world: DiskWorld
  readonly #actor: Actor
  readonly #completed: (tag: number, result: number) => void
  #stalled: (() => void)[] = []
  #untilCancel: (() => void)[] = []
  #overtaken: Overtaken[] = []
  #lastTag = 0
  inFlight = 0
  completions = 0
  duplicates = 0

  constructor(world: DiskWorld, actor: Actor, completed: (tag: number, result: number) => void) {
    this.#world = world
    this.#actor = actor
    this.#completed = completed
  }

  read(order: ReadOrder): void {
    const { pool, flights, reads, host } = this.#world
    const { poolOffsetBytes: to, fileOffsetBytes: from, bytes } = order
    const shard = this.#shard(order.file, from, bytes)
    const strike = reads.strike()
    pool.mustBeOwned(to, bytes, 'read')
    const inPool = flights.take('pool', to, to + bytes, true, 'read')
    const inFile = flights.take(shard.name, from, from + bytes, false, 'read')
    this.#later(strike, () => {
      // Memory of a process that was killed is gone, and nobody waits.
      if (!host.alive) return
      this.#land(inPool, inFile)
      this.#complete(order.tag, this.#carryRead(shard, order, strike), strike?.kind === 'read-duplicate')
      if (strike?.kind === 'read-stale-tag') this.#stray(this.#lastTag)
      this.#lastTag = order.tag
    })
  }

  write(order: WriteOrder): void {
    const { pool, flights, writes, host, owner } = this.#world
    const { fileOffsetBytes: to, bytes, spans } = order
    const shard = this.#shard(order.file, to, bytes)
    const strike = writes.strike()
    must(spans.reduce((sum, span) => sum + span.bytes, 0) === bytes, 'X3', () => `spans of ${bytes} bytes have others`)
    const inPool = spans.map(({ poolOffsetBytes: from, bytes: part }) => {
      must(part > 0 && part % SECTOR === 0, 'X3', () => `a span has ${part} bytes`)
      if (order.joined) pool.mustBeOwnedTogether(from, part, 'write')
      else pool.mustBeOwned(from, part, 'write')
      return flights.take('pool', from, from + part, false, 'write')
    })
    const inFile = flights.take(shard.name, to, to + bytes, true, 'write')
    this.#later(strike, () => {
      // The kernel goes on with what a killed process had submitted: its pages are pinned until the write ends.
      mustBeOwn(shard, owner, 'a write')
      for (const range of inPool) flights.land(range)
      flights.land(inFile)
      const result = this.#carryWrite(shard, order, strike)
      if (!host.alive) return
      this.#complete(order.tag, result, strike?.kind === 'write-duplicate')
      this.#lastTag = order.tag
    })
  }

  /** A batch was cancelled: reads that outlive it end now. */
  cancelled(): void {
    for (const run of this.#untilCancel.splice(0)) this.#world.host.clock.after(1, run)
  }

  /** Phase two: what was held up for ever goes on. */
  unstall(): void {
    const held = [...this.#stalled, ...this.#untilCancel, ...this.#overtaken.map(({ run }) => run)]
    this.#stalled = []
    this.#untilCancel = []
    this.#overtaken = []
    for (const run of held) this.#world.host.clock.after(1, run)
  }

  #carryRead(shard: Shard, order: ReadOrder, strike: Strike<ReadKind> | null): number {
    const { fileOffsetBytes: from, poolOffsetBytes: to, bytes } = order
    const amount = strike?.amount ?? 0
    const { pool } = this.#world
    // What a failed read leaves behind in its destination is anybody's guess.
    const part = Math.floor((bytes * (amount % 16)) / 16)
    const take = (source: Uint8Array, at: number, count: number) => pool.bytes.set(source.subarray(at, at + count), to)
    switch (strike?.kind) {
      case 'read-eio':
        take(shard.bytes, from, part)
        return EIO
      case 'read-cancelled':
        take(shard.bytes, from, part)
        return ECANCELED
      case 'read-short':
        take(shard.bytes, from, part)
        return part
      case 'read-short-by-one':
        take(shard.bytes, from, bytes - 1)
        return bytes - 1
      case 'read-end-of-file':
        return 0
      case 'read-again':
        return EAGAIN
      case 'read-torn':
        take(shard.bytes, from, Math.min(bytes - 1, part))
        break
      case 'read-stale':
        take(shard.before, from, bytes)
        break
      case 'read-zeroes':
        pool.bytes.fill(0, to, to + bytes)
        break
      case 'read-misdirected':
        take(shard.bytes, (amount * SECTOR) % (shard.bytes.length - bytes + 1), bytes)
        break
      default:
        take(shard.bytes, from, bytes)
    }
    if (!order.verify) return bytes
    const landed = pool.bytes.subarray(to, to + bytes)
    return crc32Strided(landed, order.segmentBytes, order.segmentStrideBytes) === order.crc32 ? bytes : EBADMSG
  }

  #carryWrite(shard: Shard, order: WriteOrder, strike: Strike<WriteKind> | null): number {
    const { fileOffsetBytes: to, bytes } = order
    const { host, owner } = this.#world
    const amount = strike?.amount ?? 0
    const part = Math.floor((bytes * (amount % 16)) / 16)
    const source = this.#gathered(order)
    const put = (at: number, count: number) => shard.put(at, source.subarray(0, count))
    switch (strike?.kind) {
      case 'write-eio':
        put(to, part)
        return EIO
      case 'write-efbig':
        put(to, part)
        return EFBIG
      case 'write-enospc':
        return ENOSPC
      case 'write-short':
        put(to, part)
        return part
      case 'write-short-by-one':
        put(to, bytes - 1)
        return bytes - 1
      case 'write-torn':
        put(to, part)
        return bytes
      case 'write-lost':
        return bytes
      case 'write-zeroes':
        shard.zero(to, bytes)
        return bytes
      case 'write-misdirected':
        put((amount * SECTOR) % (shard.bytes.length - bytes + 1), bytes)
        return bytes
      case 'write-acked-early': {
        const copy = source.slice()
        host.clock.after(200 + amount * 40, () => {
          mustBeOwn(shard, owner, 'an acknowledged write')
          shard.put(to, copy)
        })
        return bytes
      }
      case 'bit-rot':
        put(to, bytes)
        shard.flip(to + ((amount * 37) % bytes), amount)
        return bytes
      case 'bit-rot-at-rest':
        put(to, bytes)
        for (let each = 0; each < 8; each++) shard.flip((amount * 8_191 + each * 4_099) % shard.bytes.length, each)
        return bytes
      case 'shard-wiped':
        put(to, bytes)
        shard.wipe()
        return bytes
      default:
        put(to, bytes)
        return bytes
    }
  }

  /** What the pool holds of a write just now. */
  #gathered({ bytes, spans }: WriteOrder): Uint8Array {
    const gathered = new Uint8Array(bytes)
    let at = 0
    for (const { poolOffsetBytes: from, bytes: part } of spans) {
      gathered.set(this.#world.pool.bytes.subarray(from, from + part), at)
      at += part
    }
    return gathered
  }

  #later(strike: Strike | null, run: () => void): void {
    const { host, delayUs } = this.#world
    this.inFlight++
    const end = () => {
      this.inFlight--
      run()
      this.#overtake()
    }
    const kind = strike?.kind.replace(/^(read|write)-/, '')
    if (kind === 'stalled') this.#stalled.push(end)
    else if (kind === 'outlives-cancel') this.#untilCancel.push(end)
    else if (kind === 'reordered') this.#holdBack(1 + ((strike?.amount ?? 0) % 4), end)
    else host.clock.after(delayUs.next() + (kind === 'late' ? 500 + (strike?.amount ?? 0) * 40 : 0), end)
  }

  #holdBack(left: number, run: () => void): void {
    const held = { left, run }
    this.#overtaken.push(held)
    this.#world.host.clock.after(OVERTAKEN_US_MAX, () => this.#release(held))
  }

  /** One operation has ended: it overtook those that are held back. */
  #overtake(): void {
    for (const held of [...this.#overtaken]) if (--held.left <= 0) this.#release(held)
  }

  #release(held: Overtaken): void {
    const at = this.#overtaken.indexOf(held)
    if (at < 0) return
    this.#overtaken.splice(at, 1)
    this.#world.host.clock.after(1, held.run)
  }

  #land(inPool: Range, inFile: Range): void {
    this.#world.flights.land(inPool)
    this.#world.flights.land(inFile)
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
    const shard = this.#world.shards.get(file)
    must(shard !== undefined, 'X3', () => `file ${file} does not exist`)
    const inside = offsetBytes >= 0 && bytes > 0 && offsetBytes + bytes <= (shard as Shard).bytes.length
    must(inside && offsetBytes % SECTOR === 0 && bytes % SECTOR === 0, 'G3', () => `${offsetBytes}+${bytes} in ${file}`)
    return shard as Shard
  }
}
