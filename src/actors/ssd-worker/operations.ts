import { invariant } from '../../shared/base/invariant.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import type { AnyJob, EncodeJob, RestoreJob, WritingJob } from './job.js'

/** Places for operations: both slots, with a copy and some decodings each, an encoding, and all parts of every worker. */
const OPERATIONS = 2048

/** What a tag stands for: the work of a staging slot, or a part of the copies beside it. */
export type Operation =
  | { readonly kind: 'read' | 'scatter'; readonly job: RestoreJob; readonly slot: number }
  | { readonly kind: 'write'; readonly job: WritingJob; readonly slot: number }
  | Decoding
  | Encoding
  | CopyPart

/** Codings of a slot: `sources` have their results at `resultBase` and behind it. */
export interface Decoding extends CodedPart {
  readonly kind: 'decode'
  readonly job: RestoreJob
  readonly slot: number
  readonly sources: Int32Array
}

/** All codings of a job, with two results each from `resultBase` on. */
export interface Encoding {
  readonly kind: 'encode'
  readonly job: EncodeJob
  readonly resultBase: number
  readonly sinceUs: number
}

/** Copies `first … first + count - 1` of a job, or decodings when `coded`. */
export interface CopyPart extends CodedPart {
  readonly kind: 'copy'
  readonly job: AnyJob
  readonly first: number
  readonly count: number
  readonly coded: boolean
  /** Its place among the parts of its worker. */
  readonly place: number
}

interface CodedPart {
  readonly resultBase: number
  readonly storedBytes: number
  readonly sinceUs: number
}

/** What the device works on. Each operation is taken back once, by its tag. */
export class Operations {
  readonly #places = new OperationSlots(OPERATIONS)
  readonly #at: (Operation | null)[] = new Array<null>(OPERATIONS).fill(null)

  get count(): number {
    return this.#places.heldCount
  }

  /** The tag by which the operation will complete. */
  put(operation: Operation): number {
    const place = this.#places.acquire()
    invariant(place >= 0, 'every slot and part of every worker has a place', { inFlight: this.count })
    this.#at[place] = operation
    return this.#places.tagOf(place)
  }

  /** The operation that completed, which is no more; null for a tag that names nothing in flight. */
  take(tag: number): Operation | null {
    const place = this.#places.resolve(tag)
    if (place < 0) return null
    const operation = this.#at[place] as Operation
    this.#at[place] = null
    this.#places.release(place)
    return operation
  }
}
