import { type Refusal, refuse } from '../../shared/base/refusal.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import type { Seal } from '../register/instances.js'
import { commonBoundary } from './answer.js'
import type { GroupSpan } from './lease-records.js'
import { RequestCounts } from './request-counts.js'

/** Keys of a request, by group. */
export type RequestGroups = MessageOf<'query'>['groups']

/** What was found for one request before anything is held or charged. */
export interface Found {
  readonly spans: readonly GroupSpan[]
  readonly firstBlocks: readonly number[]
  /** For each span, the number of its first key among all keys of the request. */
  readonly firstKeys: readonly number[]
  readonly entries: Int32Array
  readonly bytes: number
  readonly counts: RequestCounts
  /** More was found than the limit lets through. */
  readonly cut: boolean
}

/** Groups that exist and are named once, and as many keys as one request may have. */
export function checkGroups(context: Context, seal: Seal, groups: RequestGroups): Refusal | null {
  const seen = new Set<number>()
  let keys = 0
  for (const { group, keys: bytes } of groups) {
    if (seal.geometry.groups[group] === undefined || seen.has(group)) {
      return refuse('group_unknown', `Cannot query group ${group}: it is unknown or named twice`, { group })
    }
    seen.add(group)
    keys += bytes.length / KEY_BYTES
  }
  if (keys === 0) return refuse('query_empty', 'Cannot query without keys')
  if (keys > context.options.keysPerQueryMax) {
    return refuse(
      'capacity_queue',
      `Cannot query ${keys} keys at once: ${context.options.keysPerQueryMax} is the limit`,
      { keys },
    )
  }
  return null
}

/** The common published prefix of all groups, cut to `limitBytes`. Metadata only. */
export function find(
  context: Context,
  seal: Seal,
  groups: RequestGroups,
  allowSsd: boolean,
  limitBytes: number,
): Found {
  const { storage } = context
  const asked = groups.map(({ keys }) => keys.length / KEY_BYTES)
  const firstKeys = asked.map((_, i) => asked.slice(0, i).reduce((sum, count) => sum + count, 0))
  const hashes = new Uint32Array(2 * asked.reduce((sum, count) => sum + count, 0))
  const counts = new RequestCounts(hashes)
  const perGroup = groups.map(({ group, firstBlock, keys }, i) => {
    const wanted = asked[i] as number
    const entries = new Int32Array(wanted)
    const classId = seal.classes[group] as number
    let count = storage.prefix(classId, keys, wanted, entries)
    if (!allowSsd) {
      for (let k = 0; k < count; k++) if (!storage.inDram(entries[k] as number)) count = k
    }
    storage.hashKeys(classId, keys, wanted, hashes, 2 * (firstKeys[i] as number))
    for (let k = 0; k < count; k++) counts.found(storage.inDram(entries[k] as number))
    counts.missing(wanted - count)
    const geometry = seal.geometry.groups[group]
    return {
      group,
      kind: geometry?.kind ?? 'full-attention',
      firstBlock,
      count,
      entries,
      blockTokens: geometry?.blockTokens ?? 1,
      extentBytes: geometry?.extentBytes ?? 0,
    }
  })
  context.tally.candidates(
    perGroup.reduce((sum, { count }) => sum + count, 0),
    perGroup.reduce((sum, { count }, i) => sum + (asked[i] as number) - count, 0),
  )
  const whole = commonBoundary(perGroup)
  let { tokens, counts: kept } = whole
  const bytesOf = (list: readonly number[]) =>
    list.reduce((sum, count, i) => sum + count * (perGroup[i]?.extentBytes ?? 0), 0)
  while (bytesOf(kept) > limitBytes) ({ tokens, counts: kept } = commonBoundary(perGroup, tokens - 1))
  const spans: GroupSpan[] = []
  const all: number[] = []
  for (const [i, { group, entries }] of perGroup.entries()) {
    const count = kept[i] as number
    spans.push({ group, first: all.length, count })
    for (let k = 0; k < count; k++) all.push(entries[k] as number)
    for (let k = count; k < (whole.counts[i] as number); k++) {
      counts.unread((firstKeys[i] as number) + k, storage.inDram(entries[k] as number))
    }
  }
  return {
    spans,
    firstBlocks: perGroup.map(({ firstBlock }) => firstBlock),
    firstKeys,
    entries: Int32Array.from(all),
    bytes: bytesOf(kept),
    counts,
    cut: tokens < whole.tokens,
  }
}

/** Entries of a request that are not in DRAM, each once, in the order in which a growing prefix needs them. */
export function inReadingOrder(context: Context, seal: Seal, found: Found): number[] {
  const needs: { entry: number; endTokens: number }[] = []
  for (const [i, span] of found.spans.entries()) {
    const blockTokens = seal.geometry.groups[span.group]?.blockTokens ?? 1
    for (let k = 0; k < span.count; k++) {
      const entry = found.entries[span.first + k] as number
      if (context.storage.inDram(entry)) continue
      needs.push({ entry, endTokens: ((found.firstBlocks[i] as number) + k + 1) * blockTokens })
    }
  }
  if (found.spans.length > 1) needs.sort((a, b) => a.endTokens - b.endTokens)
  return [...new Set(needs.map(({ entry }) => entry))]
}
