import { invariant } from '../base/invariant.js'
import { NO_OFFSET, SOURCE } from '../layout/descriptors.js'
import type { List } from '../layout/records.js'
import { sameStored, sourceField } from './sources.js'

/** Unique generations that one reader batch may hold. */
export const BATCH_GENERATIONS_MAX = 16
/** Granules that one reader batch may hold: what one client may have outstanding at a host-reader. */
export const BATCH_GRANULES_MAX = 256

export interface BatchLimits {
  readonly generationsMax: number
  readonly granulesMax: number
}

/** One submission to one host-reader: reads `firstRead … firstRead + readCount - 1` of the plan. */
export interface ReaderBatch {
  readonly store: number
  readonly firstRead: number
  readonly readCount: number
  readonly generations: number
}

/** What a restore reads and whom each read serves. All numbers called source are positions in the job's source list. */
export interface ReaderPlan {
  /** Sources that are in DRAM already: copied at once, no read. */
  readonly resident: Int32Array
  /** In the order in which a source first needs them, so that copies start early. */
  readonly batches: readonly ReaderBatch[]
  /** For each read the first source that needs it: that source's descriptor says what to read. */
  readonly reads: Int32Array
  /** Read r serves the sources scatter[scatterFirst[r]] … scatter[scatterFirst[r + 1] - 1], in the order of the job. */
  readonly scatterFirst: Int32Array
  readonly scatter: Int32Array
}

const LIMITS: BatchLimits = { generationsMax: BATCH_GENERATIONS_MAX, granulesMax: BATCH_GRANULES_MAX }
const NONE = -1

/**
 * Groups the sources of a restore into reader batches. A granule that several sources name (layers, ranks, repeated
 * pages) is read once; a batch belongs to one store, holds at most `generationsMax` generations, and never two of one
 * key. Reads are not merged: adjoining granules stay reads of their own, each verified and copied as it lands.
 */
export function planReaderBatches(sources: List, limits: BatchLimits = LIMITS): ReaderPlan {
  const count = sources.length / SOURCE.doubles
  invariant(Number.isInteger(count), 'a source list holds whole descriptors', { length: sources.length })
  const resident: number[] = []
  const planner = new Planner(sources, count, limits)
  for (let source = 0; source < count; source++) {
    if (sourceField(sources, source, SOURCE.poolOffsetBytes) !== NO_OFFSET) resident.push(source)
    else planner.add(source)
  }
  return planner.layOut(resident)
}

/** A stored generation, as far as the job names it: it lies whole in one file. */
interface StoredGeneration {
  readonly generation: number
  readonly store: number
  readonly file: number
  readonly key: number
}

/** A batch of a store. */
interface OpenBatch {
  readonly store: number
  /** At most a few: searched in order. */
  readonly generations: StoredGeneration[]
  granules: number
}

/**
 * Granules get numbers in the order in which sources first name them; what is known of each is in columns by number.
 * This runs between the request of a restore and its first read: it makes a few arrays, and no object a granule.
 */
class Planner {
  readonly #sources: List
  readonly #limits: BatchLimits
  readonly #generations = new Map<number, StoredGeneration>()
  /** File offset to the granule found there last; granules of other generations there follow in #sameOffset. */
  readonly #byOffset = new Map<number, number>()
  readonly #batches: OpenBatch[] = []
  /** By store: the position in #batches of the batch that still takes reads. */
  readonly #open: number[] = []
  /** By source: its granule, or NONE. */
  readonly #granuleOf: number[]
  // By granule.
  readonly #firstSource: number[] = []
  readonly #sourceCount: number[] = []
  readonly #batchOf: number[] = []
  readonly #sameOffset: number[] = []

  constructor(sources: List, count: number, limits: BatchLimits) {
    this.#sources = sources
    this.#limits = limits
    this.#granuleOf = new Array<number>(count).fill(NONE)
  }

