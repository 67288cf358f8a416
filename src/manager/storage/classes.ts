import { invariant } from '../../shared/base/invariant.js'
import { alignUp, PAGE_BYTES } from '../../shared/base/units.js'
import { isCoded } from '../../shared/codec/coding.js'
import { GranuleSlab } from '../../shared/directory/granule-slab.js'
import type { GroupGeometry } from '../../shared/layout/regions.js'
import { StoredLengths } from './stored-lengths.js'

/** Storage classes that may be defined between two starts: one for each (namespace, group) an engine ever brought. */
export const STORAGE_CLASSES_MAX = 4096

/** What all entries of one (namespace, group) share. */
export interface StorageClass {
  readonly id: number
  readonly geometry: GroupGeometry
  /** Pool bytes of one DRAM replica whose granules have the lengths of the geometry. */
  readonly dramBytes: number
  /** Pool offsets in PAGE_BYTES units, one slot a DRAM replica. */
  readonly offsets: GranuleSlab
  /** CRC32 of every granule, one slot an entry: they outlive the DRAM replica. */
  readonly crcs: GranuleSlab
  /** Lengths of every entry's own, by the slot of its checksums; null: no granule is coded, and all have those of the geometry. */
  readonly lengths: StoredLengths | null
  /** First item of each granule when all items of the group are counted in granule order, then their number. */
  readonly itemBase: Int32Array
}

/** The storage classes. A class is never removed: its id is in directory rows and its geometry in running jobs. */
export class ClassTable {
  readonly #classes: StorageClass[] = []
  readonly #ids = new Map<string, number>()
  readonly #entriesMax: number
  readonly #poolBytes: number

  constructor(entriesMax: number, poolBytes: number) {
    this.#entriesMax = entriesMax
    this.#poolBytes = poolBytes
  }

  get count(): number {
    return this.#classes.length
  }

  /** The class of (namespace, group), defined on first use; -1 when there are STORAGE_CLASSES_MAX already. */
  define(namespaceHex: string, geometry: GroupGeometry): number {
    const name = `${namespaceHex}/${geometry.group}`
    const known = this.#ids.get(name)
    if (known !== undefined) {
      const same = this.get(known).geometry
      invariant(
        same.extentBytes === geometry.extentBytes && same.granules.length === geometry.granules.length,
        'one namespace and group have one geometry',
        { group: geometry.group, extentBytes: geometry.extentBytes, known: same.extentBytes },
      )
      return known
    }
    const id = this.#classes.length
    if (id === STORAGE_CLASSES_MAX) return -1
    this.#classes.push(this.#classOf(id, geometry))
    this.#ids.set(name, id)
    return id
  }

  get(id: number): StorageClass {
    const found = this.#classes[id]
    invariant(found !== undefined, 'a class id was defined', { id })
    return found
  }

  #classOf(id: number, geometry: GroupGeometry): StorageClass {
    const { granules } = geometry
    invariant(granules.length > 0, 'a state group has granules', { group: geometry.group })
    const itemBase = new Int32Array(granules.length + 1)
    let dramBytes = 0
    granules.forEach((granule, index) => {
      dramBytes += alignUp(granule.bytes, PAGE_BYTES)
      itemBase[index + 1] = (itemBase[index] as number) + granule.itemCount
    })
    const coded = granules.some(({ coding }) => isCoded(coding))
    // A coded granule may turn out as short as it likes, but takes a page.
    const replicaBytesMin = coded ? granules.length * PAGE_BYTES : dramBytes
    const replicasMax = Math.max(1, Math.min(this.#entriesMax, Math.floor(this.#poolBytes / replicaBytesMin)))
    return {
      id,
      geometry,
      dramBytes,
      offsets: new GranuleSlab(granules.length, replicasMax),
      crcs: new GranuleSlab(granules.length, this.#entriesMax),
      lengths: coded ? new StoredLengths(granules, this.#entriesMax) : null,
      itemBase,
    }
  }
}
