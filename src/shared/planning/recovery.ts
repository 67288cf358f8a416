import { invariant } from '../base/invariant.js'
import { type Refusal, refuse } from '../base/refusal.js'
import type { GroupSpec } from '../layout/regions.js'

/**
 * At which token boundaries a request can be recovered from what is stored. Full attention is legal at every prefix of
 * the blocks present; a window or a checkpoint would be legal at some boundaries and not at smaller ones. So the answer
 * is a set, and groups and ranks are intersected as sets: the least of their largest boundaries would be wrong.
 *
 * A boundary is a number of tokens. 0, recompute everything, is always legal and is not listed.
 */

/** A set of boundaries: every multiple of `stepTokens` from it to `lastTokens`. Full attention has no other shape. */
export interface PrefixSet {
  readonly kind: 'prefix'
  readonly stepTokens: number
  /** A multiple of stepTokens; 0 when no boundary is legal. */
  readonly lastTokens: number
}

/** Boundaries one by one, ascending: the shape that windows and checkpoints need, and that intersections may take. */
export interface ListSet {
  readonly kind: 'list'
  readonly tokens: readonly number[]
}

export type BoundarySet = PrefixSet | ListSet

/** What was found of one group, on one rank or on all of them together. */
export interface GroupPresence {
  readonly kind: GroupSpec['kind']
  readonly blockTokens: number
  /** Leading blocks of the request that are present without a gap. */
  readonly leadingBlocks: number
}

/** The boundaries that every group allows. At least one group; unknown kinds are refused, never taken for another. */
export function boundaries(groups: readonly GroupPresence[]): BoundarySet | Refusal {
  invariant(groups.length > 0, 'a request needs at least one group')
  let common: BoundarySet | null = null
  for (const group of groups) {
    const own = boundariesOf(group)
    if ('error' in own) return own
    common = common === null ? own : intersect(common, own)
  }
  return common as BoundarySet
}

/** The boundaries that one group allows. */
export function boundariesOf(group: GroupPresence): BoundarySet | Refusal {
  const { kind, blockTokens, leadingBlocks } = group
  switch (kind) {
    case 'full-attention':
      return { kind: 'prefix', stepTokens: blockTokens, lastTokens: leadingBlocks * blockTokens }
    default:
      return refuse('group_unsupported', `Cannot recover a group of kind ${kind}: only full-attention is supported`, {
        kind,
      })
  }
}

/** What both sets hold. */
export function intersect(a: BoundarySet, b: BoundarySet): BoundarySet {
  if (a.kind === 'prefix' && b.kind === 'prefix') return intersectPrefixes(a, b)
  const [listed, other] = a.kind === 'list' ? [a, b] : [b as ListSet, a]
  return { kind: 'list', tokens: listed.tokens.filter((tokens) => allows(other, tokens)) }
}

/** Whether a request can be recovered at exactly `tokens`. */
export function allows(set: BoundarySet, tokens: number): boolean {
  if (tokens === 0) return true
  if (set.kind === 'list') return set.tokens.includes(tokens)
  return tokens > 0 && tokens <= set.lastTokens && tokens % set.stepTokens === 0
}

/** The largest legal boundary not above `limitTokens`; 0 when there is none. */
export function best(set: BoundarySet, limitTokens: number): number {
  if (set.kind === 'list') return set.tokens.reduce((most, tokens) => (tokens <= limitTokens ? tokens : most), 0)
  const last = Math.min(set.lastTokens, limitTokens)
  return last - (last % set.stepTokens)
}

/** Multiples of both steps are the multiples of their least common multiple. */
function intersectPrefixes(a: PrefixSet, b: PrefixSet): PrefixSet {
  const stepTokens = (a.stepTokens / greatestCommonDivisor(a.stepTokens, b.stepTokens)) * b.stepTokens
  const last = Math.min(a.lastTokens, b.lastTokens)
  return { kind: 'prefix', stepTokens, lastTokens: last - (last % stepTokens) }
}

function greatestCommonDivisor(a: number, b: number): number {
  let [large, small] = [a, b]
  while (small !== 0) [large, small] = [small, large % small]
  return large
}
