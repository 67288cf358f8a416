import type { HistogramSpec, SeriesSpec, Tally } from '../base/tally.js'

/** What a codec does to items: `encode` on their way out of engine pages, `decode` on their way back. */
export type CodecOp = 'encode' | 'decode'

/** Coded descriptors in one call of a codec at most: enough that a launch is paid by many, few enough to take turns. */
export const CODEC_PART_DESCRIPTORS = 256
/** Stored bytes of one such call at most, about those of a part of copies: so that a restore finds a save's stream short. */
export const CODEC_PART_BYTES = 32 << 20

/** Positions of CODEC_SERIES, counted from where a lane's own series end. */
export const CODEC_COUNT = {
  encodeBatches: 0,
  decodeBatches: 1,
  encodedBytes: 2,
  decodedBytes: 3,
  decodeFailures: 4,
  reservedBytes: 5,
  workspaceBytes: 6,
  workspaceAllocations: 7,
  encodedItems: 8,
  decodedItems: 9,
} as const

/** What every lane that codes counts, at the end of its series. Logical bytes and skips are the manager's to count. */
export const CODEC_SERIES: readonly SeriesSpec[] = [
  {
    name: 'storage_codec_batches',
    kind: 'counter',
    text: 'Batches of items that a codec was given and carried out',
    labels: { op: 'encode' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_batches',
    kind: 'counter',
    text: 'Batches of items that a codec was given and carried out',
    labels: { op: 'decode' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_transfer_bytes',
    kind: 'counter',
    text: 'Stored bytes that codecs brought from the device or gave to it',
    labels: { direction: 'd2h' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_transfer_bytes',
    kind: 'counter',
    text: 'Stored bytes that codecs brought from the device or gave to it',
    labels: { direction: 'h2d' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_decode_failures',
    kind: 'counter',
    text: 'Items whose stored bytes are no coding, and batches of decodings that failed',
    feature: 'codec',
  },
  {
    name: 'storage_codec_reserved_bytes',
    kind: 'gauge',
    text: 'Workspace of codecs lent to batches',
    feature: 'codec',
  },
  {
    name: 'storage_codec_workspace_bytes',
    kind: 'gauge',
    text: 'Workspace of codecs held on devices',
    feature: 'codec',
  },
  {
    name: 'storage_codec_workspace_allocations',
    kind: 'counter',
    text: 'Times that a workspace of a codec was allocated',
    feature: 'codec',
  },
  {
    name: 'storage_codec_items',
    kind: 'counter',
    text: 'Items that codecs stored or gave back, without those they refused',
    labels: { op: 'encode' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_items',
    kind: 'counter',
    text: 'Items that codecs stored or gave back, without those they refused',
    labels: { op: 'decode' },
    feature: 'codec',
  },
]

/** Positions of CODEC_HISTOGRAMS, counted from where a lane's own histograms end. */
export const CODEC_HISTOGRAM = { batchSegments: 0, encodeDuration: 1, decodeDuration: 2 } as const

export const CODEC_HISTOGRAMS: readonly HistogramSpec[] = [
  {
    name: 'storage_codec_batch_segments',
    unit: 'segments',
    text: 'Items in one batch, 1 to 256',
    feature: 'codec',
  },
  {
    name: 'storage_codec_duration',
    unit: 'us',
    text: 'From the submission of a batch to its end',
    labels: { op: 'encode' },
    feature: 'codec',
  },
  {
    name: 'storage_codec_duration',
    unit: 'us',
    text: 'From the submission of a batch to its end',
    labels: { op: 'decode' },
    feature: 'codec',
  },
]

/** A batch that has ended. */
export interface CodedBatch {
  readonly op: CodecOp
  readonly segments: number
  readonly storedBytes: number
  /** Items that have no coding, or whose bytes are none: nothing was stored or given back of them. */
  readonly refused: number
  readonly durationUs: number
}

/** What an encoding says of its items, two results each: the bytes that are stored, 0 for one that was refused. */
export function encodedOf(results: Uint32Array): Pick<CodedBatch, 'storedBytes' | 'refused'> {
  let storedBytes = 0
  let refused = 0
  for (let at = 0; at < results.length; at += 2) {
    storedBytes += results[at] as number
    if (results[at] === 0) refused += 1
  }
  return { storedBytes, refused }
}

/** Counts what a codec did for one lane. */
export class CodecTally {
  readonly #tally: Tally
  readonly #firstSeries: number
  readonly #firstHistogram: number

  /** `series`, `histograms`: the lane's own, which the codec's follow. */
  constructor(tally: Tally, series: number, histograms: number) {
    this.#tally = tally
    this.#firstSeries = series
    this.#firstHistogram = histograms
  }

  /** A batch was carried out. */
  batchEnded({ op, segments, storedBytes, refused, durationUs }: CodedBatch): void {
    const encode = op === 'encode'
    this.#add(encode ? CODEC_COUNT.encodedItems : CODEC_COUNT.decodedItems, segments - refused)
    this.#add(encode ? CODEC_COUNT.encodeBatches : CODEC_COUNT.decodeBatches, 1)
    this.#add(encode ? CODEC_COUNT.encodedBytes : CODEC_COUNT.decodedBytes, storedBytes)
    if (!encode) this.#add(CODEC_COUNT.decodeFailures, refused)
    this.#observe(CODEC_HISTOGRAM.batchSegments, segments)
    this.#observe(encode ? CODEC_HISTOGRAM.encodeDuration : CODEC_HISTOGRAM.decodeDuration, Math.max(0, durationUs))
  }

  /** A batch failed as a whole: nothing is known of its items. */
  batchFailed(op: CodecOp): void {
    if (op === 'decode') this.#add(CODEC_COUNT.decodeFailures, 1)
  }

  /** What the codec says of its memory: bytes lent, bytes held, allocations since the start. */
  workspace(reservedBytes: number, heldBytes: number, allocations: number): void {
    this.#tally.set(this.#firstSeries + CODEC_COUNT.reservedBytes, reservedBytes)
    this.#tally.set(this.#firstSeries + CODEC_COUNT.workspaceBytes, heldBytes)
    this.#tally.set(this.#firstSeries + CODEC_COUNT.workspaceAllocations, allocations)
  }

  #add(counter: number, amount: number): void {
    this.#tally.add(this.#firstSeries + counter, amount)
  }

  #observe(histogram: number, value: number): void {
    this.#tally.observe(this.#firstHistogram + histogram, value)
  }
}