  /** Adds a source that is read. */
  add(source: number): void {
    const stored = this.#generationOf(source)
    const offsetBytes = sourceField(this.#sources, source, SOURCE.fileOffsetBytes)
    const found = this.#byOffset.get(offsetBytes) ?? NONE
    let granule = found
    while (granule !== NONE && !this.#isOf(granule, stored.generation)) granule = this.#sameOffset[granule] as number
    if (granule === NONE) {
      granule = this.#firstSource.length
      this.#firstSource.push(source)
      this.#sourceCount.push(0)
      this.#sameOffset.push(found)
      this.#batchOf.push(this.#batchFor(stored))
      this.#byOffset.set(offsetBytes, granule)
    } else {
      const same = sameStored(this.#sources, this.#firstSource[granule] as number, source)
      invariant(same, 'one granule has one description', { source })
    }
    this.#granuleOf[source] = granule
    this.#sourceCount[granule] = (this.#sourceCount[granule] as number) + 1
  }

  #isOf(granule: number, generation: number): boolean {
    return sourceField(this.#sources, this.#firstSource[granule] as number, SOURCE.generation) === generation
  }

  #generationOf(source: number): StoredGeneration {
    const sources = this.#sources
    const generation = sourceField(sources, source, SOURCE.generation)
    const store = sourceField(sources, source, SOURCE.store)
    const file = sourceField(sources, source, SOURCE.file)
    const key = sourceField(sources, source, SOURCE.key)
    const found = this.#generations.get(generation)
    if (found === undefined) {
      const stored = { generation, store, file, key }
      this.#generations.set(generation, stored)
      return stored
    }
    invariant(
      found.store === store && found.file === file && found.key === key,
      'a generation lies whole in one file and has one key',
      { source, generation },
    )
    return found
  }

  /** The batch for one more granule of a generation: the store's open one while it may take it, else a new one. */
  #batchFor(stored: StoredGeneration): number {
    const { generationsMax, granulesMax } = this.#limits
    let at = this.#open[stored.store]
    let batch = at === undefined ? undefined : this.#batches[at]
    let ofKey = batch?.generations.find(({ key }) => key === stored.key)
    const takes =
      batch !== undefined &&
      batch.granules < granulesMax &&
      (ofKey === undefined ? batch.generations.length < generationsMax : ofKey.generation === stored.generation)
    if (batch === undefined || at === undefined || !takes) {
      at = this.#batches.length
      batch = { store: stored.store, generations: [], granules: 0 }
      ofKey = undefined
      this.#batches.push(batch)
      this.#open[stored.store] = at
    }
    if (ofKey === undefined) batch.generations.push(stored)
    batch.granules += 1
    return at
  }

  /** Writes the batches out flat: a lane walks numbers, not objects. All arrays of the plan are one piece of memory. */
  layOut(resident: readonly number[]): ReaderPlan {
    const granules = this.#firstSource.length
    const memory = new Int32Array(2 * granules + 1 + this.#granuleOf.length)
    const reads = memory.subarray(0, granules)
    const scatterFirst = memory.subarray(granules, 2 * granules + 1)
    const scatter = memory.subarray(2 * granules + 1, memory.length - resident.length)
    const rest = memory.subarray(memory.length - resident.length)
    rest.set(resident)

    const nextRead: number[] = []
    let firstRead = 0
    const batches = this.#batches.map(({ store, granules: readCount, generations }) => {
      const batch: ReaderBatch = { store, firstRead, readCount, generations: generations.length }
      nextRead.push(firstRead)
      firstRead += readCount
      return batch
    })
    const readOf: number[] = []
    for (let granule = 0; granule < granules; granule++) {
      const batch = this.#batchOf[granule] as number
      const read = nextRead[batch] as number
      nextRead[batch] = read + 1
      reads[read] = this.#firstSource[granule] as number
      readOf.push(read)
      scatterFirst[read + 1] = this.#sourceCount[granule] as number
    }
    for (let read = 0; read < granules; read++) {
      scatterFirst[read + 1] = (scatterFirst[read + 1] as number) + (scatterFirst[read] as number)
    }
    this.#scatter(readOf, scatterFirst, scatter)
    return { resident: rest, batches, reads, scatterFirst, scatter }
  }

  /** The sources of each read, in the order of the job. */
  #scatter(readOf: readonly number[], scatterFirst: Int32Array, scatter: Int32Array): void {
    const taken = new Array<number>(readOf.length).fill(0)
    for (let source = 0; source < this.#granuleOf.length; source++) {
      const granule = this.#granuleOf[source] as number
      if (granule === NONE) continue
      const read = readOf[granule] as number
      const at = taken[read] as number
      taken[read] = at + 1
      scatter[(scatterFirst[read] as number) + at] = source
    }
  }
}
