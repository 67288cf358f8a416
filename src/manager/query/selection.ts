import { type BlockRange, legalBoundaries, neededAt } from '../../shared/planning/recovery.js'
import type { PageStorage } from '../storage/page-storage.js'
import { bytesOf, type FoundBlocks } from './found-blocks.js'
import type { GroupSpan } from './lease-records.js'

/** Boundaries in each list of READY at most: the largest. 1 KiB a list. */
export const BOUNDARIES_MAX = 256
/** The largest boundary that READY can name. */
export const BOUNDARY_TOKENS_MAX = 2 ** 32 - 1

/** The blocks that one boundary needs, and no others: what a query holds and charges, and its lease after it. */
export interface Selection {
  /** The boundary; 0: none, and nothing is selected. */
  readonly tokens: number
  /** One for each group of the query, in its order. */
  readonly spans: readonly GroupSpan[]
  readonly entries: Int32Array
  /** Stored bytes of the entries. */
  readonly bytes: number
  /** Entries that were in DRAM when the query came. */
  readonly blocksDram: number
}

/** What the boundary needs. */
export function selectBlocks(found: FoundBlocks, tokens: number): Selection {
  const spans: GroupSpan[] = []
  const entries: number[] = []
  let bytes = 0
  let blocksDram = 0
  for (const group of found) {
    const range = neededOrNothing(group, tokens)
    const { first, end } = range
    spans.push({ group: group.group, firstSource: first, first: entries.length, count: end - first })
    for (let at = first; at < end; at++) {
      entries.push(group.entries[at] as number)
      blocksDram += group.foundInDram[at] as number
    }
    bytes += bytesOf(group, range)
  }
  return { tokens, spans, entries: Int32Array.from(entries), bytes, blocksDram }
}

/**
 * Stored bytes that the boundary needs. Where blocks of a group are equally long they never fall as boundaries rise; a
 * window over blocks that were coded may be shorter further on.
 */
export function bytesAt(found: FoundBlocks, tokens: number): number {
  let bytes = 0
  for (const group of found) bytes += bytesOf(group, neededOrNothing(group, tokens))
  return bytes
}

/** Blocks outside the selection are held by nobody: takes out those that have gone since. */
export function refreshBlocks(storage: PageStorage, found: FoundBlocks, { spans }: Selection, allowSsd: boolean): void {
  for (const [index, { entries, generations, present }] of found.entries()) {
    const { firstSource, count } = spans[index] as GroupSpan
    for (let at = 0; at < entries.length; at++) {
      if (present[at] === 0 || (at >= firstSource && at < firstSource + count)) continue
      const entry = entries[at] as number
      const same = storage.published(entry) && storage.generationOf(entry) === generations[at]
      if (!same || !(allowSsd || storage.inDram(entry))) present[at] = 0
    }
  }
}

/** What READY says of a selection. */
export interface Boundaries {
  /** Legal with the blocks of the selection alone, rising; the last is the selection's. */
  readonly served: Uint32Array
  /** Smaller ones that are legal too, but need blocks outside it, rising. */
  readonly others: Uint32Array
}

/**
 * The legal boundaries up to the selection's, by whether the selection serves them. For full attention alone the
 * largest says everything: each smaller multiple of the block sizes is legal and served.
 */
export function boundariesOf(found: FoundBlocks, selection: Selection): Boundaries {
  if (found.every(({ kind }) => kind === 'full-attention')) {
    return { served: Uint32Array.of(selection.tokens), others: new Uint32Array(0) }
  }
  const served: number[] = []
  const others: number[] = []
  for (const tokens of legalBoundaries(found, selection.tokens)) {
    if (serves(found, selection, tokens)) served.push(tokens)
    else others.push(tokens)
  }
  return { served: Uint32Array.from(largest(served)), others: Uint32Array.from(largest(others)) }
}

function serves(found: FoundBlocks, { spans }: Selection, tokens: number): boolean {
  return found.every((group, index) => {
    const { first, end } = neededOrNothing(group, tokens)
    const { firstSource, count } = spans[index] as GroupSpan
    return first === end || (first >= firstSource && end <= firstSource + count)
  })
}

function largest(rising: readonly number[]): readonly number[] {
  return rising.slice(Math.max(0, rising.length - BOUNDARIES_MAX))
}

function neededOrNothing(group: FoundBlocks[number], tokens: number): BlockRange {
  return (tokens === 0 ? null : neededAt(group, tokens)) ?? { first: 0, end: 0 }
}
