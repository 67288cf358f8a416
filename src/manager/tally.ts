import { ERROR_CODES } from '../shared/base/errors.js'
import type { Tally } from '../shared/base/tally.js'
import type { ReuseReading } from '../shared/cache/reuse-windows.js'
import { RESERVATION_PHASES, type ReservationPhase } from '../shared/scheduling/query-budget.js'
import { VERB_COUNT, VERB_HISTOGRAM } from './counters.js'

/** Where the verbs count: one method an occasion, so that a verb never names a counter. */
export class ManagerTally {
  readonly #tally: Tally
  readonly #firstReuse: number

  /** `firstReuse`: where the series of reuseSeries() begin. */
  constructor(tally: Tally, firstReuse: number) {
    this.#tally = tally
    this.#firstReuse = firstReuse
  }

  refused(): void {
    this.#tally.add(VERB_COUNT.refusals, 1)
  }

  budgetWait(): void {
    this.#tally.add(VERB_COUNT.budgetWaits, 1)
  }

  budgetBypass(): void {
    this.#tally.add(VERB_COUNT.budgetBypasses, 1)
  }

  /** Found and not read. */
  unread(blocks: number): void {
    this.#tally.add(VERB_COUNT.unreadBlocks, blocks)
  }

  candidates(found: number, missing: number): void {
    this.#tally.add(VERB_COUNT.candidateHits, found)
    this.#tally.add(VERB_COUNT.candidateMisses, missing)
  }

  warmSkipped(blocks: number): void {
    this.#tally.add(VERB_COUNT.warmForegroundSkips, blocks)
  }

  /** A write job that found all permits taken goes by DRAM. */
  gpuWriteFellBack(): void {
    this.#tally.add(VERB_COUNT.gpuWriteFallbacks, 1)
  }

  /** Codings that their device did not hold are written from DRAM. */
  encodedWriteFellBack(): void {
    this.#tally.add(VERB_COUNT.encodedWriteFallbacks, 1)
  }

  ssdFellBack(): void {
    this.#tally.add(VERB_COUNT.ssdBackendFallbacks, 1)
  }

  phase(phase: ReservationPhase, bytes: number): void {
    this.#tally.set(VERB_COUNT.phases + RESERVATION_PHASES.indexOf(phase), bytes)
  }

  /** Gauges of the windows of reuse, which follow `firstReuse`. */
  reuse(readings: readonly ReuseReading[]): void {
    for (const [i, { cardinality, requests, hitRate }] of readings.entries()) {
      this.#tally.set(this.#firstReuse + 3 * i, cardinality)
      this.#tally.set(this.#firstReuse + 3 * i + 1, requests)
      this.#tally.set(this.#firstReuse + 3 * i + 2, hitRate)
    }
  }

  publishWait(): void {
    this.#tally.add(VERB_COUNT.publishWaits, 1)
  }

  publishSkipped(blocks: number): void {
    this.#tally.add(VERB_COUNT.publishSkippedBlocks, blocks)
  }

  publishEnded(code: number, bytes: number, durationUs: number): void {
    this.#tally.add(code === 0 ? VERB_COUNT.saves : VERB_COUNT.saveFailures, 1)
    this.#tally.add(VERB_COUNT.saveBytes, bytes)
    this.#tally.observe(VERB_HISTOGRAM.publishDuration, durationUs)
  }

  restoreEnded(code: number, latencyUs: number): void {
    if (code === ERROR_CODES.cancelled) this.#tally.add(VERB_COUNT.loadsCancelled, 1)
    else if (code !== 0) this.#tally.add(VERB_COUNT.loadFailures, 1)
    this.#tally.observe(VERB_HISTOGRAM.restoreDuration, latencyUs)
  }

  /** The gauges, as they stand between two steps. */
  gauges(values: {
    readonly sessions: number
    readonly instances: number
    readonly leases: number
    readonly queriesOpen: number
    readonly operationsOpen: number
    readonly publicationsOpen: number
    readonly publicationsWaiting: number
    readonly jobsOpen: number
    readonly queryReservedBytes: number
    readonly queryReservedBytesPeak: number
    readonly syncsOpen: number
    readonly ranksByUring: number
    readonly preparationsOpen: number
    readonly warmingsOpen: number
    readonly querySpeculativeReservedBytes: number
    readonly queryReservedBytesInstancePeak: number
  }): void {
    for (const [name, value] of Object.entries(values)) this.#tally.set(VERB_COUNT[name as keyof typeof values], value)
  }
}
