import { invariant } from '../../shared/base/invariant.js'
import { alignUp, PAGE_BYTES } from '../../shared/base/units.js'
import { type Directory, ENTRY_STATE, type EntryState, NONE } from '../../shared/directory/directory.js'
import type { ResidentTable } from '../../shared/directory/resident-table.js'
import type { ExtentStore } from '../../shared/extents/extent-store.js'
import type { PoolMemory, RoomOf } from '../cache/pool-memory.js'
import type { ClassTable, StorageClass } from './classes.js'
import type { StoredGranule } from './stored-lengths.js'

/** What entries are made of. */
export interface EntryTables {
  readonly directory: Directory
  readonly residents: ResidentTable
  readonly extents: ExtentStore
  readonly memory: PoolMemory
  readonly classes: ClassTable
}

/** Flag of a row: its DRAM replica holds every byte (without it, memory that is being filled). */
const RESIDENT = 1
/** Its DRAM replica was read on a guess and nobody has used it yet. */
const GUESSED = 2
/** Its write to SSD is queued or on its way. */
const WRITING = 4

/**
 * The life of an entry, and the only place where replicas are dropped and rows freed.
 *
 *   claim -> assembling -> seal -> published -> invalidate -> invalid -> (last interest) freed
 *                      \-> abandon -----------------------/
 *
 * An entry with interests loses nothing: its extent is pinned from the first interest to the last, its DRAM replica is
 * not evictable. Interests are leases and holds of the verbs, copies in flight, a fill, a write. What waits for the
 * last interest happens in #settle.
 *
 * What an entry takes, in the pool and in its extent, are sums over its own granules: see StoredLengths. Lengths change
 * while the entry is assembled, and never after its seal.
 */
export class Entries {
  readonly directory: Directory
  readonly residents: ResidentTable
  readonly extents: ExtentStore
  readonly memory: PoolMemory
  readonly #classes: ClassTable
  /** Told of every DRAM replica just before it leaves. */
  onLeave: (entry: number, slot: number) => void = () => {}
  /** Pool bytes of granules that have no room, of replicas that have some. */
  readonly #lacking = new Map<number, number>()
  #interests = 0
  #residentBytes = 0
  #residentBlocks = 0
  #evictableBytes = 0

  constructor(tables: EntryTables) {
    this.directory = tables.directory
    this.residents = tables.residents
    this.extents = tables.extents
    this.memory = tables.memory
    this.#classes = tables.classes
  }

  /** All interests in all entries; 0 at rest. */
  get interests(): number {
    return this.#interests
  }

  /** Pool bytes of published DRAM replicas, and how many there are. */
  get residentBytes(): number {
    return this.#residentBytes
  }

  get residentBlocks(): number {
    return this.#residentBlocks
  }

  /** Pool bytes that evicting everything evictable would give back. */
  get evictableBytes(): number {
    return this.#evictableBytes
  }

  shape(entry: number): StorageClass {
    return this.#classes.get(this.directory.classId(entry))
  }

  is(entry: number, state: EntryState): boolean {
    return this.directory.state(entry) === state
  }

  published(entry: number): boolean {
    return this.is(entry, ENTRY_STATE.published)
  }

  resident(entry: number): boolean {
    return (this.directory.flags(entry) & RESIDENT) !== 0
  }

  guessed(entry: number): boolean {
    return (this.directory.flags(entry) & GUESSED) !== 0
  }

  setGuessed(entry: number, on: boolean): void {
    this.#setFlag(entry, GUESSED, on)
  }

  writing(entry: number): boolean {
    return (this.directory.flags(entry) & WRITING) !== 0
  }

  setWriting(entry: number, on: boolean): void {
    this.#setFlag(entry, WRITING, on)
  }

  onSsd(entry: number): boolean {
    return this.directory.extent(entry) >= 0
  }

  /** Memory for every granule that is resident, or being filled or assembled. */
  hasMemory(entry: number): boolean {
    return this.directory.dramSlot(entry) !== NONE && !this.#lacking.has(entry)
  }

  /** Pool bytes that allocate() would take. */
  lackingBytes(entry: number): number {
    if (this.directory.dramSlot(entry) === NONE) return this.dramBytes(entry)
    return this.#lacking.get(entry) ?? 0
  }

  /** What a granule of this entry takes in its extent, and what of that its checksum covers. */
  granule(entry: number, granule: number): StoredGranule {
    const { lengths, geometry } = this.shape(entry)
    if (lengths !== null) return lengths.granule(this.directory.crcSlot(entry), granule)
    const spec = geometry.granules[granule]
    invariant(spec !== undefined, 'a granule of this class', { granule })
    return spec
  }

  /** Whether what is stored of a granule is a coding of it. */
  encoded(entry: number, granule: number): boolean {
    return this.shape(entry).lengths?.encoded(this.directory.crcSlot(entry), granule) ?? false
  }

