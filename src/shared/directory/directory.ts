import { invariant } from '../base/invariant.js'
import { Chains } from './chains.js'
import { type HashSeed, hashKey, KEY_BYTES, KEY_WORDS, secondHash } from './key-hash.js'
import { WordRows } from './word-rows.js'

/**
 * The directory: every generation of every key, one row each, no JavaScript object a group.
 *
 * It owns rows, their index and the generation counter. It never touches bytes of pages, never decides what to evict,
 * and knows no lease: its callers hold and drop interests. At most one row of a (class, key) is indexed at a time.
 *
 *   word  0 ... 7    8        9                 10     11       12                    13       14
 *        +-----------+--------+-----------------+------+--------+---------------------+--------+----------------------+
 *        | key       | gen    | gen high 16 |   | link | extent | shard 8 | dram 24   | crc    | state 2 | flags 6 |  |
 *        | 32 bytes  | low 32 | class 16        |      | + 1    | slot + 1            | slot+1 | interests 24         |
 *        +-----------+--------+-----------------+------+--------+---------------------+--------+----------------------+
 *
 * 60 bytes a row and 4 bytes of index. Rows and buckets grow in bounded steps (see WordRows, Chains): no insert ever
 * pays for a rehash.
 */

/** What a row is. Values are stored. */
export const ENTRY_STATE = { free: 0, assembling: 1, published: 2, invalid: 3 } as const
export type EntryState = (typeof ENTRY_STATE)[keyof typeof ENTRY_STATE]

/** Stands for "no entry", "no extent" and "no slot". */
export const NONE = -1

const ROW_WORDS = 15
const GENERATION_LOW = 8
const GENERATION_HIGH_CLASS = 9
const LINK = 10
const EXTENT = 11
const SHARD_DRAM = 12
const CRC = 13
const STATE_FLAGS_INTERESTS = 14

/** Rows that a directory can have: leaves at least 4 bits of tag in a link. */
export const ENTRIES_MAX = 2 ** 27 - 1
export const CLASSES_MAX = 2 ** 16
export const SHARDS_MAX = 2 ** 8
export const DRAM_SLOTS_MAX = 2 ** 24 - 1
export const INTERESTS_MAX = 2 ** 24 - 1
export const GENERATION_MAX = 2 ** 48 - 1
const FLAGS_MASK = 0x3f
/** Keys staged at once by a lookup: 16 KiB, which stay in the first cache level. */
const BATCH = 512

export interface DirectoryOptions {
  readonly entriesMax: number
  readonly seed: HashSeed
  /** First generation given out; tests start near the limit. */
  readonly firstGeneration?: number
}

export class Directory {
  readonly capacity: number
  protected readonly rows: WordRows
  private readonly chains: Chains
  private readonly seed0: number
  private readonly seed1: number
  private nextGeneration: number
  private rowsTouched = 0
  private freeHead = 0
  private rowsLive = 0
  private rowsIndexed = 0
  // Staging of one batch: keys copied here are aligned, whatever frame they came in.
  private readonly stagedBytes = new Uint8Array(BATCH * KEY_BYTES)
  protected readonly staged = new Uint32Array(this.stagedBytes.buffer)
  private readonly tags = new Uint32Array(BATCH)
  private readonly links = new Uint32Array(BATCH)
  /** Keeps the reads of touchRows from being dropped as unused. */
  protected touched = 0
  private readonly pending = new Uint16Array(BATCH)

  constructor(options: DirectoryOptions) {
    const { entriesMax, seed, firstGeneration = 1 } = options
    invariant(entriesMax >= 1 && entriesMax <= ENTRIES_MAX, 'a directory has 1 to 2^27 - 1 entries', { entriesMax })
    this.capacity = entriesMax
    this.seed0 = seed[0] >>> 0
    this.seed1 = seed[1] >>> 0
    this.nextGeneration = firstGeneration
    this.rows = new WordRows(ROW_WORDS, entriesMax)
    this.chains = new Chains(this.rows, LINK, (entry) => this.hashOfRow(entry))
  }

  /** Rows in use, indexed or not. */
  get live(): number {
    return this.rowsLive
  }

  /** Rows that a lookup can find. */
  get indexed(): number {
    return this.rowsIndexed
  }

