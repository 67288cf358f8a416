/**
 * Whether strided runs of bytes overlap, without looking at pages one by one: the number of steps grows with the number
 * of runs (n log n), whatever the page counts a peer sends.
 */

/** `count` pieces of `bytes` bytes, `strideBytes` apart, from `baseBytes`; bytes <= strideBytes unless count is 1. */
export interface ByteRun {
  readonly baseBytes: number
  readonly strideBytes: number
  readonly count: number
  readonly bytes: number
  /** Whose bytes these are: index of the region. */
  readonly owner: number
}

/**
 * One run, cut at multiples of its stride, as a rectangle: pages [firstPage, endPage) times residues [from, to). Two
 * runs of one stride overlap exactly when rectangles of theirs do.
 */
interface Rectangle {
  readonly firstPage: number
  readonly endPage: number
  readonly from: number
  readonly to: number
  readonly owner: number
}

/** Two owners whose bytes overlap or cannot be told apart cheaply. */
export interface Overlap {
  readonly first: number
  readonly second: number
  /** False: their strides differ and their spans interleave; refused without deciding whether a byte is shared. */
  readonly proven: boolean
}

/** The first overlap found among runs of one allocation, or null. Runs of different strides may not interleave at all. */
export function findOverlap(runs: readonly ByteRun[]): Overlap | null {
  const classes = new Map<number, ByteRun[]>()
  for (const run of runs) {
    const members = classes.get(run.strideBytes)
    if (members === undefined) classes.set(run.strideBytes, [run])
    else members.push(run)
  }
  for (const [strideBytes, members] of classes) {
    const overlap = overlapOfEqualStrides(members, strideBytes)
    if (overlap !== null) return overlap
  }
  return classes.size > 1 ? interleavedClasses(classes) : null
}

function overlapOfEqualStrides(runs: readonly ByteRun[], strideBytes: number): Overlap | null {
  const rectangles = runs.flatMap((run) => rectanglesOf(run, strideBytes))
  const byStart = [...rectangles].sort((a, b) => a.firstPage - b.firstPage)
  const byEnd = [...rectangles].sort((a, b) => a.endPage - b.endPage)
  // Sweep over pages. `active` is sorted by `from`, and disjoint as long as nothing overlapped.
  const active: Rectangle[] = []
  let ended = 0
  for (const next of byStart) {
    for (; (byEnd[ended] as Rectangle).endPage <= next.firstPage; ended++) {
      active.splice(positionOf(active, (byEnd[ended] as Rectangle).from), 1)
    }
    const position = positionOf(active, next.from)
    const before = active[position - 1]
    const after = active[position]
    if (before !== undefined && before.to > next.from) return { first: before.owner, second: next.owner, proven: true }
    if (after !== undefined && after.from < next.to) return { first: after.owner, second: next.owner, proven: true }
    active.splice(position, 0, next)
  }
  return null
}

/** Index of the first active rectangle that starts at or after `from`. */
function positionOf(active: readonly Rectangle[], from: number): number {
  let low = 0
  let high = active.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((active[middle] as Rectangle).from < from) low = middle + 1
    else high = middle
  }
  return low
}

function rectanglesOf(run: ByteRun, strideBytes: number): Rectangle[] {
  const { owner } = run
  const from = run.baseBytes % strideBytes
  const firstPage = (run.baseBytes - from) / strideBytes
  const rectangles: Rectangle[] = []
  // A piece longer than the stride exists only alone (count 1); it covers whole pages between its ends.
  for (let left = run.bytes, start = from, page = firstPage; left > 0; page++) {
    const to = Math.min(strideBytes, start + left)
    const whole = start === 0 && left >= strideBytes ? Math.floor(left / strideBytes) : 1
    rectangles.push({ firstPage: page, endPage: page + whole - 1 + run.count, from: start, to, owner })
    left -= (to - start) * whole
    page += whole - 1
    start = 0
  }
  return rectangles
}

interface Span {
  readonly startBytes: number
  readonly endBytes: number
  readonly strideBytes: number
  readonly owner: number
}

function interleavedClasses(classes: ReadonlyMap<number, readonly ByteRun[]>): Overlap | null {
  const spans: Span[] = []
  for (const [strideBytes, runs] of classes) {
    for (const run of runs) {
      const endBytes = run.baseBytes + (run.count - 1) * strideBytes + run.bytes
      spans.push({ startBytes: run.baseBytes, endBytes, strideBytes, owner: run.owner })
    }
  }
  spans.sort((a, b) => a.startBytes - b.startBytes)
  // The furthest end so far, and the furthest end of any run with another stride than that one's.
  let furthest: Span | null = null
  let other: Span | null = null
  for (const span of spans) {
    const rival: Span | null = furthest !== null && furthest.strideBytes !== span.strideBytes ? furthest : other
    if (rival !== null && rival.strideBytes !== span.strideBytes && rival.endBytes > span.startBytes) {
      return { first: rival.owner, second: span.owner, proven: false }
    }
    if (furthest === null || span.endBytes > furthest.endBytes) {
      if (furthest !== null && furthest.strideBytes !== span.strideBytes) other = furthest
      furthest = span
    } else if (span.strideBytes !== furthest.strideBytes && (other === null || span.endBytes > other.endBytes)) {
      other = span
    }
  }
  return null
}