  /** Pool bytes of its DRAM replica. */
  dramBytes(entry: number): number {
    const { lengths, dramBytes } = this.shape(entry)
    return lengths === null ? dramBytes : lengths.dramBytes(this.directory.crcSlot(entry))
  }

  /** Bytes of its extent, without the alignment of the extent itself. */
  extentBytes(entry: number): number {
    const { lengths, geometry } = this.shape(entry)
    return lengths === null ? geometry.extentBytes : lengths.extentBytes(this.directory.crcSlot(entry))
  }

  /** Where a granule begins in its extent; may walk over those before it. */
  extentOffsetBytes(entry: number, granule: number): number {
    const { lengths, geometry } = this.shape(entry)
    if (lengths !== null) return lengths.extentOffsetBytes(this.directory.crcSlot(entry), granule)
    return geometry.granules[granule]?.extentOffsetBytes ?? geometry.extentBytes
  }

  evictable(entry: number): boolean {
    return this.resident(entry) && this.published(entry) && this.directory.interests(entry) === 0
  }

  /** A new entry for an absent key, assembling and without memory; -1: the directory is full. */
  insert(classId: number, keys: Uint8Array, keyIndex: number): number {
    const entry = this.directory.insert(classId, keys, keyIndex)
    if (entry === NONE) return NONE
    const { crcs, lengths } = this.#classes.get(classId)
    const slot = crcs.allocate()
    invariant(slot >= 0, 'every row of the directory has room for its checksums', { classId })
    lengths?.begin(slot)
    this.directory.setCrcSlot(entry, slot)
    return entry
  }

  hold(entry: number): void {
    if (this.directory.interests(entry) === 0) this.#engage(entry)
    this.directory.hold(entry)
    this.#interests++
  }

  drop(entry: number): void {
    this.directory.drop(entry)
    this.#interests--
    if (this.directory.interests(entry) === 0) this.#settle(entry)
  }

