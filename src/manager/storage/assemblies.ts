import { invariant } from '../../shared/base/invariant.js'
import { isCoded } from '../../shared/codec/coding.js'
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
  /** Granules that the codec has refused. */
  readonly refused: Uint8Array
  /** Granules without a checksum. */
  checksLeft: number
  progressUs: number
}

/** Numbers in one run: granule, first item inside the granule, item count. */
export const RUN_NUMBERS = 3

/**
 * The blocks that are not whole yet: one assembly an entry, whichever ranks and publications bring its parts. Every
 * run that is being copied is an interest in the entry, so that giving an assembly up never frees memory under a copy.
 *
 * A granule that goes through a codec is one item, and its length (StoredLengths) is found out by the copy:
 *
 *   expected ──contribute──▶ coding ──coded──▶ coded ─────────────────────────────────────▶ sealed
 *       ▲                     │  └──keepRaw──▶ refused ──allocate, contribute──▶ copying ──▶ checked ──▶ sealed
 *       └─── copy failed ─────┘                   ▲  └───────── copy failed ───────┘
 *
 * | granule  | item    | length              | room in the pool                          | checksum     |
 * |----------|---------|---------------------|-------------------------------------------|--------------|
 * | expected | missing | what is expected    | none, or whole pages for the length       | none         |
 * | coding   | copying | what is expected    | whole pages for the length                | none         |
 * | coded    | landed  | what the codec says | whole pages for the length: the rest went | the codec's  |
 * | refused  | missing | the item's bytes    | none until allocate()                     | none         |
 * | copying  | copying | the item's bytes    | whole pages for the length                | none         |
 * | checked  | landed  | the item's bytes    | whole pages for the length                | the pool's   |
 *
 * Invariants
 * - room is the granule's length in whole pages, wherever there is room; a granule with a copy in flight has room, and
 *   neither its length nor its room changes before that copy has ended;
 * - while some granule has no room nothing more of the entry is copied, and the entry is not sealed;
 * - a granule is refused once: from then on it is copied as it is, for the life of its generation;
 * - lengths do not change after the seal; a generation's replicas, in DRAM and on the SSD, have the same lengths.
 */
export class Assemblies {
  readonly #entries: Entries
  /** In order of last progress, oldest first. */
  readonly #open = new Map<number, Assembly>()
  #copying = 0

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

  /** Stored bytes of open assemblies, as far as they are known; walks over them, so ask at the rate of a gauge. */
  get bytes(): number {
    let bytes = 0
    for (const entry of this.#open.keys()) bytes += this.#entries.extentBytes(entry)
    return bytes
  }

  has(entry: number): boolean {
    return this.#open.has(entry)
  }

  begin(entry: number, nowUs: number): void {
    const shape = this.#entries.shape(entry)
    const granules = shape.geometry.granules.length
    const items = shape.itemBase[granules] as number
    this.#open.set(entry, {
      shape,
      items: new Uint8Array(items),
      itemsLeft: items,
      checked: new Uint8Array(granules),
      refused: new Uint8Array(granules),
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

  /** Whether the next copy of a granule goes through the codec. */
  codes(entry: number, granule: number): boolean {
    const { shape, refused } = this.#expect(entry)
    const spec = shape.geometry.granules[granule]
    return spec !== undefined && isCoded(spec.coding) && refused[granule] === 0
  }

  /** The codec has left `storedBytes` of a granule in its room; its copy is about to end as landed. */
  coded(entry: number, granule: number, storedBytes: number, crc32: number): void {
    const assembly = this.#coding(entry, granule)
    if (assembly === null) return
    this.#entries.coded(entry, granule, storedBytes)
    this.#entries.setCrc(entry, granule, crc32)
    this.checked(entry, granule)
  }

  /** The codec does not take a granule; its copy has ended as failed. It is missing, without room, and stays uncoded. */
  keepRaw(entry: number, granule: number): void {
    const assembly = this.#open.get(entry)
    if (assembly === undefined) return
    invariant(
      this.codes(entry, granule) && this.#itemOf(assembly, granule) === MISSING,
      'a coded granule is refused once',
      {
        entry,
        granule,
      },
    )
    assembly.refused[granule] = 1
    this.#entries.keepRaw(entry, granule)
  }

  /** Granules whose checksums are not known, in order. */
  unchecked(entry: number): number[] {
    const granules: number[] = []
    for (const [granule, known] of this.#expect(entry).checked.entries()) if (known === 0) granules.push(granule)
    return granules
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
    this.#expect(entry)
    this.#open.delete(entry)
  }

  /** The assembly of an entry into which the codec has just put a granule; null: it was given up meanwhile. */
  #coding(entry: number, granule: number): Assembly | null {
    const assembly = this.#open.get(entry)
    if (assembly === undefined) return null
    invariant(
      this.codes(entry, granule) && this.#itemOf(assembly, granule) === COPYING,
      'what the codec leaves was being coded',
      {
        entry,
        granule,
      },
    )
    return assembly
  }

  /** State of the one item of a coded granule. */
  #itemOf({ items, shape }: Assembly, granule: number): number {
    return items[shape.itemBase[granule] as number] as number
  }

  #expect(entry: number): Assembly {
    const assembly = this.#open.get(entry)
    invariant(assembly !== undefined, 'the entry is being assembled', { entry })
    return assembly
  }
}
