import { randomFillSync } from 'node:crypto'
import { Entries } from '../src/manager/storage/entries.js'
import { tablesOf } from '../src/manager/storage/tables.js'
import { KIB, SECTOR_BYTES, TIB } from '../src/shared/base/units.js'
import { NO_CODEC } from '../src/shared/codec/setting.js'
import { buildRank } from '../src/shared/layout/geometry.js'
import { buildGroup } from '../src/shared/layout/granules.js'
import type { GroupGeometry, RegionSpec } from '../src/shared/layout/regions.js'
import type { BenchOptions } from './support/options.js'
import { estimate, quantile, ratios, rounded } from './support/statistics.js'

/**
 * Question: what does a group on SSD cost in memory, and how long does the lookup of a prefix of 512 keys take when
 * nothing of it is in a cache? 10 million groups of 72 segments (36 layers, K and V), as the storage keeps them:
 * directory row and index, extent, checksums. Control: a Map from hex text to one object a group, with a tenth of the
 * groups (ten million do not fit a default heap), batch by batch in turns.
 * Does not show: DRAM slots and leases, a query's other work, or a machine with other work on it.
 */

const GROUPS = 10_000_000
const GROUPS_QUICK = 500_000
const CONTROL_SHARE = 10
const KEYS = 512
/** Lookups of one pair: the pair's time is their median. */
const LOOKUPS = 40
const KEY_BYTES = 32
const LAYERS = 36
const SEGMENT_BYTES = 32 * KIB

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const groups = options.quick ? GROUPS_QUICK : GROUPS
  const geometry = geometryOf()
  const segments = geometry.granules.reduce((sum, granule) => sum + granule.itemCount, 0)
  const keys = randomFillSync(Buffer.alloc(groups * KEY_BYTES))
  const table = fillTables(groups, geometry, keys)
  say(
    `${groups} groups of ${segments} segments in ${geometry.granules.length} granules: ` +
      `${table.bytesPerGroup.toFixed(1)} bytes a group and ${table.crcBytesPerGroup.toFixed(1)} of checksums, ` +
      `${table.insertNs.toFixed(0)} ns an insert`,
  )
  const control = fillMap(Math.floor(groups / CONTROL_SHARE), keys)

  const times = { table: [] as number[], map: [] as number[], absent: [] as number[] }
  const p99: number[] = []
  for (let pair = 0; pair < options.pairs; pair++) {
    const pairTimes = { table: [] as number[], map: [] as number[], absent: [] as number[] }
    for (let lookup = 0; lookup < LOOKUPS; lookup++) {
      pairTimes.table.push(timed(table.lookup, pick(keys, groups), KEYS))
      pairTimes.map.push(timed(control.lookup, pick(keys, control.groups), KEYS))
      pairTimes.absent.push(timed(table.lookup, randomFillSync(Buffer.alloc(KEYS * KEY_BYTES)), 0))
    }
    for (const side of ['table', 'map', 'absent'] as const) times[side].push(quantile(pairTimes[side], 0.5))
    p99.push(quantile(pairTimes.table, 0.99))
  }
  const present = estimate(times.table)
  const absent = estimate(times.absent)
  const map = estimate(times.map)
  const ratio = ratios(times.table, times.map)
  say(
    `512 keys: ${rounded(present.median)} us [${rounded(present.low)}..${rounded(present.high)}], ` +
      `absent ${rounded(absent.median)} us; Map of ${control.groups} objects ${rounded(map.median)} us and ` +
      `${control.bytesPerGroup.toFixed(0)} bytes a group; ratio ${rounded(ratio.median)}`,
  )
  return {
    groups,
    segments,
    granules: geometry.granules.length,
    bytesPerGroup: rounded(table.bytesPerGroup),
    crcBytesPerGroup: rounded(table.crcBytesPerGroup),
    insertNs: rounded(table.insertNs),
    prefix512Us: rounded(present.median),
    prefix512UsLow: rounded(present.low),
    prefix512UsHigh: rounded(present.high),
    prefix512UsP99: rounded(estimate(p99).median),
    absent512Us: rounded(absent.median),
    control: {
      groups: control.groups,
      bytesPerGroup: rounded(control.bytesPerGroup),
      prefix512Us: rounded(map.median),
      ratio: rounded(ratio.median),
    },
  }
}

