import type { Tally } from '../../shared/base/tally.js'
import { EvictionOrder } from '../../shared/cache/eviction-order.js'
import { FrequencySketch } from '../../shared/cache/frequency-sketch.js'
import { NONE } from '../../shared/directory/directory.js'
import { RESIDENT_CLASS, type ResidentClass } from '../../shared/directory/resident-table.js'
import { EVICTION_CLASS_COUNT, STORAGE_COUNT, STORAGE_HISTOGRAM } from '../storage/counters.js'
import type { Entries } from '../storage/entries.js'
import type { Allocation, CachePolicy, DropReport } from '../storage/ports.js'
import { Guesses } from './guesses.js'

/** Things that compete in the sketch of admission: at least so many that they rarely collide, at most 4 MiB of them. */
const SKETCH_ITEMS_MIN = 1024
const SKETCH_ITEMS_MAX = 2 ** 20

/**
 * Who may stay in DRAM: EvictionOrder says who goes first, nothing with interests goes. Eviction drops a replica; the
 * entry stays when the SSD has it too.
 */
export class DramCache {
  readonly order: EvictionOrder
  readonly guesses: Guesses
  readonly #entries: Entries
  readonly #tally: Tally
  readonly #sketch: FrequencySketch | null
  readonly #hashes = new Uint32Array(2)
  /** Since when each resident slot is resident, microseconds. */
  #sinceUs = new Float64Array(64)
  #nowUs = 0

  constructor(entries: Entries, tally: Tally, policy: CachePolicy, replicasMax: number) {
    this.#entries = entries
    this.#tally = tally
    this.guesses = new Guesses(tally)
    const { residents } = entries
    this.order = new EvictionOrder(
      residents,
      {
        bytes: (slot) => entries.dramBytes(residents.entry(slot)),
        idle: (slot) => entries.evictable(residents.entry(slot)),
      },
      policy.protectedBytesMax,
    )
    this.#sketch = policy.lfuAdmission
      ? new FrequencySketch(Math.max(SKETCH_ITEMS_MIN, Math.min(SKETCH_ITEMS_MAX, replicasMax)))
      : null
    entries.onLeave = (entry, slot) => this.#left(entry, slot)
  }

  /** Time of what follows. */
  tick(nowUs: number): void {
    this.#nowUs = nowUs
  }

  /** A request asked for, or an engine saved, the key that two hashes stand for. */
  asked(high: number, low: number): void {
    this.#sketch?.note(high, low)
  }

