import { ERROR_CODES } from '../../shared/base/errors.js'
import { COPY, TARGET } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt } from '../../shared/layout/records.js'
import { planStagingWrites, type StagingChunk } from '../../shared/planning/staging-writes.js'

/** TARGET descriptors cut into chunks: which have not started, and what has become of each object. */
export class Targets {
  readonly list: List
  readonly chunks: readonly StagingChunk[]
  /** By TARGET.object: `cancelled` until its last chunk is written. */
  readonly objects: Float64Array
  #next = 0

  constructor(list: List, slotBytes: number) {
    this.list = list
    this.chunks = planStagingWrites(list, slotBytes)
    let objects = 0
    for (let target = 0; target < this.count; target++) {
      objects = Math.max(objects, this.field(target, TARGET.object) + 1)
    }
    this.objects = new Float64Array(objects).fill(ERROR_CODES.cancelled)
  }

  get count(): number {
    return this.list.length / TARGET.doubles
  }

  field(target: number, at: number): number {
    return listAt(this.list, target * TARGET.doubles + at)
  }

  /** Chunks that have not started. */
  get left(): number {
    return this.chunks.length - this.#next
  }

  /** Starts the next chunk. */
  take(): number {
    return this.#next++
  }

  drop(): void {
    this.#next = this.chunks.length
  }

  /** A chunk was written in full; the last one of an object makes the object whole. */
  written(chunk: number): boolean {
    const { object } = this.chunks[chunk] as StagingChunk
    if (this.chunks[chunk + 1]?.object === object) return false
    this.objects[object] = ERROR_CODES.ok
    return true
  }

  failed(chunk: number, status: number): void {
    this.objects[(this.chunks[chunk] as StagingChunk).object] = status
  }

  /** The COPY descriptor of a target's bytes between its page and `poolOffsetBytes`, of the pool or of a slot. */
  writeCopy(target: number, poolOffsetBytes: number, doubles: Float64Array, at: number): void {
    doubles[at + COPY.template] = this.field(target, TARGET.template)
    doubles[at + COPY.granule] = this.field(target, TARGET.granule)
    doubles[at + COPY.page] = this.field(target, TARGET.page)
    doubles[at + COPY.poolOffsetBytes] = poolOffsetBytes
    doubles[at + COPY.firstItem] = 0
    doubles[at + COPY.itemCount] = this.field(target, TARGET.itemCount)
    doubles[at + COPY.storedBytes] = 0
  }
}

export const NO_TARGETS = new Targets(EMPTY_LIST, 0)
