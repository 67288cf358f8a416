import type { ReuseWindows } from '../../shared/cache/reuse-windows.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { PageStorage } from '../storage/page-storage.js'
import type { ManagerTally } from '../tally.js'
import { type FoundBlocks, requestedRange } from './found-blocks.js'
import type { Selection } from './selection.js'

/** Where requests are counted. */
interface CountingContext {
  readonly storage: PageStorage
  readonly tally: ManagerTally
  readonly reuse: ReuseWindows | null
  readonly nowUs: number
}

/** The keys of one group that the request needs at its end, as sketches are shown them. */
interface RequestedKeys {
  readonly first: number
  readonly end: number
  /** Two words a key. */
  readonly hashes: Uint32Array
}

/**
 * What one request asked for, by where it was found: counted once, when the request is answered. Hits are the blocks of
 * the largest legal boundary, misses what the request would have needed beyond them. A block that was found and not
 * read, because a limit stopped the reads or cut the request, is neither.
 */
export class RequestCounts {
  readonly #found: FoundBlocks
  readonly #most: Selection
  readonly #requested: readonly RequestedKeys[]
  readonly #unread = new Set<number>()
  readonly #failed = new Set<number>()

  /** `most`: the largest boundary, whatever the limits say. */
  constructor(
    storage: PageStorage,
    classes: readonly number[],
    groups: MessageOf<'query'>['groups'],
    found: FoundBlocks,
    most: Selection,
  ) {
    this.#found = found
    this.#most = most
    this.#requested = found.map((group, index) => {
      const { first, end } = requestedRange(group)
      const hashes = new Uint32Array(2 * (end - first))
      const keys = (groups[index] as { keys: Uint8Array }).keys.subarray(first * KEY_BYTES, end * KEY_BYTES)
      storage.hashKeys(classes[group.group] as number, keys, end - first, hashes, 0)
      return { first, end, hashes }
    })
  }

  /** A limit lets only `chosen` through. */
  cut(chosen: Selection): void {
    const kept = new Set(chosen.entries)
    for (const entry of this.#most.entries) if (!kept.has(entry)) this.#unread.add(entry)
  }

  unread(entry: number): void {
    this.#unread.add(entry)
  }

  /** A block that was found cannot be read. */
  failed(entry: number): void {
    this.#failed.add(entry)
  }

  /** Nothing was read in time: what was found counts as unread. */
  late(context: CountingContext): void {
    context.tally.unread(this.#most.entries.length)
  }

  /** The request is answered. */
  count(context: CountingContext): void {
    const { storage, tally } = context
    let ram = 0
    let ssd = 0
    let unread = 0
    let missed = this.#requested.reduce((sum, { first, end }) => sum + end - first, 0) - this.#most.entries.length
    for (const [index, { firstSource, count }] of this.#most.spans.entries()) {
      const { entries, foundInDram } = this.#found[index] as FoundBlocks[number]
      for (let at = firstSource; at < firstSource + count; at++) {
        const entry = entries[at] as number
        if (this.#unread.has(entry)) unread++
        else if (this.#failed.has(entry)) missed++
        else if (foundInDram[at] === 1) ram++
        else ssd++
      }
    }
    storage.countRequest(ram, ssd, missed)
    tally.unread(unread)
    this.#show(context)
  }

  #show({ storage, reuse, nowUs }: CountingContext): void {
    for (const [index, { first, end, hashes }] of this.#requested.entries()) {
      const { entries } = this.#found[index] as FoundBlocks[number]
      for (let at = first; at < end; at++) {
        if (at < entries.length && this.#unread.has(entries[at] as number)) continue
        const high = hashes[2 * (at - first)] as number
        const low = hashes[2 * (at - first) + 1] as number
        reuse?.observe(high, low, nowUs)
        storage.requested(high, low)
      }
    }
  }
}
