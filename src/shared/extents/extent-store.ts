import { invariant } from '../base/invariant.js'
import type { ExtentShard } from './extent-shard.js'
import { REFUSED_PINNED, REFUSED_TOO_LARGE, type Refusal } from './refusals.js'

/** Where a group's bytes are reserved, or why they are not. */
export type Reservation = { readonly shard: number; readonly extent: number } | { readonly refused: Refusal }

/**
 * The SSD tier: several shards, one extent a group. A group lives whole in one shard; reservations go round the
 * shards, and one that refuses is passed over for the next, so a pinned shard never blocks the others.
 */
export class ExtentStore {
  /** None: the SSD tier is off, and every reservation is too large. */
  readonly #shards: readonly ExtentShard[]
  #next = 0
  #pinnedRefusals = 0

  constructor(shards: readonly ExtentShard[]) {
    this.#shards = shards
  }

  get shardCount(): number {
    return this.#shards.length
  }

  /** How often a shard refused because of pins; another shard may have taken the extent then. */
  get pinnedRefusals(): number {
    return this.#pinnedRefusals
  }

  get capacityBytes(): number {
    return this.#sum((shard) => shard.capacityBytes)
  }

  get usedBytes(): number {
    return this.#sum((shard) => shard.usedBytes)
  }

  get freeBytes(): number {
    return this.#sum((shard) => shard.freeBytes)
  }

  get skippedBytes(): number {
    return this.#sum((shard) => shard.skippedBytes)
  }

  get pinnedBytes(): number {
    return this.#sum((shard) => shard.pinnedBytes)
  }

  get inFlightBytes(): number {
    return this.#sum((shard) => shard.inFlightBytes)
  }

  get liveExtents(): number {
    return this.#sum((shard) => shard.liveExtents)
  }

  /** How many pinned or in-flight extents reservations went round. */
  get pinnedSkips(): number {
    return this.#sum((shard) => shard.pinnedSkips)
  }

  shard(index: number): ExtentShard {
    const shard = this.#shards[index]
    invariant(shard !== undefined, 'a shard number is one of the store', { index, shards: this.#shards.length })
    return shard
  }

  /**
   * Reserves in the next shard that can. Owners that lost their extent are appended to `evicted`. When all refuse, the
   * reason is the one that waiting helps most: pinned, then table full, then too large.
   */
  reserve(bytes: number, owner: number, evicted: number[]): Reservation {
    let refused: Refusal = REFUSED_TOO_LARGE
    for (let tried = 0; tried < this.#shards.length; tried++) {
      const index = (this.#next + tried) % this.#shards.length
      const extent = this.shard(index).reserve(bytes, owner, evicted)
      if (extent > 0) {
        this.#next = (index + 1) % this.#shards.length
        return { shard: index, extent }
      }
      if (extent === REFUSED_PINNED) this.#pinnedRefusals++
      if (extent === REFUSED_PINNED || refused === REFUSED_TOO_LARGE) refused = extent as Refusal
    }
    return { refused }
  }

  #sum(of: (shard: ExtentShard) => number): number {
    let total = 0
    for (const shard of this.#shards) total += of(shard)
    return total
  }
}
