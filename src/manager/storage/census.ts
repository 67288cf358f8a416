import { CLIENT_READS_MAX } from '../../actors/host-reader/messages.js'
import { WRITES_OUTSTANDING_MAX } from '../../actors/writeback/messages.js'
import { ENTRY_STATE, NONE } from '../../shared/directory/directory.js'
import { RESIDENT_CLASS } from '../../shared/directory/resident-table.js'
import type { Storage } from './storage.js'

/**
 * A full scan that recomputes who owns what and holds it against the state that is kept step by step (O1). Reads only;
 * costs a walk over every row, so it runs after every command of a test and after every event of a simulation.
 * @returns what does not agree; empty when all is well.
 */
export function census(storage: Storage): string[] {
  const scan = new Census(storage)
  scan.rows()
  scan.pool()
  scan.shards()
  scan.totals()
  return scan.breaches
}

class Census {
  readonly breaches: string[] = []
  readonly #storage: Storage
  /** Interests that fills and writes hold, by entry. */
  readonly #internal = new Map<number, number>()
  /** `shard:extent` of every extent that something names. */
  readonly #extents = new Set<string>()
  readonly #allocations: { offsetBytes: number; bytes: number; entry: number }[] = []
  readonly #pinnedBytes: number[]
  #interests = 0
  #assembling = 0
  #residentBytes = 0
  #residentBlocks = 0
  #evictableBytes = 0
  #replicas = 0
  #guessedBytes = 0
  #protectedBytes = 0
  #writing = 0
  readonly #classes: [number, number, number] = [0, 0, 0]

  constructor(storage: Storage) {
    this.#storage = storage
    this.#pinnedBytes = Array.from({ length: storage.entries.extents.shardCount }, () => 0)
    for (const { entry } of storage.fills.inFlight()) this.#bump(entry)
    for (const { entry, shard, extent } of storage.writes.inFlight()) {
      this.#bump(entry)
      if (extent !== NONE) this.#name(entry, shard, extent, false)
    }
  }

