import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import { COPY } from '../../src/shared/layout/descriptors.js'

/** What a stream said of one job. */
export interface StreamCompletion {
  readonly tag: number
  readonly result: number
  /** Nanoseconds on the device, of a timed stream. */
  readonly nanoseconds: number
}

const MAX_COMPLETIONS = 8192
const PARKED_NATIVE = 2
/** Longest that a test waits for what must come. */
const PATIENCE_MS = 60_000

/** A port over a pool of its own with one stream of a CUDA device, driven from the thread that made it. */
export class CudaLane {
  readonly pool: number
  readonly poolBytes: Uint8Array
  readonly results: Uint32Array
  readonly port: Port
  readonly stream: number
  readonly parkWord: Int32Array
  readonly #native: Native
  readonly #completions: Int32Array

  constructor(native: Native, poolBytes: number, options: StreamOptions = {}) {
    this.#native = native
    const { pool, bytes } = native.openPool(poolBytes)
    this.pool = pool
    this.poolBytes = native.poolView(pool, 0, bytes)
    this.results = new Uint32Array(new SharedArrayBuffer(4 * 4096))
    this.parkWord = new Int32Array(new SharedArrayBuffer(64))
    this.#completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * MAX_COMPLETIONS))
    this.port = native.openPort({
      depth: 64,
      submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * 64)),
      completions: this.#completions,
      results: this.results,
      parkWord: this.parkWord,
      pool: this.pool,
      io: 'posix',
      register: false,
    })
    this.stream = this.port.openStream('cuda:0', options)
  }

  copy(tag: number, direction: 0 | 1, list: readonly number[] | Float64Array): number {
    return this.port.copy(this.stream, tag, direction, Float64Array.from(list), 0, list.length / COPY.doubles)
  }

  checksum(tag: number, list: readonly number[], resultBase = 0): number {
    return this.port.checksum(this.stream, tag, Float64Array.from(list), 0, list.length / 4, resultBase)
  }

  move(tag: number, list: readonly number[]): number {
    return this.port.move(this.stream, tag, Float64Array.from(list), 0, list.length / 5)
  }

  checksumMapped(tag: number, list: readonly number[], resultBase = 0): number {
    return this.port.checksumMapped(this.stream, tag, Float64Array.from(list), 0, list.length / 5, resultBase)
  }

  /** Codings of COPY descriptors with `storedBytes`, on this stream or another of the port. */
  encode(tag: number, list: readonly number[], resultBase = 0, stream = this.stream): number {
    return this.port.encode(stream, tag, Float64Array.from(list), 0, list.length / COPY.doubles, resultBase)
  }

  decode(tag: number, list: readonly number[], resultBase = 0, stream = this.stream): number {
    return this.port.decode(stream, tag, Float64Array.from(list), 0, list.length / COPY.doubles, resultBase)
  }

  /** Waits for exactly `count` completions; `park` sleeps as a lane does. */
  reap(count: number, how: 'pump' | 'park' = 'pump'): StreamCompletion[] {
    const completed: StreamCompletion[] = []
    const deadline = performance.now() + PATIENCE_MS
    while (completed.length < count) {
      this.parkWord[0] = how === 'park' ? PARKED_NATIVE : 0
      const got = how === 'park' ? this.port.park(100_000) : this.port.pump(0, count - completed.length, 100_000)
      if (got < 0) throw new Error(`the port answered ${got}`)
      for (let i = 0; i < got; i++) {
        const [tag = 0, result = 0, nanoseconds = 0] = this.#completions.subarray(i * COMPLETION_WORDS)
        completed.push({ tag, result, nanoseconds })
      }
      if (performance.now() > deadline) throw new Error(`${completed.length} completions of ${count} came`)
    }
    this.parkWord[0] = 0
    if (completed.length !== count) throw new Error(`${completed.length} completions, ${count} expected`)
    return completed
  }

  close(): void {
    this.port.close()
    this.#native.closePool(this.pool)
  }
}
