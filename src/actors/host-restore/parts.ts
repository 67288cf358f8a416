import { invariant } from '../../shared/base/invariant.js'
import { COPY, SOURCE } from '../../shared/layout/descriptors.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import type { RestoreJob } from './job.js'

export interface CopyPartsOptions {
  /** Parts on the stream at once, a power of two. */
  readonly parts: number
  /** Copies in one part at most. */
  readonly partDescriptors: number
}

/** COPY descriptors from pool to pages; they stay as they are until the part has ended. */
export interface CopyPart {
  readonly kind: 'copy'
  readonly tag: number
  readonly doubles: Float64Array
  readonly offset: number
  readonly count: number
}

/**
 * The copies on the lane's stream, in parts: each is of one job, has a place of its own for its descriptors, and ends
 * once, by its tag.
 */
export class CopyParts {
  readonly #partDescriptors: number
  readonly #places: OperationSlots
  readonly #jobAt: (RestoreJob | null)[]
  readonly #sources: Int32Array
  readonly #counts: Int32Array
  /** Descriptors of the parts on the stream, `partDescriptors` for each place. */
  readonly #doubles: Float64Array

  constructor({ parts, partDescriptors }: CopyPartsOptions) {
    this.#partDescriptors = partDescriptors
    this.#places = new OperationSlots(parts)
    this.#jobAt = new Array<RestoreJob | null>(parts).fill(null)
    this.#sources = new Int32Array(parts * partDescriptors)
    this.#counts = new Int32Array(parts)
    this.#doubles = new Float64Array(parts * partDescriptors * COPY.doubles)
  }

  get count(): number {
    return this.#places.heldCount
  }

  get freeCount(): number {
    return this.#places.freeCount
  }

  /** Takes the sources of a job that are ready, as many as a part holds. There is a free place. */
  take(job: RestoreJob): CopyPart {
    const place = this.#places.acquire()
    invariant(place >= 0, 'a part has a free place', { job: job.id })
    const first = place * this.#partDescriptors
    const count = Math.min(job.readyCount, this.#partDescriptors)
    for (let each = 0; each < count; each++) {
      const source = job.shiftReady()
      this.#sources[first + each] = source
      this.#write(job, source, (first + each) * COPY.doubles)
    }
    this.#jobAt[place] = job
    this.#counts[place] = count
    job.partsInFlight += 1
    return {
      kind: 'copy',
      tag: this.#places.tagOf(place),
      doubles: this.#doubles,
      offset: first * COPY.doubles,
      count,
    }
  }

  #write(job: RestoreJob, source: number, at: number): void {
    this.#doubles[at + COPY.template] = job.field(source, SOURCE.template)
    this.#doubles[at + COPY.granule] = job.field(source, SOURCE.granule)
    this.#doubles[at + COPY.page] = job.field(source, SOURCE.page)
    this.#doubles[at + COPY.poolOffsetBytes] = job.poolOffsetBytes(source)
    this.#doubles[at + COPY.firstItem] = job.field(source, SOURCE.firstItem)
    this.#doubles[at + COPY.itemCount] = job.field(source, SOURCE.itemCount)
    this.#doubles[at + COPY.storedBytes] = 0
  }

  /** The part that ended, which is on the stream no more; null for a tag that names none. */
  ended(tag: number): { readonly job: RestoreJob; readonly sources: Int32Array } | null {
    const place = this.#places.resolve(tag)
    if (place < 0) return null
    const job = this.#jobAt[place]
    invariant(job !== null && job !== undefined, 'a held place names its job', { place })
    const first = place * this.#partDescriptors
    const sources = this.#sources.slice(first, first + (this.#counts[place] as number))
    this.#jobAt[place] = null
    this.#places.release(place)
    job.partsInFlight -= 1
    return { job, sources }
  }
}
