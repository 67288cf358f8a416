import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { type List, listAt } from '../../../src/shared/layout/records.js'
import type { ManagerProcess } from '../manager-process.js'
import { must } from '../violation.js'

/** How a restore ended, as every lane that finishes restores says it. */
interface Ended {
  readonly kind: string
  readonly status?: number
  readonly list?: List
}

/** Ends that say nothing about what is stored: of room, of the device, of the request. */
const HARMLESS: ReadonlySet<number> = new Set([
  ERROR_CODES.ok,
  ERROR_CODES.capacity_codec,
  ERROR_CODES.io_copy_failed,
  ERROR_CODES.cancelled,
])

/**
 * What the end of a restore does to what is stored: a generation that a lane found damaged is found by nobody from then
 * on, and any other end hides nothing (S2, S3).
 */
export class DamageCheck {
  readonly #process: ManagerProcess

  constructor(process: ManagerProcess) {
    this.#process = process
  }

  /** The dram-worker names damage by positions in its job, which began with memory at these offsets. */
  ofMemory(reply: Ended, offsets: readonly number[], step: () => void): void {
    this.#around(reply, step)
    if (reply.kind !== 'restore-done') return
    for (const position of itemsOf(reply)) {
      const offsetBytes = offsets[position]
      must(offsetBytes !== undefined, 'X1', () => `position ${position} of a job of ${offsets.length} is damaged`)
      this.#mustBeHidden(`memory at ${offsetBytes}`, (entry) => this.#owns(entry, offsetBytes as number))
    }
  }

  /** Lanes that read from the SSD name generations. */
  ofGenerations(reply: Ended, step: () => void): void {
    this.#around(reply, step)
    if (reply.kind !== 'restore-done') return
    for (const generation of itemsOf(reply)) {
      this.#mustBeHidden(
        `generation ${generation}`,
        (entry) => this.#process.storage.generationOf(entry) === generation,
      )
    }
  }

  #around(reply: Ended, step: () => void): void {
    const hidden = this.#process.hides
    step()
    if (reply.kind !== 'restore-done' || itemsOf(reply).length > 0) return
    if (!HARMLESS.has(reply.status ?? 0)) return
    must(this.#process.hides === hidden, 'S3', () => `a restore that ended with ${reply.status} hides what is stored`)
  }

  #owns(entry: number, offsetBytes: number): boolean {
    const { entries } = this.#process.storage
    if (!entries.hasMemory(entry)) return false
    return entries.shape(entry).geometry.granules.some((_, at) => entries.offsetBytes(entry, at) === offsetBytes)
  }

  #mustBeHidden(what: string, is: (entry: number) => boolean): void {
    const { entries } = this.#process.storage
    entries.directory.forEach((entry) => {
      must(
        !entries.published(entry) || !is(entry),
        'S3',
        () => `${what} is damaged, and entry ${entry} is found all the same`,
      )
    })
  }
}

function itemsOf({ list }: Ended): number[] {
  return list === undefined ? [] : Array.from({ length: list.length }, (_, at) => listAt(list, at))
}