  /**
   * Memory for the DRAM replica, not resident yet, or for those granules of it that have none; false and nothing changed
   * when the pool has no room.
   */
  allocate(entry: number): boolean {
    if (this.#lacking.has(entry)) return this.#complete(entry)
    invariant(this.directory.dramSlot(entry) < 0, 'an entry has one DRAM replica', { entry })
    const slot = this.memory.allocate(this.shape(entry), this.#roomsOf(entry))
    if (slot < 0) return false
    const dramSlot = this.residents.add(entry, slot)
    if (dramSlot === NONE) {
      this.memory.free(this.shape(entry), slot)
      return false
    }
    this.directory.setDramSlot(entry, dramSlot)
    return true
  }

  /** A granule of an assembling entry has landed as `storedBytes`: room beyond them is given back. */
  coded(entry: number, granule: number, storedBytes: number): void {
    const shape = this.shape(entry)
    invariant(this.is(entry, ENTRY_STATE.assembling) && shape.lengths !== null, 'what is assembled finds its lengths', {
      entry,
    })
    const roomBytes = this.granule(entry, granule).bytes
    invariant(storedBytes <= roomBytes, 'a coding fits its room', { entry, granule, storedBytes, roomBytes })
    shape.lengths.set(this.directory.crcSlot(entry), granule, storedBytes)
    this.memory.shrink(shape, this.#granuleSlot(entry), granule, storedBytes)
  }

  /** A granule of an assembling entry will be as long as its item: its room goes, and allocate() takes another. */
  keepRaw(entry: number, granule: number): void {
    const shape = this.shape(entry)
    invariant(this.is(entry, ENTRY_STATE.assembling) && shape.lengths !== null, 'what is assembled finds its lengths', {
      entry,
    })
    shape.lengths.set(this.directory.crcSlot(entry), granule, shape.geometry.granules[granule]?.segmentBytes ?? 0)
    this.memory.release(shape, this.#granuleSlot(entry), granule)
    const lacking = this.#lacking.get(entry) ?? 0
    this.#lacking.set(entry, lacking + alignUp(this.granule(entry, granule).bytes, PAGE_BYTES))
  }

  /** Whether a granule of an entry that has memory has room in it. */
  hasRoom(entry: number, granule: number): boolean {
    return this.memory.hasRoom(this.shape(entry), this.#granuleSlot(entry), granule)
  }

  /** Gives memory back that never became resident. */
  deallocate(entry: number): void {
    invariant(!this.resident(entry), 'a DRAM replica in use is evicted, not deallocated', { entry })
    this.#freeMemory(entry)
  }

  offsetBytes(entry: number, granule: number): number {
    return this.memory.offsetBytes(this.shape(entry), this.#granuleSlot(entry), granule)
  }

  crc(entry: number, granule: number): number {
    return this.shape(entry).crcs.get(this.directory.crcSlot(entry), granule)
  }

  setCrc(entry: number, granule: number, crc32: number): void {
    this.shape(entry).crcs.set(this.directory.crcSlot(entry), granule, crc32)
  }

  /** An assembling entry becomes visible, in DRAM. */
  seal(entry: number): void {
    invariant(this.directory.interests(entry) > 0, 'an entry is held while it is sealed', { entry })
    this.directory.publish(entry)
    this.#becomeResident(entry)
  }

  /** A held entry's memory now holds every byte, verified. */
  filled(entry: number): void {
    invariant(this.directory.interests(entry) > 0, 'an entry is held while it is filled', { entry })
    this.#becomeResident(entry)
  }

  /** Drops the DRAM replica of an entry without interests; frees the entry when that was its last replica. */
  evict(entry: number): void {
    invariant(this.evictable(entry), 'only a resident, published entry without interests is evicted', { entry })
    this.#evictableBytes -= this.dramBytes(entry)
    this.#leaveDram(entry)
    if (!this.onSsd(entry)) this.#forget(entry)
  }

  /** A held entry's bytes are all on SSD: findable there, and pinned. */
  gainExtent(entry: number, shard: number, extent: number): void {
    invariant(this.directory.interests(entry) > 0, 'an entry is held while it is written', { entry })
    this.extents.shard(shard).publish(extent)
    this.extents.shard(shard).pin(extent)
    this.directory.setExtent(entry, shard, extent)
  }

  /** The allocator took the extent for a newer one; true when that was the last replica. */
  loseExtent(entry: number): boolean {
    invariant(this.directory.interests(entry) === 0, 'an extent in use is never overwritten', { entry })
    this.directory.clearExtent(entry)
    if (this.resident(entry)) return false
    this.#forget(entry)
    return true
  }

  /** Hides an entry for good; it is freed now or with its last interest. */
  hide(entry: number): void {
    if (this.evictable(entry)) this.#evictableBytes -= this.dramBytes(entry)
    this.directory.unindex(entry)
    if (this.directory.interests(entry) === 0) this.#free(entry)
  }

  /** The first interest: pin, and out of reach of eviction. */
  #engage(entry: number): void {
    if (this.evictable(entry)) this.#evictableBytes -= this.dramBytes(entry)
    const extent = this.directory.extent(entry)
    if (extent >= 0) this.extents.shard(this.directory.shard(entry)).pin(extent)
  }

  /** The last interest is gone. */
  #settle(entry: number): void {
    const extent = this.directory.extent(entry)
    if (extent >= 0) this.extents.shard(this.directory.shard(entry)).unpin(extent)
    if (this.is(entry, ENTRY_STATE.invalid)) this.#free(entry)
    else if (this.evictable(entry)) this.#evictableBytes += this.dramBytes(entry)
  }

  #becomeResident(entry: number): void {
    const slot = this.directory.dramSlot(entry)
    invariant(slot >= 0 && !this.resident(entry), 'memory becomes resident once', { entry })
    invariant(!this.#lacking.has(entry), 'what becomes resident has room for every granule', { entry })
    this.#setFlag(entry, RESIDENT, true)
    this.#residentBytes += this.dramBytes(entry)
    this.#residentBlocks++
  }

  #leaveDram(entry: number): void {
    if (this.resident(entry)) {
      this.onLeave(entry, this.directory.dramSlot(entry))
      this.#setFlag(entry, RESIDENT, false)
      this.#residentBytes -= this.dramBytes(entry)
      this.#residentBlocks--
    }
    this.#freeMemory(entry)
  }

  #setFlag(entry: number, flag: number, on: boolean): void {
    const flags = this.directory.flags(entry)
    this.directory.setFlags(entry, on ? flags | flag : flags & ~flag)
  }

  #complete(entry: number): boolean {
    if (!this.memory.complete(this.shape(entry), this.#granuleSlot(entry), this.#roomsOf(entry))) return false
    this.#lacking.delete(entry)
    return true
  }

  #roomsOf(entry: number): RoomOf {
    return (granule) => this.granule(entry, granule).bytes
  }

  #granuleSlot(entry: number): number {
    const slot = this.directory.dramSlot(entry)
    invariant(slot >= 0, 'rooms are asked of an entry that has memory', { entry })
    return this.residents.granuleSlot(slot)
  }

  #freeMemory(entry: number): void {
    const slot = this.directory.dramSlot(entry)
    this.memory.free(this.shape(entry), this.residents.granuleSlot(slot))
    this.#lacking.delete(entry)
    this.residents.remove(slot)
    this.directory.setDramSlot(entry, NONE)
  }

  #forget(entry: number): void {
    this.directory.unindex(entry)
    this.#free(entry)
  }

  /** Everything the row still owns goes, then the row. */
  #free(entry: number): void {
    if (this.directory.dramSlot(entry) >= 0) this.#leaveDram(entry)
    const extent = this.directory.extent(entry)
    if (extent >= 0) {
      this.extents.shard(this.directory.shard(entry)).release(extent)
      this.directory.clearExtent(entry)
    }
    this.shape(entry).crcs.free(this.directory.crcSlot(entry))
    this.directory.setCrcSlot(entry, NONE)
    this.directory.free(entry)
  }
}
