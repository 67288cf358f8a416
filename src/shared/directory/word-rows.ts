/** Bytes of one segment, at most: what growing once may cost. A row that is longer has a segment of its own. */
const SEGMENT_BYTES_MAX = 2 ** 20

/**
 * Rows of uint32 words that grow a segment at a time and never move: growth costs one zeroed allocation of bounded
 * size, whatever the number of rows already there. A small table has no more than the rows it may ever need.
 */
export class WordRows {
  readonly rowsMax: number
  private readonly wordsPerRow: number
  private readonly rowsLog2: number
  private readonly rowMask: number
  private readonly segments: Uint32Array[] = []

  constructor(wordsPerRow: number, rowsMax: number) {
    this.wordsPerRow = wordsPerRow
    this.rowsMax = rowsMax
    this.rowsLog2 = Math.max(0, Math.floor(Math.log2(SEGMENT_BYTES_MAX / (wordsPerRow * 4))))
    this.rowMask = 2 ** this.rowsLog2 - 1
  }

  /** Makes rows 0 … `row` addressable. Call it with each new highest row. */
  reach(row: number): void {
    const last = row >>> this.rowsLog2
    while (this.segments.length <= last) {
      const rows = Math.min(this.rowMask + 1, this.rowsMax - this.segments.length * (this.rowMask + 1))
      this.segments.push(new Uint32Array(rows * this.wordsPerRow))
    }
  }

  get(row: number, word: number): number {
    return this.segmentOf(row)[this.wordOf(row) + word] as number
  }

  set(row: number, word: number, value: number): void {
    this.segmentOf(row)[this.wordOf(row) + word] = value
  }

  /** The segment that holds `row`, for loops over several words of one row; see wordOf. */
  segmentOf(row: number): Uint32Array {
    return this.segments[row >>> this.rowsLog2] as Uint32Array
  }

  /** Index of word 0 of `row` in its segment. */
  wordOf(row: number): number {
    return (row & this.rowMask) * this.wordsPerRow
  }

  get bytesReserved(): number {
    return this.segments.reduce((sum, segment) => sum + segment.byteLength, 0)
  }
}
