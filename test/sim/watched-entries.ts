import { PoolMemory } from '../../src/manager/cache/pool-memory.js'
import { Entries, type EntryTables } from '../../src/manager/storage/entries.js'
import type { StorageOptions } from '../../src/manager/storage/ports.js'
import type { Storage } from '../../src/manager/storage/storage.js'
import { type StorageParts, tablesOf } from '../../src/manager/storage/tables.js'
import { alignUp, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { ExtentStore } from '../../src/shared/extents/extent-store.js'
import type { ManagerProcess } from './manager-process.js'
import { keyBytes, type Model } from './model.js'
import { WatchedPool } from './pool.js'
import { type Shard, WatchedShard } from './shard.js'
import { codingOf } from './toy-coding.js'
import { must } from './violation.js'

/** Keys that a world may use: chains of blocks. */
export const CHAINS = 3
export const CHAIN_BLOCKS = 8

/** The chain of a command: the first one more often than the last, so that chains meet again. */
export function chainOf(choice: number): number {
  return Math.min((choice >> 3) % CHAINS, (choice >> 7) % CHAINS)
}

/** Keys of phase two, which no script publishes. */
export const PROBE_CHAIN = CHAINS
const KEYS = (CHAINS + 1 + 64) * CHAIN_BLOCKS

const NUMBERS = new Map<number, number>()
for (let key = 0; key < KEYS; key++) {
  const bytes = new Uint8Array(32)
  keyBytes(key, bytes, 0)
  NUMBERS.set(new DataView(bytes.buffer).getUint32(0, true), key)
}

const scratch = new Uint8Array(32)
const view = new DataView(scratch.buffer)

/** The number of an entry's key. */
export function keyOf(storage: { readonly entries: Entries } | Storage, entry: number): number {
  return keyIn(storage.entries, entry)
}

function keyIn(entries: Entries, entry: number): number {
  entries.directory.copyKey(entry, scratch, 0)
  const key = NUMBERS.get(view.getUint32(0, true))
  must(key !== undefined, 'V1', () => `entry ${entry} has a key that nobody uses`)
  return key as number
}

/** Entries as a twin may break them: a class over the watched one. */
export type EntriesMixin = (base: typeof WatchedEntries) => typeof WatchedEntries

/** Which model a storage class is of: known from who was registering when it was defined. */
interface ClassOwner {
  readonly model: Model
  readonly group: number
}

/** Entries under watch: generations rise, and what becomes visible is read and remembered. */
export class WatchedEntries extends Entries {
  /** The process whose entries these are. */
  readonly world: ManagerProcess
  readonly owners = new Map<number, ClassOwner>()

  constructor(tables: EntryTables, world: ManagerProcess) {
    super(tables)
    this.world = world
  }

  override insert(classId: number, keys: Uint8Array, keyIndex: number): number {
    const entry = super.insert(classId, keys, keyIndex)
    if (entry >= 0) this.world.truth.claimed(this.directory.generation(entry))
    return entry
  }

  override seal(entry: number): void {
    super.seal(entry)
    this.#mustTakeNoMore(entry)
    const { granules } = this.shape(entry).geometry
    const owner = this.#owner(entry)
    this.world.truth.seal({
      generation: this.directory.generation(entry),
      model: owner.model,
      group: owner.group,
      key: keyIn(this, entry),
      granules: granules.map(({ rank, segmentBytes, segmentStrideBytes, itemCount, coding }, granule) => ({
        rank,
        storedBytes: this.granule(entry, granule).segmentBytes,
        crc: this.crc(entry, granule),
        coding: codingOf(coding),
        segmentBytes,
        segmentStrideBytes,
        itemCount,
        poolOffsetBytes: this.offsetBytes(entry, granule),
      })),
    })
  }

  override hide(entry: number): void {
    if (this.published(entry)) this.world.hides++
    super.hide(entry)
  }

  override coded(entry: number, granule: number, storedBytes: number): void {
    const { pool } = this.memory
    const before = pool.usedBytes
    super.coded(entry, granule, storedBytes)
    if (pool.usedBytes < before) this.world.world.faults.fired('room-shrunk')
  }

  override keepRaw(entry: number, granule: number): void {
    this.world.world.faults.fired('kept-raw')
    super.keepRaw(entry, granule)
  }

  override gainExtent(entry: number, shard: number, extent: number): void {
    const { extents } = this
    const of = extents.shard(shard)
    const file = this.world.fileOf(shard)
    this.world.staging?.extents.mustBeWhole(file, of.offsetBytes(extent), of.bytes(extent), 'becomes visible')
    this.#mustFit(entry, of.bytes(extent), of.alignmentBytes)
    super.gainExtent(entry, shard, extent)
  }

  /** Everything stored of it, in whole sectors, and no more than that: lengths are those of this generation. */
  #mustFit(entry: number, extentBytes: number, alignmentBytes: number): void {
    const { granules } = this.shape(entry).geometry
    const bytes = granules.reduce(
      (sum, { itemCount }, granule) =>
        sum + itemCount * alignUp(this.granule(entry, granule).segmentBytes, SECTOR_BYTES),
      0,
    )
    must(
      extentBytes === alignUp(bytes, alignmentBytes),
      'V2',
      () => `${bytes} bytes of entry ${entry} are in an extent of ${extentBytes}`,
    )
  }

  /** Memory of a sealed entry: whole pages for what is stored of each granule, and none besides. */
  #mustTakeNoMore(entry: number): void {
    for (const [granule, { itemCount }] of this.shape(entry).geometry.granules.entries()) {
      const stored = itemCount * alignUp(this.granule(entry, granule).segmentBytes, SECTOR_BYTES)
      const taken = this.memory.pool.bytesAt(this.offsetBytes(entry, granule))
      must(
        taken === alignUp(stored, PAGE_BYTES),
        'O1',
        () => `granule ${granule} of entry ${entry} stores ${stored} bytes in ${taken} of the pool`,
      )
    }
  }

  #owner(entry: number): ClassOwner {
    const owner = this.owners.get(this.directory.classId(entry))
    must(owner !== undefined, 'V1', () => `entry ${entry} is of a class that nobody registered`)
    return owner as ClassOwner
  }
}

/** Storage parts with the watched pool, shards and entries in place of the plain ones. */
export function watchedParts(world: ManagerProcess, options: StorageOptions, shards: readonly Shard[]): StorageParts {
  const tables = tablesOf(options)
  const watched: EntryTables = {
    ...tables,
    extents: new ExtentStore(
      shards.map((shard) => new WatchedShard(shard, options.extentAlignmentBytes, options.entriesMax, world.flights)),
    ),
    memory: new PoolMemory(new WatchedPool(world.pool, world.engaged.pool, world.flights)),
  }
  const Base = world.twin.entries?.(WatchedEntries) ?? WatchedEntries
  const entries = new Base(watched, world)
  const define = tables.classes.define.bind(tables.classes)
  tables.classes.define = (namespaceHex, geometry) => {
    const classId = define(namespaceHex, geometry)
    const model = (world.wire.current?.peer as { model?: Model } | undefined)?.model
    must(model !== undefined, 'X7', () => 'a class is defined while nobody registers')
    const known = entries.owners.get(classId)
    // Two models never share a class: their namespaces differ.
    must(known === undefined || known.model === model, 'X7', () => `class ${classId} belongs to two models`)
    entries.owners.set(classId, { model: model as Model, group: geometry.group })
    return classId
  }
  return { entries, classes: tables.classes }
}
