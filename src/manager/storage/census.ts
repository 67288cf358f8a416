import { CLIENT_READS_MAX } from '../../actors/host-reader/messages.js'
import { WRITES_OUTSTANDING_MAX } from '../../actors/writeback/messages.js'
import { alignUp, PAGE_BYTES } from '../../shared/base/units.js'
import { ENTRY_STATE, NONE } from '../../shared/directory/directory.js'
import { RESIDENT_CLASS } from '../../shared/directory/resident-table.js'
import type { Storage } from './storage.js'

/**
 * A full scan that recomputes who owns what and holds it against the state that is kept step by step (O1). Reads only;
 * costs a walk over every row, so it runs after every command of a test and after every event of a simulation.
 * @returns what does not agree; empty when all is well.
 */
export function census(storage: Storage): string[] {
  let scan = SCANS.get(storage)
  if (scan === undefined) {
    scan = new Census(storage)
    SCANS.set(storage, scan)
  }
  return scan.run()
}

/** What a scan counts in is kept from one to the next: a simulation takes millions of them. */
const SCANS = new WeakMap<Storage, Census>()

class Census {
  readonly #storage: Storage
  #breaches: string[] = []
  /** Interests that fills and writes hold, by entry. */
  readonly #internal: Int32Array
  readonly #bumped: number[] = []
  /** Entries that are being filled: the number of the scan that saw it. */
  readonly #filling: Int32Array
  /** Pages of the pool that an entry owns: the number of the scan that saw it. */
  readonly #pages: Int32Array
  /** By shard, every extent that something names. */
  readonly #extents: readonly Set<number>[]
  readonly #pinnedBytes: number[]
  readonly #outstandingOn: number[] = []
  #scan = 0
  #outstanding = 0
  #allocations = 0
  #allocatedBytes = 0
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
    const { extents, directory, memory } = storage.entries
    this.#storage = storage
    this.#internal = new Int32Array(directory.capacity)
    this.#filling = new Int32Array(directory.capacity)
    this.#pages = new Int32Array((memory.pool.usedBytes + memory.pool.freeBytes) / PAGE_BYTES)
    this.#extents = Array.from({ length: extents.shardCount }, () => new Set())
    this.#pinnedBytes = Array.from({ length: extents.shardCount }, () => 0)
  }

  run(): string[] {
    this.#clear()
    this.#inFlight()
    this.#rows()
    this.#pool()
    this.#shards()
    this.#totals()
    return this.#breaches
  }

  #clear(): void {
    this.#breaches = []
    this.#scan++
    for (const entry of this.#bumped) this.#internal[entry] = 0
    this.#bumped.length = 0
    for (const shard of this.#extents) shard.clear()
    this.#pinnedBytes.fill(0)
    this.#outstandingOn.length = 0
    this.#classes.fill(0)
    this.#outstanding = 0
    this.#allocations = 0
    this.#allocatedBytes = 0
    this.#interests = 0
    this.#assembling = 0
    this.#residentBytes = 0
    this.#residentBlocks = 0
    this.#evictableBytes = 0
    this.#replicas = 0
    this.#guessedBytes = 0
    this.#protectedBytes = 0
    this.#writing = 0
  }

  /** Fills and writes: each holds an interest in its entry, and a write may own an extent that is not visible yet. */
  #inFlight(): void {
    for (const { entry, store, outstanding } of this.#storage.fills.inFlight()) {
      this.#bump(entry)
      this.#filling[entry] = this.#scan
      this.#outstanding += outstanding
      this.#outstandingOn.push(store)
    }
    for (const { entry, shard, extent } of this.#storage.writes.inFlight()) {
      this.#bump(entry)
      if (extent !== NONE) this.#name(entry, shard, extent, false)
    }
  }

  /** Every row: its state fits its replicas, its replicas exist, its interests cover what is in flight. */
  #rows(): void {
    this.#storage.entries.directory.forEach(this.#row)
  }

  readonly #row = (entry: number): void => {
    const { entries, assemblies } = this.#storage
    const { directory, residents } = entries
    const state = directory.state(entry)
    const interests = directory.interests(entry)
    const resident = entries.resident(entry)
    const slot = directory.dramSlot(entry)
    this.#interests += interests
    this.#lengthsOf(entry)
    if (interests < (this.#internal[entry] as number)) this.#breach(entry, 'work in flight without interest')
    if (resident && slot === NONE) this.#breach(entry, 'resident without memory')
    if (directory.crcSlot(entry) === NONE) this.#breach(entry, 'no place for checksums')
    const assembling = assemblies.has(entry)
    if (assembling !== (state === ENTRY_STATE.assembling)) this.#breach(entry, 'state and assembly differ')
    if (assembling) this.#assembling++
    if (state === ENTRY_STATE.invalid && interests === 0) this.#breach(entry, 'hidden, unneeded and not freed')
    if (state === ENTRY_STATE.published) this.#visible(entry, resident)
    if (entries.writing(entry)) this.#writing++
    if (slot !== NONE) {
      if (residents.entry(slot) !== entry) this.#breach(entry, 'its resident slot names another')
      this.#memoryOf(entry, slot, resident)
      const owned = resident || this.#filling[entry] === this.#scan || assembling || state === ENTRY_STATE.invalid
      if (!owned) this.#breach(entry, 'memory that nothing fills')
    }
    if (directory.extent(entry) !== NONE) this.#extentOf(entry, interests)
  }

  /** Where granules have lengths of their own: what the entry takes is their sum. */
  #lengthsOf(entry: number): void {
    const { entries } = this.#storage
    const { lengths, geometry } = entries.shape(entry)
    if (lengths === null) return
    let extentBytes = 0
    let dramBytes = 0
    for (let granule = 0; granule < geometry.granules.length; granule++) {
      const { bytes, segmentBytes } = entries.granule(entry, granule)
      if (segmentBytes === 0) this.#breach(entry, `granule ${granule} has no length`)
      if (entries.extentOffsetBytes(entry, granule) !== extentBytes)
        this.#breach(entry, `granule ${granule} is elsewhere`)
      extentBytes += bytes
      dramBytes += alignUp(bytes, PAGE_BYTES)
    }
    if (entries.extentBytes(entry) !== extentBytes) this.#breach(entry, `its granules are ${extentBytes} bytes long`)
    if (entries.dramBytes(entry) !== dramBytes) this.#breach(entry, `its granules need ${dramBytes} bytes of pool`)
  }

  /** The pool: nothing is allocated that no entry owns. That no page has two owners was seen row by row. */
  #pool(): void {
    const { memory, residents } = this.#storage.entries
    this.#same('pool bytes', memory.pool.usedBytes, this.#allocatedBytes)
    this.#same('pool allocations', memory.pool.allocations, this.#allocations)
    this.#same('resident slots', residents.live, this.#replicas)
  }

  /** The shards: every live extent has an owner here, and pins are exactly those of entries in use. */
  #shards(): void {
    const { extents } = this.#storage.entries
    for (let index = 0; index < extents.shardCount; index++) {
      const shard = extents.shard(index)
      this.#same('pinned bytes of a shard', shard.pinnedBytes, this.#pinnedBytes[index] as number)
      this.#same('live extents of a shard', shard.liveExtents, (this.#extents[index] as Set<number>).size)
    }
  }

  /** Sums that are kept step by step, and the bounds that are never passed. */
  #totals(): void {
    const { entries, assemblies, fills, writes, holds } = this.#storage
    this.#same('interests', entries.interests, this.#interests)
    this.#same('interests by holder', this.#interests, this.#bumped.length + assemblies.copiesInFlight + holds)
    this.#same('assemblies', assemblies.count, this.#assembling)
    this.#same('resident bytes', entries.residentBytes, this.#residentBytes)
    this.#same('resident blocks', entries.residentBlocks, this.#residentBlocks)
    this.#same('evictable bytes', entries.evictableBytes, this.#evictableBytes)
    this.#cache()
    this.#same('outstanding reads', fills.outstanding, this.#outstanding)
    this.#same('pending writes', writes.pending, writes.queued + writes.reserved)
    this.#same('blocks marked as being written', this.#writing, writes.pending)
    for (const store of this.#outstandingOn) {
      if (fills.outstandingOn(store) > CLIENT_READS_MAX) this.#breaches.push(`store ${store}: more reads than credits`)
    }
    for (let writer = 0; writer < writes.writers; writer++) {
      if (writes.outstandingOn(writer) > WRITES_OUTSTANDING_MAX) {
        this.#breaches.push(`writer ${writer}: more jobs than credits`)
      }
    }
  }

  #visible(entry: number, resident: boolean): void {
    const { entries } = this.#storage
    if (!resident && entries.directory.extent(entry) === NONE) this.#breach(entry, 'published and nowhere')
    if (entries.evictable(entry)) this.#evictableBytes += entries.dramBytes(entry)
  }

  #memoryOf(entry: number, slot: number, resident: boolean): void {
    const { entries } = this.#storage
    const granules = entries.shape(entry).geometry.granules.length
    let lackingBytes = 0
    for (let granule = 0; granule < granules; granule++) {
      const bytes = alignUp(entries.granule(entry, granule).bytes, PAGE_BYTES)
      if (entries.hasRoom(entry, granule)) this.#allocationOf(entry, entries.offsetBytes(entry, granule), bytes)
      else lackingBytes += bytes
    }
    if (entries.lackingBytes(entry) !== lackingBytes) this.#breach(entry, `${lackingBytes} bytes lack room`)
    this.#replicas++
    if (!resident) return
    if (lackingBytes > 0) this.#breach(entry, 'resident without room for every granule')
    const dramBytes = entries.dramBytes(entry)
    this.#residentBytes += dramBytes
    this.#residentBlocks++
    const of = entries.residents.classOf(slot)
    this.#classes[of]++
    if (of === RESIDENT_CLASS.retained) this.#protectedBytes += dramBytes
    if (entries.guessed(entry)) this.#guessedBytes += entries.extentBytes(entry)
  }

  /** One granule's allocation: as long as the granule needs, and no page of it is another's. */
  #allocationOf(entry: number, offsetBytes: number, needBytes: number): void {
    const bytes = this.#storage.entries.memory.pool.bytesAt(offsetBytes)
    if (bytes !== needBytes) this.#breach(entry, `${bytes} bytes of pool for a granule that needs ${needBytes}`)
    this.#allocations++
    this.#allocatedBytes += bytes
    const end = (offsetBytes + bytes) / PAGE_BYTES
    for (let page = offsetBytes / PAGE_BYTES; page < end; page++) {
      if (this.#pages[page] === this.#scan) this.#breach(entry, `its memory overlaps another's at page ${page}`)
      this.#pages[page] = this.#scan
    }
  }

  /** Classes of what is resident, the limit of the protected segment, and the outcome of guesses. */
  #cache(): void {
    const { order, guesses } = this.#storage.cache
    for (const of of RESIDENT_CLASSES) {
      if (order.blocks(of) !== this.#classes[of]) {
        this.#same(`blocks of class ${of}`, order.blocks(of), this.#classes[of])
      }
    }
    this.#same('protected bytes', order.protectedBytes, this.#protectedBytes)
    if (order.protectedBytes > order.protectedBytesMax) this.#breaches.push('the protected segment is over its limit')
    this.#same('pending bytes of guesses', guesses.pendingBytes, this.#guessedBytes)
  }

  #extentOf(entry: number, interests: number): void {
    const { directory, extents } = this.#storage.entries
    const index = directory.shard(entry)
    const shard = extents.shard(index)
    const extent = directory.extent(entry)
    this.#name(entry, index, extent, true)
    const spareBytes = shard.bytes(extent) - this.#storage.entries.extentBytes(entry)
    if (spareBytes < 0 || spareBytes >= PAGE_BYTES) this.#breach(entry, `its extent has ${spareBytes} bytes to spare`)
    if (shard.pins(extent) !== (interests > 0 ? 1 : 0)) this.#breach(entry, 'pinned wrongly')
    if (interests > 0) this.#pinnedBytes[index] = (this.#pinnedBytes[index] as number) + shard.bytes(extent)
  }

  #name(entry: number, index: number, extent: number, published: boolean): void {
    const shard = this.#storage.entries.extents.shard(index)
    const named = this.#extents[index] as Set<number>
    if (named.has(extent)) this.#breach(entry, `extent ${index}:${extent} has two owners`)
    named.add(extent)
    if (shard.owner(extent) !== entry) this.#breach(entry, `extent ${index}:${extent} is owned by another`)
    if (shard.published(extent) !== published)
      this.#breach(entry, `extent ${index}:${extent} visible at the wrong time`)
  }

  #bump(entry: number): void {
    this.#internal[entry] = (this.#internal[entry] as number) + 1
    this.#bumped.push(entry)
  }

  #same(what: string, kept: number, counted: number): void {
    if (kept !== counted) this.#breaches.push(`${what}: ${kept} kept, ${counted} counted`)
  }

  #breach(entry: number, what: string): void {
    this.#breaches.push(`entry ${entry}: ${what}`)
  }
}

const RESIDENT_CLASSES = Object.values(RESIDENT_CLASS)