/** 36 layers whose K and V lie apart. */
function geometryOf(): GroupGeometry {
  const regions = Array.from({ length: LAYERS }, (_, layer): RegionSpec => {
    const [pageCount, segmentBytes] = [64, SEGMENT_BYTES]
    return {
      layer: `layer.${String(layer).padStart(3, '0')}`,
      ...{ group: 0, allocation: 0, segments: 2, pageCount, segmentBytes },
      pageStrideBytes: segmentBytes,
      segmentStrideBytes: segmentBytes * pageCount,
      offsetBytes: layer * 2 * segmentBytes * pageCount,
      ...{ dtype: 'bfloat16', kvRole: 'packed', headDim: 128, heads: 8 },
    }
  })
  const groups = [{ kind: 'full-attention', blockTokens: 16, windowTokens: 0 } as const]
  const allocationBytes = [LAYERS * 2 * SEGMENT_BYTES * 64]
  const rank = buildRank({
    ...{ tpRank: 0, ppRank: 0, pageFirst: false, codec: NO_CODEC, device: 'host', paddingBytes: SECTOR_BYTES },
    ...{ regions, groups, allocationBytes, allocationOffsetBytes: [] },
  })
  if ('refused' in rank || !('layers' in rank)) throw new Error(`the geometry is refused: ${JSON.stringify(rank)}`)
  return buildGroup([rank], 0, groups[0] as (typeof groups)[0])
}

/** The Manager's own tables, filled as a save to SSD and an eviction from DRAM leave them. */
function fillTables(groups: number, geometry: GroupGeometry, keys: Uint8Array) {
  const bytes = groups * geometry.extentBytes
  const shards = Math.ceil(bytes / TIB)
  const capacityBytes = Math.ceil(groups / shards) * geometry.extentBytes
  const tables = tablesOf({
    poolBytes: geometry.extentBytes * 16,
    entriesMax: groups,
    directorySeed: [0x1234567, 0x89abcde],
    shards: Array.from({ length: shards }, (_, file) => ({ file, capacityBytes, store: 0, writer: 0 })),
    extentAlignmentBytes: SECTOR_BYTES,
    ...{ writeQueueBytesMax: 0, writeWindowBytes: 0, writeWindowBytesMin: 0, writeWindowRestoreUs: 0 },
    writePolicy: 'all',
    cache: { protectedBytesMax: 0, lfuAdmission: false },
    assemblyAgeUsMax: 0,
  })
  const { directory, extents, classes } = tables
  const entries = new Entries(tables)
  const classId = classes.define('bench', geometry)
  const evicted: number[] = []
  const startMs = performance.now()
  for (let group = 0; group < groups; group++) {
    const entry = entries.insert(classId, keys, group)
    const place = extents.reserve(geometry.extentBytes, entry, evicted)
    if ('refused' in place) throw new Error(`group ${group} has no extent: ${place.refused}`)
    extents.shard(place.shard).publish(place.extent)
    directory.setExtent(entry, place.shard, place.extent)
    directory.publish(entry)
  }
  const insertNs = ((performance.now() - startMs) * 1e6) / groups
  if (evicted.length > 0) throw new Error(`${evicted.length} groups lost their extents`)
  let extentBytes = 0
  for (let shard = 0; shard < shards; shard++) extentBytes += extents.shard(shard).bytesReserved
  const found = new Int32Array(KEYS)
  return {
    bytesPerGroup: (directory.bytesReserved + extentBytes) / groups,
    crcBytesPerGroup: classes.get(classId).crcs.bytesReserved / groups,
    insertNs,
    lookup: (batch: Uint8Array) => directory.lookup(classId, batch, KEYS, found),
  }
}

function fillMap(groups: number, keys: Buffer) {
  const before = process.memoryUsage().heapUsed
  const map = new Map<string, object>()
  for (let group = 0; group < groups; group++) {
    const columns = { state: 1, flags: 0, interests: 0, shard: 0, extent: group, dramSlot: -1, crcSlot: group }
    map.set(keys.toString('hex', group * KEY_BYTES, (group + 1) * KEY_BYTES), { ...columns, generation: group })
  }
  return {
    groups,
    bytesPerGroup: (process.memoryUsage().heapUsed - before) / groups,
    lookup(batch: Buffer) {
      let found = 0
      for (let key = 0; key < KEYS; key++) {
        if (map.has(batch.toString('hex', key * KEY_BYTES, (key + 1) * KEY_BYTES))) found++
      }
      return found
    },
  }
}

/** 512 keys of the first `groups`, each anywhere. */
function pick(keys: Buffer, groups: number): Buffer {
  const batch = Buffer.alloc(KEYS * KEY_BYTES)
  for (let key = 0; key < KEYS; key++) {
    const from = Math.floor(Math.random() * groups) * KEY_BYTES
    keys.copy(batch, key * KEY_BYTES, from, from + KEY_BYTES)
  }
  return batch
}

function timed(lookup: (batch: Buffer) => number, batch: Buffer, expected: number): number {
  const startMs = performance.now()
  const found = lookup(batch)
  const us = (performance.now() - startMs) * 1000
  if (found !== expected) throw new Error(`found ${found} keys of ${expected}`)
  return us
}
