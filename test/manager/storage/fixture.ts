import type { GranuleRun, StorageOptions } from '../../../src/manager/storage/ports.js'
import { Storage } from '../../../src/manager/storage/storage.js'
import type { StorageParts } from '../../../src/manager/storage/tables.js'
import { KIB, MIB } from '../../../src/shared/base/units.js'
import { type ItemCoding, RAW, storedBytesOf } from '../../../src/shared/codec/coding.js'
import { NO_CODEC } from '../../../src/shared/codec/setting.js'
import type { GroupGeometry } from '../../../src/shared/layout/regions.js'
import { FakeLanes, FakeTally } from './lanes.js'

export const KEY_BYTES = 32

/** `count` keys; key i differs from key j in its first bytes. */
export function keysOf(...numbers: number[]): Uint8Array {
  const keys = new Uint8Array(numbers.length * KEY_BYTES)
  const view = new DataView(keys.buffer)
  numbers.forEach((number, index) => {
    view.setUint32(index * KEY_BYTES, number, true)
  })
  return keys
}

/** A group of `ranks` ranks with `perRank` granules of `bytes` each, `items` segments in every granule. */
export function geometryOf(shape: { ranks: number; perRank: number; bytes: number; items: number }): GroupGeometry {
  const { ranks, perRank, bytes, items } = shape
  const segmentBytes = bytes / items
  const granules = Array.from({ length: ranks * perRank }, (_, index) => ({
    rank: Math.floor(index / perRank),
    bytes,
    segmentBytes,
    segmentStrideBytes: segmentBytes,
    extentOffsetBytes: index * bytes,
    firstItem: (index % perRank) * items,
    itemCount: items,
    coding: RAW,
    expectedBytes: segmentBytes,
  }))
  return {
    group: 0,
    kind: 'full-attention',
    blockTokens: 64,
    windowTokens: 0,
    pageFirst: false,
    codec: NO_CODEC,
    granules,
    rankGranules: Array.from({ length: ranks }, (_, rank) => [rank * perRank, (rank + 1) * perRank] as const),
    extentBytes: granules.length * bytes,
    payloadBytes: granules.length * bytes,
    rankLayers: Array.from({ length: ranks }, () => []),
    layerFirstItem: Array.from({ length: ranks }, () => []),
  }
}

/** FP8 halves, and is exact about it; what ANS leaves of an item nobody knows before. */
export const FP8 = { format: 'fp8', scalar: 'bf16', role: 'packed', bits: 0, headDim: 0, seed: 0 } as const
export const ANS = { format: 'ans', scalar: 'bf16', role: 'none', bits: 0, headDim: 0, seed: 0 } as const

/** One rank whose granules are items of `bytes`, each with the coding of its place. */
export function codedGeometry(bytes: number, codings: readonly ItemCoding[]): GroupGeometry {
  const plain = geometryOf({ ranks: 1, perRank: codings.length, bytes, items: 1 })
  const granules = plain.granules.map((granule, index) => {
    const coding = codings[index] as ItemCoding
    return { ...granule, coding, expectedBytes: storedBytesOf(coding, bytes) }
  })
  return { ...plain, codec: { name: 'fp8' }, granules }
}

/** Everything that rank `rank` of a group has. */
export function runsOf(geometry: GroupGeometry, rank: number): GranuleRun[] {
  const [first, end] = geometry.rankGranules[rank] as readonly [number, number]
  const runs = []
  for (let granule = first; granule < end; granule++) {
    runs.push({ granule, firstItem: 0, itemCount: geometry.granules[granule]?.itemCount as number })
  }
  return runs
}

export const SMALL: StorageOptions = {
  poolBytes: 8 * 64 * KIB,
  entriesMax: 256,
  directorySeed: [1, 2],
  shards: [
    { file: 10, capacityBytes: MIB, store: 0, writer: 0 },
    { file: 11, capacityBytes: MIB, store: 1, writer: 1 },
  ],
  extentAlignmentBytes: 512,
  writeQueueBytesMax: 4 * 64 * KIB,
  writeWindowBytes: 2 * 64 * KIB,
  writeWindowBytesMin: 64 * KIB,
  writeWindowRestoreUs: 2_000,
  writePolicy: 'all',
  cache: { protectedBytesMax: 0, lfuAdmission: false },
  assemblyAgeUsMax: 1_000_000,
}

/** 64 KiB blocks of four 16 KiB granules on one rank. */
const FOUR = geometryOf({ ranks: 1, perRank: 4, bytes: 16 * KIB, items: 2 })

/** A storage with fake lanes and one class. */
export function fixture(options: Partial<StorageOptions> = {}, geometry = FOUR, parts?: StorageParts) {
  const lanes = new FakeLanes()
  const tally = new FakeTally()
  const all = { ...SMALL, ...options }
  const storage = parts === undefined ? new Storage(all, lanes, tally) : new Storage(all, lanes, tally, parts)
  const classId = storage.defineClass('aa', geometry)
  return { lanes, tally, storage, geometry, classId, options: all }
}

export type Fixture = ReturnType<typeof fixture>

/** The token of a granule of an entry: what FakeLanes keeps in place of its bytes. */
export function token(storage: Storage, entry: number, granule: number): string {
  return `${storage.generationOf(entry)}/${granule}`
}

/** Writes an entry's tokens to the pool, as copies from an engine would. */
export function land(of: Fixture, entry: number, runs: readonly number[]): void {
  for (let at = 0; at < runs.length; at += 3) {
    const granule = runs[at] as number
    of.lanes.pool.set(of.storage.granuleOffset(entry, granule), token(of.storage, entry, granule))
  }
  of.storage.landed(entry, runs, 0, runs.length)
}

/** Publishes key `number` whole: claim to seal. Returns the entry. */
export function publish(of: Fixture, number: number): number {
  const { storage, geometry, classId } = of
  const { entry, outcome } = storage.claim(classId, keysOf(number), 0)
  if (outcome !== 'new') throw new Error(`key ${number}: ${outcome}`)
  if (storage.allocate(entry) !== 'ok') throw new Error(`key ${number}: no memory`)
  const runs: number[] = []
  storage.contribute(entry, runsOf(geometry, 0), runs)
  land(of, entry, runs)
  geometry.granules.forEach((_, granule) => {
    storage.setCrc(entry, granule, 1000 + granule)
  })
  storage.seal(entry)
  return entry
}

/** The published entry of key `number`, or -1. */
export function find(of: Fixture, number: number): number {
  const entries = new Int32Array(1)
  of.storage.lookup(of.classId, keysOf(number), 1, entries)
  return entries[0] as number
}
