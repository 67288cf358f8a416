import type { GroupSpec } from '../layout/regions.js'

/**
 * At which token boundaries a request can be resumed from what is stored.
 *
 *   blocks of a request    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |         boundary t = 6 blocks, firstBlock = 2
 *   full attention             .   [ 2 . 3 . 4 . 5 ]                  every block up to t
 *   window of 2 blocks                     [ 4 . 5 ]                  the trailing ones that end at t
 *   checkpoint                                 [ 5 ]                  the state after the last token before t
 *
 * A boundary is legal when every group has all the blocks it needs there. A group may be legal at a boundary and not
 * at a smaller one, so groups are intersected as sets, boundary by boundary: the least of their largest boundaries may
 * be legal in none of them. Boundary 0, recompute everything, is always legal and never listed.
 */

/** What was found of one group: the blocks `firstBlock … firstBlock + present.length - 1` of the request. */
export interface GroupPresence extends GroupSpec {
  /**
   * The engine has every earlier block itself: full attention and windows take it from there. A checkpoint is never
   * the engine's own: the state of exactly that boundary is among what was asked for, or the boundary is not legal.
   */
  readonly firstBlock: number
  /** 1 where the block is there, for every rank. */
  readonly present: ArrayLike<number>
}

/** Positions `first … end - 1` of a group's `present`. */
export interface BlockRange {
  readonly first: number
  readonly end: number
}

const NOTHING: BlockRange = { first: 0, end: 0 }

/** Blocks of a window that must be there at any boundary far enough from the start. */
export function windowBlocks({ windowTokens, blockTokens }: GroupSpec): number {
  return Math.ceil(windowTokens / blockTokens)
}

/** What the group must have at `tokens`; null where it has no boundary, whatever is present. */
export function neededAt(group: GroupPresence, tokens: number): BlockRange | null {
  const { kind, blockTokens, firstBlock, present } = group
  const endBlock = tokens / blockTokens
  const end = endBlock - firstBlock
  if (!Number.isInteger(endBlock) || end > present.length) return null
  switch (kind) {
    case 'full-attention':
      return end <= 0 ? NOTHING : { first: 0, end }
    case 'sliding-window':
      return end <= 0 ? NOTHING : { first: Math.max(0, end - windowBlocks(group)), end }
    case 'checkpoint':
      return end <= 0 ? null : { first: end - 1, end }
  }
}

/** Where every group's blocks end: the largest number of tokens that the request asked about. */
export function askedTokens({ firstBlock, present, blockTokens }: GroupPresence): number {
  return (firstBlock + present.length) * blockTokens
}

/**
 * The boundaries that every group allows and at which at least one stored block is needed, rising. At most as many as
 * the group that begins first was asked for. At least one group.
 */
export function legalBoundaries(groups: readonly GroupPresence[], limitTokens = Number.MAX_SAFE_INTEGER): number[] {
  const ownTokens = Math.min(...groups.map(({ firstBlock, blockTokens }) => firstBlock * blockTokens))
  const lastTokens = Math.min(limitTokens, ...groups.map(askedTokens))
  const stepTokens = commonStep(groups, lastTokens)
  const runs = groups.map(({ present }) => runStarts(present))
  const legal: number[] = []
  for (let tokens = (Math.floor(ownTokens / stepTokens) + 1) * stepTokens; tokens <= lastTokens; tokens += stepTokens) {
    if (groups.every((group, index) => allows(group, runs[index] as Int32Array, tokens))) legal.push(tokens)
  }
  return legal
}

function allows(group: GroupPresence, runs: Int32Array, tokens: number): boolean {
  const needed = neededAt(group, tokens)
  if (needed === null || needed.first === needed.end) return needed !== null
  return (runs[needed.end - 1] as number) <= needed.first
}

/** For each position the first of the unbroken run of present blocks that ends there; after it when it is absent. */
function runStarts(present: ArrayLike<number>): Int32Array {
  const starts = new Int32Array(present.length)
  for (let at = 0, start = 0; at < starts.length; at++) {
    if (present[at] !== 1) start = at + 1
    starts[at] = start
  }
  return starts
}

/** The least common multiple of all block sizes; above `lastTokens` as soon as no multiple of it can be reached. */
function commonStep(groups: readonly GroupPresence[], lastTokens: number): number {
  let step = 1
  for (const { blockTokens } of groups) {
    step = (step / greatestCommonDivisor(step, blockTokens)) * blockTokens
    if (step > lastTokens) break
  }
  return step
}

function greatestCommonDivisor(a: number, b: number): number {
  let [large, small] = [a, b]
  while (small !== 0) [large, small] = [small, large % small]
  return large
}