  get bytesReserved(): number {
    return this.rows.bytesReserved + this.chains.bytesReserved
  }

  /**
   * Finds the indexed entries of `count` keys of 32 bytes each, in any state; NONE for absent ones. Works in passes
   * (hash all, read all bucket heads, then compare all candidates, chain link by chain link), so that the cache misses
   * of different keys overlap. Returns how many were found.
   */
  lookup(classId: number, keys: Uint8Array, count: number, entries: Int32Array): number {
    invariant(keys.length >= count * KEY_BYTES && entries.length >= count, 'keys and entries hold count', { count })
    let found = 0
    for (let first = 0; first < count; first += BATCH) {
      const size = Math.min(BATCH, count - first)
      this.stage(keys, first, size)
      this.readHeads(classId, size)
      found += this.resolve(classId, first, size, entries)
    }
    return found
  }

  /**
   * Makes an entry (state assembling, a new generation, no interests) for a key that is not indexed, which the caller
   * has just looked up. NONE when all rows are in use or generations are exhausted.
   */
  insert(classId: number, keys: Uint8Array, keyIndex: number): number {
    invariant(classId >= 0 && classId < CLASSES_MAX, 'a class id has 16 bits', { classId })
    this.stage(keys, keyIndex, 1)
    this.readHeads(classId, 1)
    this.resolve(classId, 0, 1, this.one)
    invariant(this.one[0] === NONE, 'a key has at most one indexed entry', { classId, entry: this.one[0] as number })
    if (this.nextGeneration > GENERATION_MAX) return NONE
    const entry = this.takeRow()
    if (entry === NONE) return NONE
    const generation = this.nextGeneration++
    const segment = this.rows.segmentOf(entry)
    const word = this.rows.wordOf(entry)
    for (let index = 0; index < KEY_WORDS; index++) segment[word + index] = this.staged[index] as number
    segment[word + GENERATION_LOW] = generation
    segment[word + GENERATION_HIGH_CLASS] = Math.floor(generation / 2 ** 32) * 2 ** 16 + classId
    segment[word + EXTENT] = 0
    segment[word + SHARD_DRAM] = 0
    segment[word + CRC] = 0
    segment[word + STATE_FLAGS_INTERESTS] = ENTRY_STATE.assembling
    this.rowsIndexed++
    this.chains.add(entry, this.hashOfRow(entry), this.rowsIndexed)
    return entry
  }

  /** Hides an entry for good (state invalid): its key may be inserted again, as another generation. */
  unindex(entry: number): void {
    const state = this.state(entry)
    invariant(state === ENTRY_STATE.assembling || state === ENTRY_STATE.published, 'only an indexed entry is hidden', {
      entry,
      state,
    })
    const removed = this.chains.remove(entry, this.hashOfRow(entry))
    invariant(removed, 'an indexed entry is in its chain', { entry })
    this.rowsIndexed--
    this.writeState(entry, ENTRY_STATE.invalid)
  }

  /** Gives the row back. The entry is hidden, nobody holds it, and it names no extent and no slot any more. */
  free(entry: number): void {
    invariant(this.state(entry) === ENTRY_STATE.invalid, 'only a hidden entry is freed', { entry })
    invariant(this.interests(entry) === 0, 'an entry is freed at zero interests', { entry })
    const bare = this.extent(entry) === NONE && this.dramSlot(entry) === NONE && this.crcSlot(entry) === NONE
    invariant(bare, 'a freed entry holds no extent and no slot', { entry })
    this.rows.set(entry, STATE_FLAGS_INTERESTS, ENTRY_STATE.free)
    this.rows.set(entry, LINK, this.freeHead)
    this.freeHead = entry + 1
    this.rowsLive--
  }

  /** Makes an assembling entry visible. */
  publish(entry: number): void {
    invariant(this.state(entry) === ENTRY_STATE.assembling, 'only an assembling entry is published', { entry })
    this.writeState(entry, ENTRY_STATE.published)
  }

  state(entry: number): EntryState {
    return (this.rows.get(entry, STATE_FLAGS_INTERESTS) & 3) as EntryState
  }

  /** Six bits whose meaning belongs to the owner of the directory. */
  flags(entry: number): number {
    return (this.rows.get(entry, STATE_FLAGS_INTERESTS) >>> 2) & FLAGS_MASK
  }

