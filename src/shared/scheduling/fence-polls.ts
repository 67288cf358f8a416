/**
 * How often a lane looks at a fence word that a client will write: at once, then after an eighth of the time already
 * waited, between 50 us and 2 ms. A fence that comes early is seen early; one that never comes costs 500 looks a second
 * until its job is cancelled.
 */
export const FENCE_POLL_US_MIN = 50
export const FENCE_POLL_US_MAX = 2000

/** Microseconds until the next look, for a fence waited on for `waitedUs`. */
export function fencePollDelayUs(waitedUs: number): number {
  return Math.min(FENCE_POLL_US_MAX, Math.max(FENCE_POLL_US_MIN, waitedUs / 8))
}
