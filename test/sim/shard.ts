import { ExtentShard } from '../../src/shared/extents/extent-shard.js'
import { Engagements, type Flights } from './ledger.js'
import { POISON } from './oracle.js'
import { must } from './violation.js'

export const DISK_SECTOR_BYTES = 512

/** One inode that holds a shard: poison until it is written. Each start of the Manager makes new ones. */
export class Shard {
  readonly file: number
  readonly name: string
  readonly bytes: Uint8Array
  readonly engaged: Engagements
  /** What the bytes were before their last write: an old generation, for a disk that returns one. */
  readonly before: Uint8Array
  /** False once another inode stands at its path. */
  linked = true
  /** Who has it open for its own: nobody else may write to it. */
  owner: object

  /** `over`: the inode is an old one, opened once more. */
  constructor(file: number, capacityBytes: number, owner: object, over: Shard | null = null) {
    this.file = file
    this.owner = owner
    this.name = `file ${file}`
    this.bytes = over?.bytes ?? poison(capacityBytes)
    this.before = over?.before ?? poison(capacityBytes)
    this.engaged = new Engagements(this.name, capacityBytes, DISK_SECTOR_BYTES)
  }

  put(at: number, bytes: Uint8Array): void {
    this.before.set(this.bytes.subarray(at, at + bytes.length), at)
    this.bytes.set(bytes, at)
  }

  zero(at: number, bytes: number): void {
    this.before.set(this.bytes.subarray(at, at + bytes), at)
    this.bytes.fill(0, at, at + bytes)
  }

  flip(at: number, bit: number): void {
    this.bytes[at] = (this.bytes[at] as number) ^ (1 << (bit & 7))
  }

  wipe(): void {
    new Uint32Array(this.bytes.buffer).fill(POISON)
  }
}

function poison(bytes: number): Uint8Array {
  return new Uint8Array(new Uint32Array(bytes / 4).fill(POISON).buffer)
}

/** A write of a process that may be dead reaches an inode: never one that another has opened for its own (K4). */
export function mustBeOwn(shard: Shard, owner: object, what: string): void {
  must(shard.owner === owner, 'K4', () => `${what} of a dead Manager reaches ${shard.name} of the one that lives`)
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

/**
 * The path of the backing files as the world sees it: one lock, and the inodes that stand there now. Whoever starts
 * takes the lock and puts new inodes in place of the old ones, which live on while somebody writes to them (K4, K7).
 */
export class ShardPath {
  #owner: object | null = null
  #shards: readonly Shard[] = []

  /** New inodes for `owner`, or null: another Manager that lives has the path. */
  open(
    owner: object,
    capacities: readonly { readonly file: number; readonly bytes: number }[],
  ): readonly Shard[] | null {
    if (this.#owner !== null) return null
    this.#owner = owner
    for (const shard of this.#shards) shard.linked = false
    this.#shards = capacities.map(({ file, bytes }) => new Shard(file, bytes, owner))
    return this.#shards
  }

  /** The lock goes with the process, not with its I/O. */
  exited(owner: object): void {
    if (this.#owner === owner) this.#owner = null
  }

  /** A twin's way in: what stands there is written again. */
  reopen(
    owner: object,
    capacities: readonly { readonly file: number; readonly bytes: number }[],
  ): readonly Shard[] | null {
    if (this.#shards.length === 0) return this.open(owner, capacities)
    this.#owner = owner
    for (const shard of this.#shards) shard.owner = owner
    this.#shards = this.#shards.map((old) => new Shard(old.file, old.bytes.length, owner, old))
    return this.#shards
  }
}
