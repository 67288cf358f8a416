import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import type { DeviceName } from '../../src/shared/base/device-name.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { Refusal } from './options.js'

/** Descriptors of a job, as a lane queues them. */
export const CODED_DESCRIPTORS = 256
/** Descriptors of one call of encode() or decode() here. */
const DESCRIPTORS_MAX = 16_384
const RESULT_WORDS = 2
const PUMP_US = 100_000

/** What encode() said of one page item. */
export interface Coded {
  /** Bytes that are stored: as many as the item has when it is raw. */
  readonly stored: number
  readonly crc: number
}

/** A stream of a device, or of the host, over a pool of its own, that codes pages in jobs as a lane does. */
export class CodecLane {
  /** The pool's memory. */
  readonly pool: Buffer
  readonly port: Port
  readonly #native: Native
  readonly #poolNumber: number
  readonly #stream: number
  readonly #results = new Uint32Array(new SharedArrayBuffer(4 * RESULT_WORDS * DESCRIPTORS_MAX))
  readonly #completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 8192))

  constructor(native: Native, device: DeviceName, poolBytes: number, options: StreamOptions) {
    this.#native = native
    const { pool, bytes } = native.openPool(poolBytes)
    this.#poolNumber = pool
    const view = native.poolView(pool, 0, bytes)
    this.pool = Buffer.from(view.buffer, view.byteOffset, bytes)
    this.port = native.openPort({
      depth: 64,
      submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * 64)),
      completions: this.#completions,
      results: this.#results,
      parkWord: new Int32Array(new SharedArrayBuffer(64)),
      pool,
      io: 'posix',
      register: false,
    })
    this.#stream = this.port.openStream(device, options)
  }

  /** Pages to the pool; `us` from the first job to the last completion. @throws Refusal where the stream codes nothing. */
  encode(list: Float64Array): { readonly us: number; readonly coded: Coded[] } {
    const us = this.#run('encode', list, RESULT_WORDS)
    const coded = Array.from({ length: list.length / COPY.doubles }, (_, i) => ({
      stored: this.#results[RESULT_WORDS * i] as number,
      crc: this.#results[RESULT_WORDS * i + 1] as number,
    }))
    return { us, coded }
  }

  /** The pool to pages. @throws Error when a coding is refused. */
  decode(list: Float64Array): number {
    const us = this.#run('decode', list, 1)
    const refused = this.#results.subarray(0, list.length / COPY.doubles).findIndex((word) => word !== 0)
    if (refused >= 0) throw new Error(`descriptor ${refused} was refused as no coding`)
    return us
  }

  #run(what: 'encode' | 'decode', list: Float64Array, words: number): number {
    const count = list.length / COPY.doubles
    if (count > DESCRIPTORS_MAX) throw new Error(`${count} descriptors, ${DESCRIPTORS_MAX} at most`)
    const startMs = performance.now()
    let jobs = 0
    for (let first = 0; first < count; first += CODED_DESCRIPTORS) {
      const here = Math.min(CODED_DESCRIPTORS, count - first)
      const accepted = this.port[what](this.#stream, jobs, list, first * COPY.doubles, here, first * words)
      if (accepted === -95) throw new Refusal(`Cannot ${what} on this stream: it has no codec`)
      if (accepted !== 0) throw new Error(`${what} was refused: ${accepted}`)
      jobs += 1
    }
    for (let ended = 0; ended < jobs; ) {
      const got = this.port.pump(0, 1, PUMP_US)
      if (got < 0) throw new Error(`the port answered ${got}`)
      for (let i = 0; i < got; i++) {
        const result = this.#completions[i * COMPLETION_WORDS + 1] as number
        if (result !== 0) throw new Error(`a job of ${what} ended with ${result}`)
      }
      ended += got
    }
    return (performance.now() - startMs) * 1000
  }

  close(): void {
    this.port.close()
    this.#native.closePool(this.#poolNumber)
  }
}
