/** Rows of one segment: an allocation of about a megabyte for a directory row. */
const SEGMENT_ROWS_LOG2 = 14
const SEGMENT_ROWS = 1 << SEGMENT_ROWS_LOG2
const SEGMENT_MASK = SEGMENT_ROWS - 1

/**
 * Rows of uint32 words that grow a segment at a time and never move: growth costs one zeroed allocation of bounded
 * size, whatever the number of rows already there. Small tables start small: the first segment has only the rows it
 * may ever need.
 */
export class WordRows {
  readonly rowsMax: number
  private readonly wordsPerRow: number
  private readonly segments: Uint32Array[] = []

  constructor(wordsPerRow: number, rowsMax: number) {
    this.wordsPerRow = wordsPerRow
    this.rowsMax = rowsMax
  }

  /** Makes rows 0 … `row` addressable. Call it with each new highest row. */
  reach(row: number): void {
    while (this.segments.length << SEGMENT_ROWS_LOG2 <= row) {
      const rows = Math.min(SEGMENT_ROWS, this.rowsMax - (this.segments.length << SEGMENT_ROWS_LOG2))
      this.segments.push(new Uint32Array(rows * this.wordsPerRow))
    }
  }

  get(row: number, word: number): number {
    return (this.segments[row >>> SEGMENT_ROWS_LOG2] as Uint32Array)[
      (row & SEGMENT_MASK) * this.wordsPerRow + word
    ] as number
  }

  set(row: number, word: number, value: number): void {
    ;(this.segments[row >>> SEGMENT_ROWS_LOG2] as Uint32Array)[(row & SEGMENT_MASK) * this.wordsPerRow + word] = value
  }

  /** The segment that holds `row`, for loops over several words of one row; see wordOf. */
  segmentOf(row: number): Uint32Array {
    return this.segments[row >>> SEGMENT_ROWS_LOG2] as Uint32Array
  }

  /** Index of word 0 of `row` in its segment. */
  wordOf(row: number): number {
    return (row & SEGMENT_MASK) * this.wordsPerRow
  }

  get bytesReserved(): number {
    return this.segments.reduce((sum, segment) => sum + segment.byteLength, 0)
  }
}
