import { type Refusal, refuse } from '../../shared/base/refusal.js'
import { NO_OFFSET } from '../../shared/layout/descriptors.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { GroupSpan, LeaseRecord } from '../query/lease-records.js'
import type { Seal } from '../register/instances.js'
import type { PageStorage } from '../storage/page-storage.js'

/** Which lane finishes the restore: copies from DRAM, reads through the host-restore window, or through GPU staging. */
export type RestoreRoute = 'dram' | 'ssd' | 'cufile'

/** One block to restore: entry `entry` of the lease into engine page `page`. */
export interface RestorePair {
  readonly group: number
  readonly entry: number
  readonly page: number
}

/** Resolves and checks every pair of a RESTORE against its lease and its rank's pages, before anything is changed. */
export function resolvePairs(
  seal: Seal,
  rank: number,
  record: LeaseRecord,
  message: MessageOf<'restore'>,
): RestorePair[] | Refusal {
  const resolved: RestorePair[] = []
  const seen = new Set<number>()
  for (const { group, pairs } of message.groups) {
    const span = record.spans.find((candidate) => candidate.group === group)
    if (span === undefined || seen.has(group)) {
      return refuse(
        'group_unknown',
        `Cannot restore group ${group}: the lease does not hold it, or it is named twice`,
        {
          group,
        },
      )
    }
    seen.add(group)
    const pageCount = seal.geometry.ranks[rank]?.pageCounts[group] ?? 0
    const pages = new Set<number>()
    for (let i = 0; i < pairs.length; i += 2) {
      const source = pairs[i] as number
      const page = pairs[i + 1] as number
      const held = source - span.firstSource
      if (held < 0 || held >= span.count) return sourceNotHeld(span, source)
      if (page >= pageCount) {
        return refuse('page_out_of_range', `Cannot restore into page ${page}: group ${group} has ${pageCount}`, {
          page,
          pageCount,
        })
      }
      if (pages.has(page)) {
        return refuse('page_duplicate', `Cannot restore twice into page ${page} of group ${group}`, { page, group })
      }
      pages.add(page)
      resolved.push({ group, entry: record.entries[span.first + held] as number, page })
    }
  }
  return resolved
}

function sourceNotHeld({ group, firstSource, count }: GroupSpan, source: number): Refusal {
  const what = count === 0 ? 'none' : `${firstSource} to ${firstSource + count - 1}`
  return refuse('source_out_of_range', `Cannot restore source ${source} of group ${group}: the lease holds ${what}`, {
    group,
    source,
    firstSource,
    held: count,
  })
}

/** The descriptors of one restore, and which lane they are for. */
export interface RestorePlan {
  readonly route: RestoreRoute
  /** What is copied as it is comes first, then what is decoded. */
  readonly descriptors: Float64Array
  /** Engine bytes that will have been written, without padding. */
  readonly bytes: number
  readonly pairs: readonly RestorePair[]
  /** Index in `pairs` of what each of the decoded descriptors serves, in their order. */
  readonly decodedPairs: readonly number[]
}

/**
 * Lays out a restore. When every block is in DRAM the dram-worker copies; otherwise the host-restore lane reads what
 * is only on SSD and copies the rest, or the ssd-worker does where the route is cuFile. Null: a block has lost its replica, which a held entry never does.
 */
export function planRestore(
  storage: PageStorage,
  seal: Seal,
  rank: number,
  templates: readonly number[],
  pairs: readonly RestorePair[],
  ssdRoute: 'ssd' | 'cufile' = 'ssd',
): RestorePlan | null {
  const route: RestoreRoute = pairs.every(({ entry }) => storage.inDram(entry)) ? 'dram' : ssdRoute
  const raw: number[] = []
  const coded: number[] = []
  const decodedPairs: number[] = []
  let bytes = 0
  for (const [pair, { group, entry, page }] of pairs.entries()) {
    const geometry = seal.geometry.groups[group]
    const [first, end] = geometry?.rankGranules[rank] ?? [0, 0]
    const inDram = storage.inDram(entry)
    const place = inDram ? null : storage.source(entry)
    if (place === null && !inDram) return null
    let fileOffsetBytes = place === null ? 0 : place.fileOffsetBytes + storage.extentOffset(entry, first)
    for (let g = first; g < end; g++) {
      const granule = geometry?.granules[g]
      if (granule === undefined) return null
      bytes += granule.itemCount * granule.segmentBytes
      const encoded = storage.encoded(entry, g)
      const to = encoded ? coded : raw
      if (encoded) decodedPairs.push(pair)
      const template = templates[group] as number
      const pool = inDram ? storage.granuleOffset(entry, g) : NO_OFFSET
      const stored = storage.granule(entry, g)
      if (route === 'dram') {
        to.push(template, g - first, page, pool, 0, granule.itemCount, encoded ? stored.segmentBytes : 0)
        continue
      }
      to.push(
        template,
        g - first,
        page,
        pool,
        place?.store ?? 0,
        place?.file ?? 0,
        fileOffsetBytes,
        stored.bytes,
        stored.segmentBytes,
        stored.segmentStrideBytes,
        storage.crc(entry, g),
        storage.generationOf(entry),
        0,
        granule.itemCount,
        pair,
        // One lease holds one generation of a key, so within its restore an entry stands for its key.
        entry,
        encoded ? 1 : 0,
      )
      if (place !== null) fileOffsetBytes += stored.bytes
    }
  }
  const descriptors = Float64Array.from(coded.length === 0 ? raw : raw.concat(coded))
  return { route, descriptors, bytes, pairs, decodedPairs }
}