  setFlags(entry: number, flags: number): void {
    invariant((flags & ~FLAGS_MASK) === 0, 'flags have six bits', { flags })
    const word = this.rows.get(entry, STATE_FLAGS_INTERESTS)
    this.rows.set(entry, STATE_FLAGS_INTERESTS, (word & ~(FLAGS_MASK << 2)) | (flags << 2))
  }

  interests(entry: number): number {
    return this.rows.get(entry, STATE_FLAGS_INTERESTS) >>> 8
  }

  /** One more needs the entry's bytes. */
  hold(entry: number): void {
    const word = this.rows.get(entry, STATE_FLAGS_INTERESTS)
    invariant((word & 3) !== ENTRY_STATE.free, 'a free row has no interests', { entry })
    invariant(word >>> 8 < INTERESTS_MAX, 'interests have 24 bits', { entry })
    this.rows.set(entry, STATE_FLAGS_INTERESTS, word + 256)
  }

  /** One fewer; returns how many remain. */
  drop(entry: number): number {
    const word = this.rows.get(entry, STATE_FLAGS_INTERESTS)
    invariant(word >>> 8 > 0, 'an interest is dropped once', { entry })
    this.rows.set(entry, STATE_FLAGS_INTERESTS, word - 256)
    return (word >>> 8) - 1
  }

  /** Monotonic over the life of the directory, never reused, at least 1. */
  generation(entry: number): number {
    const high = this.rows.get(entry, GENERATION_HIGH_CLASS) >>> 16
    return high * 2 ** 32 + this.rows.get(entry, GENERATION_LOW)
  }

  classId(entry: number): number {
    return this.rows.get(entry, GENERATION_HIGH_CLASS) & 0xffff
  }

  /** Writes the 32 bytes of the key to `target` at byte `at`. */
  copyKey(entry: number, target: Uint8Array, at: number): void {
    const segment = this.rows.segmentOf(entry)
    const first = this.rows.wordOf(entry)
    target.set(new Uint8Array(segment.buffer, segment.byteOffset + first * 4, KEY_BYTES), at)
  }

  /** Two independent uint32 for each of `count` keys, from word `at` of `target` on: what sketches are shown. */
  hashKeys(classId: number, keys: Uint8Array, count: number, target: Uint32Array, at: number): void {
    for (let first = 0; first < count; first += BATCH) {
      const size = Math.min(BATCH, count - first)
      this.stage(keys, first, size)
      for (let index = 0; index < size; index++) {
        const hash = hashKey(this.staged, index * KEY_WORDS, classId, this.seed0, this.seed1)
        target[at + 2 * (first + index)] = hash
        target[at + 2 * (first + index) + 1] = secondHash(hash, this.staged[index * KEY_WORDS] as number)
      }
    }
  }

  /** The same two numbers for the key of an entry. */
  hashesOf(entry: number, target: Uint32Array): void {
    const hash = this.hashOfRow(entry)
    target[0] = hash
    target[1] = secondHash(hash, this.rows.segmentOf(entry)[this.rows.wordOf(entry)] as number)
  }

  /** SSD replica: extent id inside its shard, or NONE. */
  extent(entry: number): number {
    return this.rows.get(entry, EXTENT) - 1
  }

  /** Shard of the SSD replica; meaningful while there is an extent. */
  shard(entry: number): number {
    return this.rows.get(entry, SHARD_DRAM) >>> 24
  }

  setExtent(entry: number, shard: number, extent: number): void {
    invariant(shard >= 0 && shard < SHARDS_MAX && extent >= 0 && extent < 2 ** 32 - 1, 'shard 8 bits, extent 32', {
      shard,
      extent,
    })
    this.rows.set(entry, EXTENT, extent + 1)
    this.rows.set(entry, SHARD_DRAM, (shard << 24) | (this.rows.get(entry, SHARD_DRAM) & 0xffffff))
  }

  clearExtent(entry: number): void {
    this.rows.set(entry, EXTENT, 0)
  }

  /** DRAM replica: slot of a ResidentTable, or NONE. */
  dramSlot(entry: number): number {
    return (this.rows.get(entry, SHARD_DRAM) & 0xffffff) - 1
  }

