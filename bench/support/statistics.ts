import { invariant } from '../../src/shared/base/invariant.js'

/** A median with a 95 % interval that assumes nothing of the distribution. */
export interface Estimate {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** The value below which the fraction `part` of the samples lies. */
export function quantile(samples: readonly number[], part: number): number {
  invariant(samples.length > 0, 'a quantile is of something', {})
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  invariant(sorted.length > 0, 'a median is of something', {})
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/**
 * Order statistics around the median: the k-th smallest and k-th largest sample, with the largest k whose coverage
 * (from the binomial distribution) is at least 95 %. Of 15 samples these are the 4th and the 12th; of fewer than 6 no
 * two order statistics cover so much, and the extremes are given.
 */
export function estimate(samples: readonly number[]): Estimate {
  const sorted = [...samples].sort((a, b) => a - b)
  const rank = lowRank(sorted.length)
  return {
    median: median(sorted),
    low: sorted[rank - 1] as number,
    high: sorted[sorted.length - rank] as number,
  }
}

/** The k of `estimate` for `count` samples, at least 1. */
export function lowRank(count: number): number {
  invariant(count > 0, 'an interval is of something', { count })
  let probability = 0.5 ** count
  let tail = 0
  for (let rank = 0; rank < count; rank++) {
    tail += probability
    if (2 * tail > 0.05) return Math.max(1, rank)
    probability *= (count - rank) / (rank + 1)
  }
  return 1
}

/** The estimate of `mine[i] / control[i]`: pairs were measured side by side. */
export function ratios(mine: readonly number[], control: readonly number[]): Estimate {
  invariant(mine.length === control.length, 'ratios are of pairs', { mine: mine.length, control: control.length })
  return estimate(mine.map((value, pair) => value / (control[pair] as number)))
}

/** `digits` significant digits. */
export function rounded(value: number, digits = 4): number {
  return Number(value.toPrecision(digits))
}
