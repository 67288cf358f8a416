import { EngineMemory } from './descriptors.js'
import type { Flights } from './ledger.js'
import type { Model, Segment } from './model.js'
import { versionAt, writeContent } from './oracle.js'
import { must, Violation } from './violation.js'

/** One page of one group. */
export interface PageRef {
  readonly group: number
  readonly page: number
}

/** What pages hold that the engine has put to other use: never equal to content of any version. */
let scrap = 0x51000000

/**
 * The pages of one rank. A page is free, a source (its bytes must stay), or a destination (anybody's guess until the
 * restore ends). Everything but destinations must equal the shadow at all times; a page that becomes free is used for
 * something else at once, so that whoever touches it late is found.
 */
export class RankPages {
  readonly model: Model
  readonly rank: number
  readonly memory: EngineMemory
  readonly #uses: Int32Array[]
  readonly #destinations = new Set<PageRef>()

  constructor(name: string, model: Model, rank: number) {
    this.model = model
    this.rank = rank
    this.memory = new EngineMemory(name, model.bytes)
    this.memory.words.fill(++scrap)
    this.memory.shadowWords.fill(scrap)
    this.#uses = Array.from({ length: model.groups }, () => new Int32Array(model.plan.pages))
  }

  free(group: number, page: number): boolean {
    return this.#uses[group]?.[page] === 0
  }

  use({ group, page }: PageRef): void {
    const uses = this.#uses[group] as Int32Array
    uses[page] = (uses[page] as number) + 1
  }

  /** One use of the page has ended; after the last one it is overwritten at once. */
  leave(ref: PageRef): void {
    const uses = this.#uses[ref.group] as Int32Array
    uses[ref.page] = (uses[ref.page] as number) - 1
    must((uses[ref.page] as number) >= 0, 'harness', () => 'a page is left that nobody used')
    this.#destinations.delete(ref)
    if (uses[ref.page] === 0) this.#scrap(ref)
  }

  /** The engine computes a block: content of `key`, in memory and in the shadow. */
  write({ group, page }: PageRef, key: number, version: number): void {
    for (const segment of this.#segments(group)) {
      const at = wordOf(segment, page)
      const who = this.model.who(key, group, this.rank, segment)
      writeContent(this.memory.words, at, segment.words, who, version)
      this.memory.shadowWords.set(this.memory.words.subarray(at, at + segment.words), at)
    }
  }

  /** From now on a restore may write the page. */
  expose(ref: PageRef): void {
    this.#destinations.add(ref)
  }

  /** Throws when any byte differs that nobody was allowed to write. */
  check(): void {
    const { bytes, words, shadow, shadowWords, name } = this.memory
    for (const { group, page } of this.#destinations) {
      for (const segment of this.#segments(group)) {
        const at = wordOf(segment, page)
        shadowWords.set(words.subarray(at, at + segment.words), at)
      }
    }
    if (Buffer.compare(bytes, shadow) === 0) return
    const at = bytes.findIndex((byte, index) => byte !== shadow[index])
    throw new Violation('V4', `byte ${at} of ${name} was changed, and nobody was allowed to: ${this.#whose(at)}`)
  }

  /** Nothing in flight touches the page: its slot says so. */
  mustBeStill({ group, page }: PageRef, layers: readonly number[] | null, flights: Flights): void {
    for (const segment of this.#segments(group)) {
      if (layers !== null && !layers.includes(segment.layer)) continue
      const start = wordOf(segment, page) * 4
      flights.mustBeClear(this.memory.name, start, start + segment.words * 4, 'a slot ended for')
    }
  }

  /** Every segment of a restored page holds `key`, in the versions that were sealed. */
  verify({ group, page }: PageRef, key: number, sealed: (segment: number) => number): void {
    for (const [index, segment] of this.#segments(group).entries()) {
      const who = this.model.who(key, group, this.rank, segment)
      const version = versionAt(this.memory.words, wordOf(segment, page), segment.words, who)
      const wanted = sealed(index)
      must(
        version > 0 && version === wanted,
        'V5',
        () => `a restore of key ${key} gave version ${version} of ${JSON.stringify(who)}, sealed was ${wanted}`,
      )
    }
  }

  #scrap({ group, page }: PageRef): void {
    scrap = scrap >= 0x51ffffff ? 0x51000000 : scrap + 1
    for (const segment of this.#segments(group)) {
      const at = wordOf(segment, page)
      this.memory.words.fill(scrap, at, at + segment.words)
      this.memory.shadowWords.fill(scrap, at, at + segment.words)
    }
  }

  #segments(group: number): readonly Segment[] {
    return this.model.segments[group] as readonly Segment[]
  }

  #whose(at: number): string {
    for (let group = 0; group < this.model.groups; group++) {
      for (const segment of this.#segments(group)) {
        for (let page = 0; page < this.model.plan.pages; page++) {
          const start = wordOf(segment, page) * 4
          if (at >= start && at < start + segment.words * 4) {
            return `page ${page} of group ${group}, layer ${segment.layer}, used ${this.#uses[group]?.[page]} times`
          }
        }
      }
    }
    return 'a gap'
  }
}

function wordOf(segment: Segment, page: number): number {
  return (segment.offsetBytes + page * segment.pageStrideBytes) / 4
}
