import { type LeaseRecord, LeaseRecords } from '../../../src/manager/query/lease-records.js'
import type { ManagerProcess } from '../manager-process.js'
import { keyOf } from '../watched-entries.js'

/** Generations of the sources `firstSource …` of one group under a lease. */
export interface LeasedBlocks {
  readonly firstSource: number
  readonly generations: readonly number[]
}

/** Lease records under watch: a lease is only granted on generations that were sealed, of the keys asked for (V1, V3). */
class WatchedLeases extends LeaseRecords {
  readonly #process: ManagerProcess

  constructor(process: ManagerProcess) {
    super()
    this.#process = process
  }

  override add(record: LeaseRecord): void {
    const { storage, truth, leases } = this.#process
    const generations = new Map<number, LeasedBlocks>()
    for (const { group, firstSource, first, count } of record.spans) {
      const held: number[] = []
      for (const entry of record.entries.subarray(first, first + count)) {
        const generation = storage.generationOf(entry)
        truth.mustBeSealed(generation, keyOf(storage, entry), group)
        this.#process.routes.leased(storage.inDram(entry))
        held.push(generation)
      }
      generations.set(group, { firstSource, generations: held })
    }
    leases.set(record.lease, generations)
    super.add(record)
  }
}

/** Puts the watched table in place of the plain one, before anything is in it. */
export function watchLeases(process: ManagerProcess): void {
  Object.assign(process.machine.context, { leaseRecords: new WatchedLeases(process) })
}
