import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import {
  SUBMISSION_DOUBLES,
  SUBMIT_FLAG_VERIFY,
  SUBMIT_READ,
  SUBMIT_WRITE,
  SUBMIT_WRITE_SPANS,
} from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import { WRITE, WRITE_SPANS_MAX } from '../../src/shared/layout/descriptors.js'

const CODES = { read: SUBMIT_READ, write: SUBMIT_WRITE, 'write-spans': SUBMIT_WRITE_SPANS } as const

/** One completion as words. */
export interface Completed {
  readonly tag: number
  readonly result: number
  readonly aux: number
  readonly kind: number
}

/** One read or write; `verify` asks for a check of the bytes that came. */
export interface Submission {
  readonly op: keyof typeof CODES
  readonly tag: number
  readonly file: number
  readonly fileOffset: number
  /** Of a write of spans: how many. */
  readonly poolOffset: number
  readonly bytes: number
  /** Pool offset and bytes of each. */
  readonly spans?: readonly (readonly [offset: number, bytes: number])[]
  readonly verify?: { readonly segmentBytes: number; readonly segmentStride: number; readonly crc32: number }
}

export interface TestPortOptions {
  readonly io: 'uring' | 'posix'
  readonly pool?: number
  readonly depth?: number
  readonly register?: boolean
  /** It takes writes of spans. */
  readonly spans?: boolean
}

/** Longest that a test waits for completions that must come. */
const PATIENCE_MS = 60_000

/** A port with its shared arrays, driven from the thread that made it. */
export class TestPort {
  readonly port: Port
  readonly depth: number
  readonly submissions: Float64Array
  readonly spans: Float64Array
  readonly completions: Int32Array
  /** Element 0 is the park word. */
  readonly parkWord: Int32Array

  constructor(native: Native, { io, pool = -1, depth = 8, register = true, spans = false }: TestPortOptions) {
    this.depth = depth
    this.submissions = new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * depth))
    this.spans = new Float64Array(new SharedArrayBuffer(spans ? 8 * WRITE.doubles * WRITE_SPANS_MAX * depth : 0))
    this.completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 2 * depth))
    this.parkWord = new Int32Array(new SharedArrayBuffer(4))
    this.port = native.openPort({
      depth,
      submissions: this.submissions,
      ...(spans ? { spans: this.spans } : {}),
      completions: this.completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: this.parkWord,
      pool,
      io,
      register,
    })
  }

  /** Writes entry `index` of the submission list. */
  put(index: number, submission: Submission): void {
    const { op, tag, file, fileOffset, poolOffset, bytes, spans, verify } = submission
    const code = CODES[op] + (verify === undefined ? 0 : 256 * SUBMIT_FLAG_VERIFY)
    const { segmentBytes = 0, segmentStride = 0, crc32 = 0 } = verify ?? {}
    this.submissions.set(
      [code, tag, file, fileOffset, poolOffset, bytes, segmentBytes, segmentStride, crc32, 0],
      index * SUBMISSION_DOUBLES,
    )
    if (spans !== undefined) this.spans.set(spans.flat(), index * WRITE_SPANS_MAX * WRITE.doubles)
  }

  /** The first `count` completions of the list. */
  list(count: number): Completed[] {
    if (count < 0) throw new Error(`the port answered errno ${-count}`)
    return Array.from({ length: count }, (_, i) => {
      const [tag = 0, result = 0, aux = 0, kind = 0] = this.completions.subarray(i * COMPLETION_WORDS)
      return { tag, result, aux, kind }
    })
  }

  /** Waits for `count` completions; more than that is an error. */
  reap(count: number): Completed[] {
    const completed: Completed[] = []
    const deadline = performance.now() + PATIENCE_MS
    while (completed.length < count) {
      completed.push(...this.list(this.port.pump(0, count - completed.length, 100_000)))
      if (performance.now() > deadline) throw new Error(`${completed.length} completions of ${count} came`)
    }
    if (completed.length > count) throw new Error(`${completed.length} completions, ${count} expected`)
    return completed
  }

  /** Submits a list and waits for all of it; results in the order of the list (tags are set). */
  run(submissions: readonly Omit<Submission, 'tag'>[]): number[] {
    submissions.forEach((submission, tag) => void this.put(tag, { ...submission, tag }))
    const first = this.list(this.port.pump(submissions.length, 0, 0))
    const results = new Array<number>(submissions.length).fill(Number.NaN)
    for (const { tag, result } of [...first, ...this.reap(submissions.length - first.length)]) results[tag] = result
    return results
  }

  close(): void {
    this.port.close()
  }
}
