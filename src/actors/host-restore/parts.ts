import { invariant } from '../../shared/base/invariant.js'
import { CODEC_PART_BYTES } from '../../shared/codec/lane-series.js'
import { COPY, SOURCE } from '../../shared/layout/descriptors.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import type { RestoreJob } from './job.js'

export interface CopyPartsOptions {
  /** Parts on the stream at once, a power of two. */
  readonly parts: number
  /** Copies in one part at most. */
  readonly partDescriptors: number
  /** Decodings in one part at most, with a result each; absent: no job has any. */
  readonly codedDescriptors?: number
}

/** Results that the parts on the stream can have outstanding: what the port of the lane needs. */
export function resultsOf({ parts, codedDescriptors = 0 }: CopyPartsOptions): number {
  return parts * codedDescriptors
}

/** COPY descriptors from pool to pages; they stay as they are until the part has ended. */
interface Descriptors {
  readonly tag: number
  readonly doubles: Float64Array
  readonly offset: number
  readonly count: number
}

export type CopyPart =
  | (Descriptors & { readonly kind: 'copy' })
  /** All coded; their results go to `resultBase` and behind it. */
  | (Descriptors & { readonly kind: 'decode'; readonly resultBase: number })

/** A part on the stream. */
interface Queued {
  readonly kind: 'copy' | 'decode'
  readonly job: RestoreJob
  readonly count: number
  readonly sinceUs: number
  readonly storedBytes: number
}

/** A part that ended, and what it was of. */
export interface EndedPart extends Queued {
  readonly sources: Int32Array
  /** Where its results are; only of decodings. */
  readonly resultBase: number
}

/**
 * The copies and decodings on the lane's stream, in parts: each is of one job and one kind, has a place of its own for its
 * descriptors and results, and ends once, by its tag. A job with both ready has its parts in turn.
 */
export class CopyParts {
  readonly #options: Required<CopyPartsOptions>
  /** Descriptors of one place. */
  readonly #each: number
  readonly #places: OperationSlots
  readonly #at: (Queued | null)[]
  readonly #sources: Int32Array
  readonly #doubles: Float64Array

  constructor({ parts, partDescriptors, codedDescriptors = 0 }: CopyPartsOptions) {
    this.#options = { parts, partDescriptors, codedDescriptors }
    this.#each = Math.max(partDescriptors, codedDescriptors)
    this.#places = new OperationSlots(parts)
    this.#at = new Array<Queued | null>(parts).fill(null)
    this.#sources = new Int32Array(parts * this.#each)
    this.#doubles = new Float64Array(parts * this.#each * COPY.doubles)
  }

  get count(): number {
    return this.#places.heldCount
  }

  get freeCount(): number {
    return this.#places.freeCount
  }

  /** Takes sources of a job that are ready, as many of one kind as a part holds. There is a free place. */
  take(job: RestoreJob, nowUs: number): CopyPart {
    const place = this.#places.acquire()
    invariant(place >= 0, 'a part has a free place', { job: job.id })
    const kind = kindOf(job)
    const { count, storedBytes } = this.#fill(job, kind, place * this.#each)
    this.#at[place] = { kind, job, count, storedBytes, sinceUs: nowUs }
    job.partsInFlight += 1
    const offset = place * this.#each * COPY.doubles
    const part = { tag: this.#places.tagOf(place), doubles: this.#doubles, offset, count }
    return kind === 'copy' ? { kind, ...part } : { kind, ...part, resultBase: this.#resultBase(place) }
  }

  /** Writes the descriptors of the next sources that are ready. */
  #fill(job: RestoreJob, kind: 'copy' | 'decode', first: number): { count: number; storedBytes: number } {
    const ready = job.readyFor(kind)
    const countMax = kind === 'copy' ? this.#options.partDescriptors : this.#options.codedDescriptors
    invariant(countMax > 0, 'a lane that was told of no codec gets nothing coded', { job: job.id })
    let count = 0
    let storedBytes = 0
    while (count < countMax && ready.count > 0) {
      const bytes = job.field(ready.next, SOURCE.segmentBytes)
      if (kind === 'decode' && count > 0 && storedBytes + bytes > CODEC_PART_BYTES) break
      const source = ready.shift()
      this.#sources[first + count] = source
      this.#write(job, source, kind === 'decode' ? bytes : 0, (first + count) * COPY.doubles)
      storedBytes += bytes
      count += 1
    }
    return { count, storedBytes }
  }

  #write(job: RestoreJob, source: number, storedBytes: number, at: number): void {
    this.#doubles[at + COPY.template] = job.field(source, SOURCE.template)
    this.#doubles[at + COPY.granule] = job.field(source, SOURCE.granule)
    this.#doubles[at + COPY.page] = job.field(source, SOURCE.page)
    this.#doubles[at + COPY.poolOffsetBytes] = job.poolOffsetBytes(source)
    this.#doubles[at + COPY.firstItem] = job.field(source, SOURCE.firstItem)
    this.#doubles[at + COPY.itemCount] = job.field(source, SOURCE.itemCount)
    this.#doubles[at + COPY.storedBytes] = storedBytes
  }

  #resultBase(place: number): number {
    return place * this.#options.codedDescriptors
  }

  /** The part that ended, which is on the stream no more; null for a tag that names none. */
  ended(tag: number): EndedPart | null {
    const place = this.#places.resolve(tag)
    if (place < 0) return null
    const queued = this.#at[place]
    invariant(queued !== null && queued !== undefined, 'a held place names its job', { place })
    const first = place * this.#each
    const sources = this.#sources.slice(first, first + queued.count)
    this.#at[place] = null
    this.#places.release(place)
    queued.job.partsInFlight -= 1
    return { ...queued, sources, resultBase: this.#resultBase(place) }
  }
}

/** What a job with something ready has next; copies and decodings alternate while both are. */
function kindOf(job: RestoreJob): 'copy' | 'decode' {
  const other = job.nextKind === 'copy' ? 'decode' : 'copy'
  const kind = job.readyFor(job.nextKind).count > 0 ? job.nextKind : other
  job.nextKind = kind === 'copy' ? 'decode' : 'copy'
  return kind
}