  /** The key of an entry is saved. */
  saved(entry: number): void {
    if (this.#sketch === null) return
    this.#entries.directory.hashesOf(entry, this.#hashes)
    this.#sketch.note(this.#hashes[0] as number, this.#hashes[1] as number)
  }

  /**
   * Pool memory that one entry lacks; evicts as long as that can help, and nothing when it cannot. `mayReject`: nobody waits
   * for the block, so it is weighed against the one that it would displace.
   */
  allocate(entry: number, mayReject: boolean): Allocation {
    const { memory } = this.#entries
    const needBytes = this.#entries.lackingBytes(entry)
    if (needBytes <= memory.pool.freeBytes + this.#entries.evictableBytes) {
      if (mayReject && needBytes > memory.pool.freeBytes && this.#colderThanVictim(entry)) {
        this.#tally.add(STORAGE_COUNT.admissionRejections, 1)
        return 'rejected'
      }
      while (needBytes > memory.pool.freeBytes) this.#evictNext()
      // Free bytes may still be cut into pieces shorter than a granule: then eviction goes on.
      do {
        if (this.#entries.allocate(entry)) return 'ok'
      } while (this.#evictNext())
    }
    this.#tally.add(STORAGE_COUNT.poolAllocFailures, 1)
    return 'no-memory'
  }

  /** An entry became resident. `read` null: an engine saved it; `guess`: read before anybody asked. */
  arrived(entry: number, read: { readonly guess: boolean; readonly demanded: boolean } | null): void {
    const slot = this.#entries.directory.dramSlot(entry)
    if (slot >= this.#sinceUs.length) {
      const longer = new Float64Array(Math.max(slot + 1, this.#sinceUs.length * 2))
      longer.set(this.#sinceUs)
      this.#sinceUs = longer
    }
    this.#sinceUs[slot] = this.#nowUs
    this.order.arrived(slot, read !== null && !read.demanded)
    if (read?.guess !== true) return
    this.#entries.setGuessed(entry, true)
    this.guesses.arrived(this.#bytes(entry))
  }

  /** A request uses a block that is in DRAM. */
  used(entry: number): void {
    this.order.used(this.#entries.directory.dramSlot(entry))
  }

  /** A block that is in DRAM was put into engine pages. */
  restored(entry: number): void {
    if (!this.#entries.guessed(entry)) return
    this.#entries.setGuessed(entry, false)
    this.guesses.restored(this.#bytes(entry), this.#waitUs(this.#entries.directory.dramSlot(entry)))
  }

  /** The evictable entry that goes next; NONE when there is none. */
  oldestEvictable(): number {
    const slot = this.order.victim()
    return slot === NONE ? NONE : this.#entries.residents.entry(slot)
  }

  /** Drops every DRAM replica that nobody needs. */
  drop(): DropReport {
    const { residents, memory } = this.#entries
    const usedBefore = memory.pool.usedBytes
    let evictedBlocks = 0
    let evictedBytes = 0
    let stillReferencedBlocks = 0
    for (const of of Object.values(RESIDENT_CLASS)) {
      for (let slot = residents.oldest(of); slot !== NONE; ) {
        const next = residents.newer(slot)
        const entry = residents.entry(slot)
        if (this.#entries.evictable(entry)) {
          evictedBlocks++
          evictedBytes += this.#bytes(entry)
          this.#evict(entry, STORAGE_HISTOGRAM.residenceCleanupUs)
        } else if (this.#entries.resident(entry)) {
          stillReferencedBlocks++
        }
        slot = next
      }
    }
    this.#tally.add(STORAGE_COUNT.evictionsStillReferenced, stillReferencedBlocks)
    return { evictedBlocks, evictedBytes, reclaimedBytes: usedBefore - memory.pool.usedBytes, stillReferencedBlocks }
  }

  #colderThanVictim(entry: number): boolean {
    if (this.#sketch === null) return false
    const victim = this.oldestEvictable()
    return victim !== NONE && this.#heat(this.#sketch, entry) < this.#heat(this.#sketch, victim)
  }

  #heat(sketch: FrequencySketch, entry: number): number {
    this.#entries.directory.hashesOf(entry, this.#hashes)
    return sketch.estimate(this.#hashes[0] as number, this.#hashes[1] as number)
  }

  #evictNext(): boolean {
    const entry = this.oldestEvictable()
    if (entry === NONE) return false
    this.#evict(entry, STORAGE_HISTOGRAM.residencePressureUs)
    return true
  }

  #evict(entry: number, reason: number): void {
    const slot = this.#entries.directory.dramSlot(entry)
    const of: ResidentClass = this.#entries.residents.classOf(slot)
    this.#tally.observe(reason, this.#waitUs(slot))
    this.#tally.add(STORAGE_COUNT.evictions, 1)
    this.#tally.add(EVICTION_CLASS_COUNT[of], 1)
    this.#tally.add(STORAGE_COUNT.evictionReclaimedBytes, this.#entries.dramBytes(entry))
    if (!this.#entries.onSsd(entry)) this.#tally.add(STORAGE_COUNT.blocksLost, 1)
    this.#entries.evict(entry)
  }

  /** A replica leaves DRAM, for whatever reason. */
  #left(entry: number, slot: number): void {
    this.order.leaving(slot)
    if (!this.#entries.guessed(entry)) return
    this.#entries.setGuessed(entry, false)
    this.guesses.unused(this.#bytes(entry), this.#waitUs(slot))
  }

  #bytes(entry: number): number {
    return this.#entries.extentBytes(entry)
  }

  #waitUs(slot: number): number {
    return this.#nowUs - (this.#sinceUs[slot] as number)
  }
}
