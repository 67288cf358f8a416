import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { COPY } from '../../shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt } from '../../shared/layout/records.js'
import { Copies, Job } from './job.js'
import { NO_TARGETS, Targets } from './targets.js'

/**
 * One part of a publication under a codec, on its way to DRAM and, from where its codings were made, to the SSD. What comes
 * of its codings decides what may be written, so the manager is told first and says which blocks go where.
 *
 *   assembling ─▶ fenced ─▶ waiting ──the arena is its──▶ encoding ──last copy, coding ended──▶ said ─┐
 *                                                                       ┌── nothing is held ──────────┤
 *                                                                       │                             ▼
 *                                                                     over ◀──`write-codes`, empty── held
 *                                                                       ▲                             │ `write-codes`
 *                                                                       └──last chunk ended─────── writing
 *
 * | state    | the arena      | pages            | leaves by                                               |
 * |----------|----------------|------------------|---------------------------------------------------------|
 * | waiting  | another job's  | untouched        | the end of the job that has it                          |
 * | encoding | is written     | are read         | the last raw copy's end and the coding's                |
 * | held     | stays as it is | are read by none | `write-codes`, cancel, stop                             |
 * | writing  | is read        | raw ones read    | the last chunk's end; after a failure, of what was sent |
 */
export class EncodeJob extends Job {
  readonly kind = 'encode'
  /** Of the coded descriptors; see COPY. */
  codes = new Float64Array(0)
  /** What is asked of the device: that it keeps the codings. False once it said that it cannot. */
  holds = true
  /** The device has codings of this job. */
  held = false
  /** The one coding of the job. */
  coding: 'left' | 'running' | 'ended' = 'left'
  /** `encoded` was said. */
  said = false
  /** `write-codes` has come. */
  asked = false
  targets = NO_TARGETS
  /** Two numbers a descriptor: see `encoded`. */
  #outcomes = new Float64Array(0)
  #firstCoded = 0

  /** The last record has come: what is copied as it is comes first, then what is coded. */
  lay(): void {
    this.join()
    const count = this.list.length / COPY.doubles
    invariant(count > 0, 'an encoding has something to bring to DRAM', { job: this.id })
    const coded = (each: number) => listAt(this.list, each * COPY.doubles + COPY.storedBytes) > 0
    while (this.#firstCoded < count && !coded(this.#firstCoded)) this.#firstCoded += 1
    for (let each = this.#firstCoded; each < count; each++) invariant(coded(each), 'what is coded comes last', { each })
    const { doubles } = this.list
    this.copies = new Copies(this.#firstCoded)
    this.copies.doubles.set(doubles.subarray(0, this.#firstCoded * COPY.doubles))
    this.codes = doubles.slice(this.#firstCoded * COPY.doubles)
    this.#outcomes = new Float64Array(2 * count)
    if (this.codeCount === 0) this.coding = 'ended'
  }

  /** Coded descriptors. */
  get codeCount(): number {
    return this.codes.length / COPY.doubles
  }

  /** Keeps what the device says of each coding: stored bytes and CRC32. */
  keep(results: Uint32Array): void {
    this.#outcomes.set(results, 2 * this.#firstCoded)
  }

  /** Stored bytes of coding `code`; 0: there is none. */
  storedBytes(code: number): number {
    return this.#outcomes[2 * (this.#firstCoded + code)] ?? 0
  }

  /** Two numbers a descriptor, 0 and 0 of raw ones; empty when nothing is known, or nothing was coded. */
  get outcomes(): List {
    const { length } = this.#outcomes
    if (this.status !== ERROR_CODES.ok || this.codeCount === 0) return EMPTY_LIST
    return { doubles: this.#outcomes, offset: 0, length }
  }

  /** True when the copies to DRAM have ended, well or not, and nothing of them follows. */
  get settled(): boolean {
    if (!this.complete || this.partsInFlight > 0 || this.coding === 'running') return false
    return !this.starting || (this.fenceReached && this.coding === 'ended' && this.copies.left === 0)
  }

  /** Whether blocks of it may be written from where they are. */
  get writable(): boolean {
    return this.holds && this.status === ERROR_CODES.ok
  }

  /** The manager says what is written; an empty list: nothing. */
  write(list: List, slotBytes: number): void {
    const doubles = list.doubles.slice(list.offset, list.offset + list.length)
    this.asked = true
    this.targets = new Targets({ doubles, offset: 0, length: doubles.length }, slotBytes)
  }

  get batchesLeft(): number {
    return this.targets.left
  }

  dropBatches(): void {
    this.targets.drop()
  }

  override get started(): boolean {
    if (!this.said || this.coding !== 'ended') return false
    return super.started && (this.asked || !this.writable)
  }

  override get over(): boolean {
    return this.coding !== 'running' && super.over
  }

  fail(status: number): void {
    this.remember(status)
  }
}
