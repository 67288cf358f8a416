import { invariant } from '../../shared/base/invariant.js'
import type { StorageClass } from './classes.js'
import type { Entries } from './entries.js'
import type { GranuleRun } from './ports.js'

/** What is known of one item: nobody brought it, a copy of it is in flight, it has landed. */
const MISSING = 0
const COPYING = 1
const LANDED = 2

/** One block that is being put together from what its ranks bring. */
interface Assembly {
  readonly shape: StorageClass
  readonly items: Uint8Array
  /** Items that have not landed. */
  itemsLeft: number
  readonly checked: Uint8Array
  /** Granules without a checksum. */
  checksLeft: number
  progressUs: number
}

/** Numbers in one run: granule, first item inside the granule, item count. */
export const RUN_NUMBERS = 3

/**
 * The blocks that are not whole yet: one assembly an entry, whichever ranks and publications bring its parts. Every
 * run that is being copied is an interest in the entry, so that giving an assembly up never frees memory under a copy.
 */
export class Assemblies {
  readonly #entries: Entries
  /** In order of last progress, oldest first. */
  readonly #open = new Map<number, Assembly>()
  #copying = 0
  #bytes = 0

  constructor(entries: Entries) {
    this.#entries = entries
  }

  get count(): number {
    return this.#open.size
  }

  /** Runs whose copies are in flight, of open and of given up assemblies. */
  get copiesInFlight(): number {
    return this.#copying
  }

  /** Stored bytes of open assemblies. */
  get bytes(): number {
    return this.#bytes
  }

  has(entry: number): boolean {
    return this.#open.has(entry)
  }

  begin(entry: number, nowUs: number): void {
    const shape = this.#entries.shape(entry)
    const granules = shape.geometry.granules.length
    const items = shape.itemBase[granules] as number
    this.#bytes += shape.geometry.extentBytes
    this.#open.set(entry, {
      shape,
      items: new Uint8Array(items),
      itemsLeft: items,
      checked: new Uint8Array(granules),
      checksLeft: granules,
      progressUs: nowUs,
    })
  }

  /** True while something of `offered` was neither brought nor is on its way. */
  wants(entry: number, offered: readonly GranuleRun[]): boolean {
    const { items, shape } = this.#expect(entry)
    return offered.some(({ granule, firstItem, itemCount }) => {
      const first = (shape.itemBase[granule] as number) + firstItem
      return items.subarray(first, first + itemCount).includes(MISSING)
    })
  }

  /** True while nothing of the block was brought, and nothing of it is on its way. */
  untouched(entry: number): boolean {
    return this.#expect(entry).items.every((item) => item === MISSING)
  }

  /** Appends to `runs` what is missing of `offered`; each appended run is now being copied. Returns runs added. */
  contribute(entry: number, offered: readonly GranuleRun[], runs: number[], nowUs: number): number {
    const assembly = this.#expect(entry)
    invariant(this.#entries.hasMemory(entry), 'a contribution needs memory to land in', { entry })
    const before = runs.length
    for (const run of offered) this.#claimMissing(assembly, run, runs)
    const added = (runs.length - before) / RUN_NUMBERS
    for (let run = 0; run < added; run++) this.#entries.hold(entry)
    this.#copying += added
    if (added > 0) this.#progress(entry, assembly, nowUs)
    return added
  }

  /** Copies of runs[from … end) have ended: their items have landed, or are missing again. */
  ended(entry: number, runs: readonly number[], from: number, end: number, landed: boolean, nowUs: number): void {
    const assembly = this.#open.get(entry)
    for (let at = from; at < end; at += RUN_NUMBERS) {
      if (assembly !== undefined) this.#settleRun(assembly, runs, at, landed)
      this.#copying--
      this.#entries.drop(entry)
    }
    if (assembly !== undefined) this.#progress(entry, assembly, nowUs)
  }

  complete(entry: number): boolean {
    return this.#open.get(entry)?.itemsLeft === 0
  }

  /** A granule's checksum is known. */
  checked(entry: number, granule: number): void {
    const assembly = this.#expect(entry)
    if (assembly.checked[granule] === 1) return
    assembly.checked[granule] = 1
    assembly.checksLeft--
  }

  /** Ends the assembly of an entry that is whole. */
  finish(entry: number): void {
    const { itemsLeft, checksLeft } = this.#expect(entry)
    invariant(itemsLeft === 0 && checksLeft === 0, 'a block is sealed when every item has landed and is checked', {
      entry,
      itemsLeft,
      checksLeft,
    })
    this.#remove(entry)
  }

  /** Gives an assembly up: hidden now, freed when its copies and holds have ended. */
  abandon(entry: number): void {
    this.#expect(entry)
    this.#remove(entry)
    this.#entries.hide(entry)
  }

  /** Gives up assemblies without progress since `beforeUs` that nobody copies into or holds. Returns how many. */
  collect(beforeUs: number): number {
    let collected = 0
    for (const [entry, assembly] of this.#open) {
      if (assembly.progressUs > beforeUs) break
      if (this.#entries.directory.interests(entry) > 0) continue
      this.abandon(entry)
      collected++
    }
    return collected
  }

  /** When the oldest assembly last made progress; Infinity when there is none. */
  get oldestProgressUs(): number {
    for (const assembly of this.#open.values()) return assembly.progressUs
    return Number.POSITIVE_INFINITY
  }

  /** Entries being assembled, least recent progress first. */
  entries(): IterableIterator<number> {
    return this.#open.keys()
  }

  #claimMissing(assembly: Assembly, offered: GranuleRun, runs: number[]): void {
    const { items, shape } = assembly
    const granule = shape.geometry.granules[offered.granule]
    invariant(
      granule !== undefined && offered.firstItem >= 0 && offered.firstItem + offered.itemCount <= granule.itemCount,
      'a run lies in its granule',
      { granule: offered.granule, firstItem: offered.firstItem, itemCount: offered.itemCount },
    )
    const base = shape.itemBase[offered.granule] as number
    const end = offered.firstItem + offered.itemCount
    for (let item = offered.firstItem; item < end; ) {
      const first = item
      while (item < end && items[base + item] === MISSING) items[base + item++] = COPYING
      if (item > first) runs.push(offered.granule, first, item - first)
      else item++
    }
  }

  #settleRun(assembly: Assembly, runs: readonly number[], at: number, landed: boolean): void {
    const granule = runs[at] as number
    const first = (assembly.shape.itemBase[granule] as number) + (runs[at + 1] as number)
    const count = runs[at + 2] as number
    for (let item = first; item < first + count; item++) {
      invariant(assembly.items[item] === COPYING, 'a copy that ends was in flight', { granule, item })
      assembly.items[item] = landed ? LANDED : MISSING
    }
    if (landed) assembly.itemsLeft -= count
  }

  /** Moves the assembly to the young end of the order. */
  #progress(entry: number, assembly: Assembly, nowUs: number): void {
    assembly.progressUs = nowUs
    this.#open.delete(entry)
    this.#open.set(entry, assembly)
  }

  #remove(entry: number): void {
    this.#bytes -= this.#expect(entry).shape.geometry.extentBytes
    this.#open.delete(entry)
  }

  #expect(entry: number): Assembly {
    const assembly = this.#open.get(entry)
    invariant(assembly !== undefined, 'the entry is being assembled', { entry })
    return assembly
  }
}
