/**
 * Keeps `depth` jobs in flight for at least `ms`: `ask` sends those whose places are free, `take` waits and adds the places of
 * those that have ended. Returns jobs a second.
 */
export function keepBusy(
  depth: number,
  ms: number,
  ask: (indices: readonly number[]) => void,
  take: (ended: number[]) => void,
): number {
  const startMs = performance.now()
  ask(Array.from({ length: depth }, (_, index) => index))
  let ended = 0
  for (let flying = depth; flying > 0; ) {
    const now: number[] = []
    take(now)
    ended += now.length
    if (performance.now() - startMs < ms) ask(now)
    else flying -= now.length
  }
  return (ended / (performance.now() - startMs)) * 1000
}
