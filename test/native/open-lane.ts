import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'

/** One completion as words. */
export interface Completed {
  readonly tag: number
  readonly result: number
  readonly kind: number
}

/** A port over its own pool and one host stream, for tests that drive them from the main thread. */
export class NativeLane {
  readonly pool: number
  /** All of the pool, which is rounded up to whole huge pages. */
  readonly poolBytes: Uint8Array
  readonly results: Uint32Array
  readonly port: Port
  readonly stream: number
  readonly #native: Native
  readonly #completions: Int32Array

  constructor(native: Native, poolBytes: number) {
    this.#native = native
    const { pool, bytes } = native.openPool(poolBytes)
    this.pool = pool
    this.poolBytes = native.poolView(pool, 0, bytes)
    this.results = new Uint32Array(new SharedArrayBuffer(4 * 4096))
    this.#completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 4096))
    this.port = native.openPort({
      depth: 64,
      submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * 64)),
      completions: this.#completions,
      results: this.results,
      parkWord: new Int32Array(new SharedArrayBuffer(64)),
      pool: this.pool,
      io: 'posix',
      register: false,
    })
    this.stream = this.port.openStream('host')
  }

  /** Waits for exactly `count` completions. */
  reap(count: number): Completed[] {
    const completed: Completed[] = []
    while (completed.length < count) {
      const got = this.port.pump(0, count - completed.length, 100_000)
      if (got < 0) throw new Error(`pump: ${got}`)
      for (let i = 0; i < got; i++) {
        const [tag = 0, result = 0, , kind = 0] = this.#completions.subarray(i * COMPLETION_WORDS)
        completed.push({ tag, result, kind })
      }
    }
    if (completed.length !== count) throw new Error(`${completed.length} completions, ${count} expected`)
    return completed
  }

  /** Completions that are there without waiting. */
  pending(): number {
    return this.port.pump(0, 0, 0)
  }

  close(): void {
    this.port.close()
    this.#native.closePool(this.pool)
  }
}