  setDramSlot(entry: number, slot: number): void {
    invariant(slot >= NONE && slot < DRAM_SLOTS_MAX, 'a DRAM slot has 24 bits', { slot })
    this.rows.set(entry, SHARD_DRAM, (this.rows.get(entry, SHARD_DRAM) & 0xff000000) | (slot + 1))
  }

  /** Checksums: slot of the class's GranuleSlab, or NONE. */
  crcSlot(entry: number): number {
    return this.rows.get(entry, CRC) - 1
  }

  setCrcSlot(entry: number, slot: number): void {
    this.rows.set(entry, CRC, slot + 1)
  }

  /** Calls `each` for every row in use: for inspection, censuses and tests, not for the hot path. */
  forEach(each: (entry: number) => void): void {
    for (let entry = 0; entry < this.rowsTouched; entry++) {
      if (this.state(entry) !== ENTRY_STATE.free) each(entry)
    }
  }

  private readonly one = new Int32Array(1)

  private writeState(entry: number, state: EntryState): void {
    this.rows.set(entry, STATE_FLAGS_INTERESTS, (this.rows.get(entry, STATE_FLAGS_INTERESTS) & ~3) | state)
  }

  private hashOfRow(entry: number): number {
    const segment = this.rows.segmentOf(entry)
    return hashKey(segment, this.rows.wordOf(entry), this.classId(entry), this.seed0, this.seed1)
  }

  private takeRow(): number {
    let entry = this.freeHead - 1
    if (entry !== NONE) this.freeHead = this.rows.get(entry, LINK)
    else {
      if (this.rowsTouched === this.capacity) return NONE
      entry = this.rowsTouched++
      this.rows.reach(entry)
    }
    this.rowsLive++
    return entry
  }

  private stage(keys: Uint8Array, first: number, size: number): void {
    this.stagedBytes.set(keys.subarray(first * KEY_BYTES, (first + size) * KEY_BYTES))
  }

  /** Hashes every staged key, then reads every head: the reads have nothing between them and overlap. */
  private readHeads(classId: number, size: number): void {
    const { chains, staged, tags, links } = this
    for (let index = 0; index < size; index++) {
      const hash = hashKey(staged, index * KEY_WORDS, classId, this.seed0, this.seed1)
      tags[index] = chains.tag(hash)
      links[index] = chains.bucket(hash)
    }
    for (let index = 0; index < size; index++) links[index] = chains.head(links[index] as number)
    this.touched = this.touchRows(size)
  }

  /** Reads both ends of every candidate's row. Nothing branches on what is read, so that these misses overlap too. */
  private touchRows(size: number): number {
    const { chains, links, rows } = this
    let touched = 0
    for (let index = 0; index < size; index++) {
      const link = links[index] as number
      if (link === 0) continue
      const entry = chains.entryOf(link)
      touched ^= rows.get(entry, 0) ^ rows.get(entry, LINK)
    }
    return touched
  }

  /** Follows all chains side by side, one link each a round, until every staged key is found or absent. */
  private resolve(classId: number, first: number, size: number, entries: Int32Array): number {
    const { chains, tags, links, pending } = this
    let found = 0
    for (let index = 0; index < size; index++) pending[index] = index
    for (let left = size; left > 0; ) {
      let kept = 0
      for (let at = 0; at < left; at++) {
        const index = pending[at] as number
        const link = links[index] as number
        const entry = chains.entryOf(link)
        if (link !== 0 && chains.tagOf(link) === tags[index] && this.matches(entry, classId, index)) {
          entries[first + index] = entry
          found++
        } else if (link === 0 || chains.isLast(link)) entries[first + index] = NONE
        else {
          links[index] = chains.next(entry)
          pending[kept++] = index
        }
      }
      left = kept
    }
    return found
  }

  /** Whether a row is the staged key of this class. Protected so that a test can plant a bug. */
  protected matches(entry: number, classId: number, index: number): boolean {
    const segment = this.rows.segmentOf(entry)
    const row = this.rows.wordOf(entry)
    const key = index * KEY_WORDS
    for (let word = 0; word < KEY_WORDS; word++) {
      if (segment[row + word] !== this.staged[key + word]) return false
    }
    return ((segment[row + GENERATION_HIGH_CLASS] as number) & 0xffff) === classId
  }
}
