import type { Model } from './model.js'
import { versionAt } from './oracle.js'
import type { Pool } from './pool.js'
import { type Coding, decodeToy } from './toy-coding.js'
import { must } from './violation.js'

/** What one sealed generation is: whose key, and the version of each of its segments, by rank, in stored order. */
interface Sealed {
  readonly key: number
  readonly group: number
  readonly versions: readonly Int32Array[]
}

/** The granules of one entry, as storage has them. */
export interface SealedPlaces {
  readonly generation: number
  readonly model: Model
  readonly group: number
  readonly key: number
  readonly granules: readonly {
    readonly rank: number
    readonly poolOffsetBytes: number
    readonly segmentBytes: number
    readonly segmentStrideBytes: number
    readonly itemCount: number
    /** Less than its one item has: a coding of it. */
    readonly storedBytes: number
    readonly crc: number
    readonly coding: Coding
  }[]
}

/**
 * What every published generation holds, read from the pool at the moment of its seal. A generation that is not here
 * was never complete, so nobody may find it (V1); whoever restores one must get these versions and no others.
 */
export class Truth {
  readonly #pool: Pool
  readonly #sealed = new Map<number, Sealed>()
  #lastGeneration = 0

  constructor(pool: Pool) {
    this.#pool = pool
  }

  get sealed(): number {
    return this.#sealed.size
  }

  /** Generations rise over all entries that were ever claimed (G1). */
  claimed(generation: number): void {
    must(generation > this.#lastGeneration, 'G1', () => `generation ${generation} after ${this.#lastGeneration}`)
    this.#lastGeneration = generation
  }

  /** An entry became visible: every word of it must be what some engine wrote for exactly this place. */
  seal(places: SealedPlaces): void {
    const { generation, model, group, key } = places
    const versions: Int32Array[] = []
    const segments = model.segments[group] as Model['segments'][number]
    let granuleAt = 0
    for (let rank = 0; rank < model.plan.ranks; rank++) {
      const seen = new Int32Array(segments.length)
      let next = 0
      for (; places.granules[granuleAt]?.rank === rank; granuleAt++) {
        const granule = places.granules[granuleAt] as SealedPlaces['granules'][number]
        for (let item = 0; item < granule.itemCount; item++) {
          const [words, at] = this.#itemOf(granule, item)
          // Adjacent K and V are stored as one item: it is over when its bytes are.
          for (let done = 0; done < granule.segmentBytes; next++) {
            const segment = segments[next] as (typeof segments)[number]
            const who = model.who(key, group, rank, segment)
            const version = versionAt(words, at + done / 4, segment.words, who)
            must(
              version > 0,
              'V1',
              () => `key ${key} group ${group} is sealed with wrong bytes: ${JSON.stringify(who)}`,
            )
            seen[next] = version
            done += segment.words * 4
          }
        }
      }
      must(next === segments.length, 'V1', () => `key ${key} group ${group} is sealed with ${next} segments`)
      versions.push(seen)
    }
    this.#sealed.set(generation, { key, group, versions })
  }

  /** The words of one item and where they begin: in the pool, or as they are decoded from it. */
  #itemOf(granule: SealedPlaces['granules'][number], item: number): readonly [Uint32Array, number] {
    const { poolOffsetBytes, segmentBytes, segmentStrideBytes, storedBytes, crc, coding, itemCount } = granule
    if (itemCount === 1) {
      const what = `what is sealed at ${poolOffsetBytes}`
      this.#pool.codings.mustBe(poolOffsetBytes, storedBytes, crc, segmentBytes, what)
    }
    if (storedBytes === segmentBytes) {
      return [this.#pool.words, (poolOffsetBytes + item * segmentStrideBytes) / 4]
    }
    const codes = this.#pool.bytes.subarray(poolOffsetBytes, poolOffsetBytes + storedBytes)
    const words = decodeToy(coding, codes, segmentBytes)
    must(words !== null, 'V1', () => `${storedBytes} bytes at ${poolOffsetBytes} are sealed, and are no coding`)
    return [words as Uint32Array, 0]
  }

  /** The generation was sealed, for this key and group: only then may it be leased. */
  mustBeSealed(generation: number, key: number, group: number): void {
    const sealed = this.#sealed.get(generation)
    must(
      sealed !== undefined && sealed.key === key && sealed.group === group,
      'V1',
      () =>
        `generation ${generation} is found for key ${key} group ${group}, it is ${JSON.stringify(sealed ?? 'not sealed')}`,
    )
  }

  version(generation: number, rank: number, segment: number): number {
    return this.#sealed.get(generation)?.versions[rank]?.[segment] ?? -1
  }
}