  /** Every row: its state fits its replicas, its replicas exist, its interests cover what is in flight. */
  rows(): void {
    const { directory, residents } = this.#storage.entries
    const filling = new Set([...this.#storage.fills.inFlight()].map(({ entry }) => entry))
    directory.forEach((entry) => {
      const state = directory.state(entry)
      const interests = directory.interests(entry)
      const resident = this.#storage.entries.resident(entry)
      const slot = directory.dramSlot(entry)
      this.#interests += interests
      this.#check(interests >= (this.#internal.get(entry) ?? 0), `entry ${entry}: work in flight without interest`)
      this.#check(!resident || slot !== NONE, `entry ${entry}: resident without memory`)
      this.#check(directory.crcSlot(entry) !== NONE, `entry ${entry}: no place for checksums`)
      const assembling = this.#storage.assemblies.has(entry)
      this.#check(assembling === (state === ENTRY_STATE.assembling), `entry ${entry}: state and assembly differ`)
      if (assembling) this.#assembling++
      if (state === ENTRY_STATE.invalid) this.#check(interests > 0, `entry ${entry}: hidden, unneeded and not freed`)
      if (state === ENTRY_STATE.published) this.#visible(entry, resident)
      if (this.#storage.entries.writing(entry)) this.#writing++
      if (slot !== NONE) {
        this.#check(residents.entry(slot) === entry, `entry ${entry}: its resident slot names another`)
        this.#memoryOf(entry)
        const owned = resident || filling.has(entry) || assembling || state === ENTRY_STATE.invalid
        this.#check(owned, `entry ${entry}: memory that nothing fills`)
      }
      if (directory.extent(entry) !== NONE) this.#extentOf(entry, interests)
    })
  }

  /** The pool: no two granules overlap, and nothing is allocated that no entry owns. */
  pool(): void {
    const { memory } = this.#storage.entries
    const sorted = this.#allocations.sort((a, b) => a.offsetBytes - b.offsetBytes)
    let usedBytes = 0
    sorted.forEach(({ offsetBytes, bytes, entry }, index) => {
      usedBytes += memory.pool.bytesAt(offsetBytes)
      const next = sorted[index + 1]
      this.#check(
        next === undefined || offsetBytes + bytes <= next.offsetBytes,
        `entries ${entry} and ${next?.entry}: their memory overlaps at ${offsetBytes}`,
      )
    })
    this.#same('pool bytes', memory.pool.usedBytes, usedBytes)
    this.#same('pool allocations', memory.pool.allocations, sorted.length)
    this.#same('resident slots', this.#storage.entries.residents.live, this.#replicas)
  }

  /** The shards: every live extent has an owner here, and pins are exactly those of entries in use. */
  shards(): void {
    const { extents } = this.#storage.entries
    let live = 0
    for (let shard = 0; shard < extents.shardCount; shard++) {
      live += extents.shard(shard).liveExtents
      this.#same(`pinned bytes of shard ${shard}`, extents.shard(shard).pinnedBytes, this.#pinnedBytes[shard] as number)
    }
    this.#same('live extents', live, this.#extents.size)
  }

  /** Sums that are kept step by step, and the bounds that are never passed. */
  totals(): void {
    const { entries, assemblies, fills, writes, holds } = this.#storage
    const internal = [...this.#internal.values()].reduce((sum, count) => sum + count, 0)
    this.#same('interests', entries.interests, this.#interests)
    this.#same('interests by holder', this.#interests, internal + assemblies.copiesInFlight + holds)
    this.#same('assemblies', assemblies.count, this.#assembling)
    this.#same('resident bytes', entries.residentBytes, this.#residentBytes)
    this.#same('resident blocks', entries.residentBlocks, this.#residentBlocks)
    this.#same('evictable bytes', entries.evictableBytes, this.#evictableBytes)
    this.#cache()
    const outstanding = [...fills.inFlight()].reduce((sum, fill) => sum + fill.outstanding, 0)
    this.#same('outstanding reads', fills.outstanding, outstanding)
    this.#same('pending writes', writes.pending, writes.queued + writes.reserved)
    this.#same('blocks marked as being written', this.#writing, writes.pending)
    for (const { store } of fills.inFlight()) {
      this.#check(fills.outstandingOn(store) <= CLIENT_READS_MAX, `store ${store}: more reads than credits`)
    }
    for (let writer = 0; writer < writes.writers; writer++) {
      this.#check(writes.outstandingOn(writer) <= WRITES_OUTSTANDING_MAX, `writer ${writer}: more jobs than credits`)
    }
  }

  #visible(entry: number, resident: boolean): void {
    const { directory } = this.#storage.entries
    this.#check(resident || directory.extent(entry) !== NONE, `entry ${entry}: published and nowhere`)
    if (this.#storage.entries.evictable(entry)) this.#evictableBytes += this.#storage.entries.shape(entry).dramBytes
  }

  #memoryOf(entry: number): void {
    const { geometry, dramBytes } = this.#storage.entries.shape(entry)
    geometry.granules.forEach(({ bytes }, granule) => {
      this.#allocations.push({ offsetBytes: this.#storage.entries.offsetBytes(entry, granule), bytes, entry })
    })
    this.#replicas++
    const { directory, residents } = this.#storage.entries
    if (!this.#storage.entries.resident(entry)) return
    this.#residentBytes += dramBytes
    this.#residentBlocks++
    const of = residents.classOf(directory.dramSlot(entry))
    this.#classes[of]++
    if (of === RESIDENT_CLASS.retained) this.#protectedBytes += dramBytes
    if (this.#storage.entries.guessed(entry)) this.#guessedBytes += geometry.extentBytes
  }

  /** Classes of what is resident, the limit of the protected segment, and the outcome of guesses. */
  #cache(): void {
    const { order, guesses } = this.#storage.cache
    for (const of of Object.values(RESIDENT_CLASS)) {
      this.#same(`blocks of class ${of}`, order.blocks(of), this.#classes[of])
    }
    this.#same('protected bytes', order.protectedBytes, this.#protectedBytes)
    this.#check(order.protectedBytes <= order.protectedBytesMax, 'the protected segment is over its limit')
    this.#same('pending bytes of guesses', guesses.pendingBytes, this.#guessedBytes)
  }

  #extentOf(entry: number, interests: number): void {
    const { directory, extents } = this.#storage.entries
    const shard = directory.shard(entry)
    const extent = directory.extent(entry)
    this.#name(entry, shard, extent, true)
    this.#check(extents.shard(shard).pins(extent) === (interests > 0 ? 1 : 0), `entry ${entry}: pinned wrongly`)
    if (interests > 0)
      this.#pinnedBytes[shard] = (this.#pinnedBytes[shard] as number) + extents.shard(shard).bytes(extent)
  }

  #name(entry: number, shard: number, extent: number, published: boolean): void {
    const name = `${shard}:${extent}`
    this.#check(!this.#extents.has(name), `extent ${name}: two owners, one of them entry ${entry}`)
    this.#extents.add(name)
    const { extents } = this.#storage.entries
    this.#check(extents.shard(shard).owner(extent) === entry, `extent ${name}: owned by another than entry ${entry}`)
    this.#check(extents.shard(shard).published(extent) === published, `extent ${name}: visible at the wrong time`)
  }

  #bump(entry: number): void {
    this.#internal.set(entry, (this.#internal.get(entry) ?? 0) + 1)
  }

  #same(what: string, kept: number, counted: number): void {
    this.#check(kept === counted, `${what}: ${kept} kept, ${counted} counted`)
  }

  #check(holds: boolean, breach: string): void {
    if (!holds) this.breaches.push(breach)
  }
}
