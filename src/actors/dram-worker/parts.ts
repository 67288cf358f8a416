import { invariant } from '../../shared/base/invariant.js'
import type { CodecOp } from '../../shared/codec/lane-series.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'

/** What the stream does with a part. */
export type PartKind = 'copy' | 'checksum' | CodecOp

/** Next descriptors of a job that go to the stream together: all of one kind. */
export interface Part {
  readonly kind: PartKind
  readonly doubles: Float64Array
  readonly offset: number
  readonly count: number
  /** Position of the first descriptor in the whole job. */
  readonly first: number
  /** Stored bytes of those that are coded. */
  readonly storedBytes: number
}

/** A job as its parts see it. */
export interface PartOwner {
  readonly id: number
  partsInFlight: number
}

/** A part on the stream. */
export interface QueuedPart<Job extends PartOwner> extends Part {
  readonly job: Job
  readonly sinceUs: number
  /** Where its results are, in the port's results. */
  readonly resultBase: number
}

export interface PartsOptions {
  /** Parts on the stream at once, a power of two. */
  readonly parts: number
  /** Descriptors in one part at most: the grain of cancellation and of turns. */
  readonly partDescriptors: number
  /** The same for coded ones, with two results each when they are encoded; absent: no job has any. */
  readonly codedDescriptors?: number
}

/** Results that the parts on the stream can have outstanding: what the port of the lane needs. */
export function resultsOf(options: PartsOptions): number {
  return options.parts * resultsEach(options)
}

function resultsEach({ partDescriptors, codedDescriptors = 0 }: PartsOptions): number {
  return Math.max(partDescriptors, 2 * codedDescriptors)
}

/** The parts on the lane's stream: each has a place for its results and ends once, by its tag. */
export class StreamParts<Job extends PartOwner> {
  readonly #places: OperationSlots
  readonly #at: (QueuedPart<Job> | null)[]
  readonly #resultsEach: number

  constructor(options: PartsOptions) {
    this.#places = new OperationSlots(options.parts)
    this.#at = new Array<QueuedPart<Job> | null>(options.parts).fill(null)
    this.#resultsEach = resultsEach(options)
  }

  get count(): number {
    return this.#places.heldCount
  }

  get freeCount(): number {
    return this.#places.freeCount
  }

  get capacity(): number {
    return this.#places.capacity
  }

  /** Gives a part its place; there is a free one. */
  put(job: Job, part: Part, sinceUs: number): { readonly tag: number; readonly resultBase: number } {
    const place = this.#places.acquire()
    invariant(place >= 0, 'a part has a free place', { job: job.id })
    const resultBase = place * this.#resultsEach
    this.#at[place] = { ...part, job, sinceUs, resultBase }
    job.partsInFlight += 1
    return { tag: this.#places.tagOf(place), resultBase }
  }

  /** The part that ended, which is on the stream no more; null for a tag that names none. */
  ended(tag: number): QueuedPart<Job> | null {
    const place = this.#places.resolve(tag)
    if (place < 0) return null
    const part = this.#at[place]
    invariant(part !== null && part !== undefined, 'a held place names its part', { place })
    this.#at[place] = null
    this.#places.release(place)
    part.job.partsInFlight -= 1
    return part
  }
}
