import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Context } from '../context.js'
import type { DeviceLanes } from '../lanes/device-lanes.js'
import { ChecksumJob, type ChecksumPart } from './parts.js'

/** Where the checksums of one complete entry stand. */
interface Checking {
  jobs: number
  failed: boolean
}

/** What checks tell their publication. */
export interface CheckEnds {
  /** The entry was sealed, or abandoned because a checksum failed: the publication needs it no longer. */
  left(entry: number): void
  /** One job has ended, after every left() that it led to. */
  ended(ok: boolean): void
}

/**
 * Complete entries of one publication on their way to the seal: checksums of what has none, then the seal. Sealed once
 * every job of the entry has ended well; abandoned, when one did not, once all have ended.
 */
export class Checks {
  readonly #context: Context
  readonly #lanes: DeviceLanes
  readonly #ends: CheckEnds
  readonly #jobs = new Set<ChecksumJob>()
  readonly #byEntry = new Map<number, Checking>()

  constructor(context: Context, lanes: DeviceLanes, ends: CheckEnds) {
    this.#context = context
    this.#lanes = lanes
    this.#ends = ends
  }

  /** Jobs that have not ended. */
  get open(): number {
    return this.#jobs.size
  }

  /** Takes as many granules into one job as one record holds. What the codec has checked already is sealed at once. */
  begin(complete: readonly number[]): void {
    const { storage, options } = this.#context
    const max = options.descriptorsPerRecordMax
    let entries: number[] = []
    let granules: number[] = []
    const flush = () => {
      if (entries.length > 0) this.#request({ entries, granules })
      entries = []
      granules = []
    }
    for (const entry of complete) {
      const unchecked = storage.unchecked(entry)
      if (unchecked.length === 0) this.#leave(entry, true)
      if (entries.length + unchecked.length > max) flush()
      for (const granule of unchecked) {
        if (entries.length === max) flush()
        entries.push(entry)
        granules.push(granule)
      }
    }
    flush()
  }

  #request(part: ChecksumPart): void {
    for (const entry of new Set(part.entries)) {
      const checking = this.#byEntry.get(entry) ?? { jobs: 0, failed: false }
      checking.jobs++
      this.#byEntry.set(entry, checking)
    }
    const job = new ChecksumJob(this.#context, this.#lanes, part, (ended, status) => this.#ended(ended, status))
    this.#jobs.add(job)
    this.#lanes.dramJobs.request(job)
  }

  #ended(job: ChecksumJob, status: number): void {
    const ok = status === ERROR_CODES.ok
    this.#jobs.delete(job)
    for (const entry of new Set(job.part.entries)) {
      const checking = this.#byEntry.get(entry)
      invariant(checking !== undefined, 'a checksum that ends was asked for', { entry })
      if (!ok) checking.failed = true
      if (--checking.jobs > 0) continue
      this.#byEntry.delete(entry)
      this.#leave(entry, !checking.failed)
    }
    this.#ends.ended(ok)
  }

  /** Somebody else may have given the entry up meanwhile. */
  #leave(entry: number, ok: boolean): void {
    const { storage } = this.#context
    if (storage.assembling(entry)) {
      if (ok) storage.seal(entry)
      else storage.abandon(entry)
    }
    this.#ends.left(entry)
  }
}
