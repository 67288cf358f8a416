import { invariant } from '../base/invariant.js'
import { NO_OFFSET, SOURCE } from '../layout/descriptors.js'
import { type List, listAt } from '../layout/records.js'

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

/** A stored generation, as far as the job names it: it lies whole in one file. */
interface StoredGeneration {
  readonly generation: number
  readonly store: number
  readonly file: number
  readonly key: number
  /** File offset to position in `granules`. */
  readonly granules: Map<number, Granule>
}

interface Granule {
  readonly sources: number[]
}

/** The batch of a store that still takes reads. */
interface OpenBatch {
  readonly store: number
  readonly granules: Granule[]
  /** Key to the one generation of it in this batch. */
  readonly generations: Map<number, number>
}

const LIMITS: BatchLimits = { generationsMax: BATCH_GENERATIONS_MAX, granulesMax: BATCH_GRANULES_MAX }

/**
 * Groups the sources of a restore into reader batches. A granule that several sources name (layers, ranks, repeated
 * pages) is read once; a batch belongs to one store, holds at most `generationsMax` generations, and never two of one
 * key. Reads are not merged: adjoining granules stay reads of their own, each verified and copied as it lands.
 */
export function planReaderBatches(sources: List, limits: BatchLimits = LIMITS): ReaderPlan {
  const count = sources.length / SOURCE.doubles
  invariant(Number.isInteger(count), 'a source list holds whole descriptors', { length: sources.length })
  const resident: number[] = []
  const batches: OpenBatch[] = []
  const open = new Map<number, OpenBatch>()
  const stored = new Map<number, StoredGeneration>()
  for (let source = 0; source < count; source++) {
    if (field(sources, source, SOURCE.poolOffsetBytes) !== NO_OFFSET) {
      resident.push(source)
      continue
    }
    const generation = generationOf(sources, source, stored)
    const offsetBytes = field(sources, source, SOURCE.fileOffsetBytes)
    const known = generation.granules.get(offsetBytes)
    if (known !== undefined) {
      invariant(sameBytes(sources, known.sources[0] as number, source), 'one granule has one description', { source })
      known.sources.push(source)
      continue
    }
    const granule: Granule = { sources: [source] }
    generation.granules.set(offsetBytes, granule)
    let batch = open.get(generation.store)
    if (batch === undefined || !takes(batch, generation, limits)) {
      batch = { store: generation.store, granules: [], generations: new Map() }
      batches.push(batch)
      open.set(generation.store, batch)
    }
    batch.granules.push(granule)
    batch.generations.set(generation.key, generation.generation)
  }
  return layOut(resident, batches)
}

/** May a batch hold one more granule of this generation? */
function takes(batch: OpenBatch, stored: StoredGeneration, limits: BatchLimits): boolean {
  if (batch.granules.length >= limits.granulesMax) return false
  const ofKey = batch.generations.get(stored.key)
  return ofKey === undefined ? batch.generations.size < limits.generationsMax : ofKey === stored.generation
}

function generationOf(sources: List, source: number, stored: Map<number, StoredGeneration>): StoredGeneration {
  const generation = field(sources, source, SOURCE.generation)
  const store = field(sources, source, SOURCE.store)
  const file = field(sources, source, SOURCE.file)
  const key = field(sources, source, SOURCE.key)
  const found = stored.get(generation) ?? { generation, store, file, key, granules: new Map<number, Granule>() }
  invariant(
    found.store === store && found.file === file && found.key === key,
    'a generation lies whole in one file and has one key',
    { source, generation },
  )
  stored.set(generation, found)
  return found
}

const BYTES_FIELDS = [SOURCE.bytes, SOURCE.segmentBytes, SOURCE.segmentStrideBytes, SOURCE.crc32] as const

function sameBytes(sources: List, a: number, b: number): boolean {
  return BYTES_FIELDS.every((at) => field(sources, a, at) === field(sources, b, at))
}

/** Writes the batches out flat: a lane walks numbers, not objects. */
function layOut(resident: readonly number[], open: readonly OpenBatch[]): ReaderPlan {
  const granules = open.flatMap((batch) => batch.granules)
  const reads = new Int32Array(granules.length)
  const scatterFirst = new Int32Array(granules.length + 1)
  const scatter: number[] = []
  for (const [read, granule] of granules.entries()) {
    reads[read] = granule.sources[0] as number
    scatterFirst[read] = scatter.length
    for (const source of granule.sources) scatter.push(source)
  }
  scatterFirst[granules.length] = scatter.length
  let firstRead = 0
  const batches = open.map(({ store, granules: { length: readCount }, generations }) => {
    const batch: ReaderBatch = { store, firstRead, readCount, generations: generations.size }
    firstRead += readCount
    return batch
  })
  return { resident: Int32Array.from(resident), batches, reads, scatterFirst, scatter: Int32Array.from(scatter) }
}

function field(sources: List, source: number, at: number): number {
  return listAt(sources, source * SOURCE.doubles + at)
}
