import { invariant } from '../base/invariant.js'
import { ByteBudget } from './byte-budget.js'

/** What a reservation is for. The first three are speculation, the others serve a request. */
export const RESERVATION_PHASES = ['warming', 'preparing', 'prepared', 'preloading', 'ready', 'restoring'] as const
export type ReservationPhase = (typeof RESERVATION_PHASES)[number]

/** Speculation may use this part of every limit. */
export const SPECULATIVE_SHARE = 4

/** A guess, charged to the speculative budgets too. */
export const speculates = (phase: ReservationPhase): boolean =>
  phase === 'warming' || phase === 'preparing' || phase === 'prepared'

/**
 * Bytes that all queries of all instances may reserve: stored bytes of the blocks they name, wherever these are.
 *
 * Four counters stand on their own and are changed together at admission: all and speculation, of the Manager and of
 * the instance. A charge fits all that it concerns or changes none. The bytes by phase are for people: nothing is ever
 * decided by them or by their sum.
 */
export class QueryBudget {
  readonly total: ByteBudget
  readonly speculative: ByteBudget
  readonly #phaseBytes = new Map<ReservationPhase, number>(RESERVATION_PHASES.map((phase) => [phase, 0]))
  readonly #live = new Set<Reservation>()
  #instancePeakBytes = 0

  constructor(limitBytes: number) {
    this.total = new ByteBudget(limitBytes)
    this.speculative = new ByteBudget(Math.floor(limitBytes / SPECULATIVE_SHARE))
  }

  /** The most bytes that one instance ever had reserved at once; instances that have gone count. */
  get instancePeakBytes(): number {
    return this.#instancePeakBytes
  }

  phaseBytes(phase: ReservationPhase): number {
    return this.#phaseBytes.get(phase) as number
  }

  instance(limitBytes: number): InstanceBudget {
    return new InstanceBudget(limitBytes, this, (bytes) => {
      if (bytes > this.#instancePeakBytes) this.#instancePeakBytes = bytes
    })
  }

  /** Reservations that have not ended, to recount what they charge. */
  get reservations(): ReadonlySet<Reservation> {
    return this.#live
  }

  /** For Reservation alone. */
  began(reservation: Reservation): void {
    this.#live.add(reservation)
  }

  /** For Reservation alone. */
  ended(reservation: Reservation): void {
    this.#live.delete(reservation)
  }

  /** For Reservation alone. */
  label(phase: ReservationPhase, deltaBytes: number): void {
    this.#phaseBytes.set(phase, this.phaseBytes(phase) + deltaBytes)
  }
}

/** What one instance may reserve. Outlives the instance as long as something of it is still on its way. */
export class InstanceBudget {
  readonly total: ByteBudget
  readonly speculative: ByteBudget
  readonly #all: QueryBudget
  readonly #charged: (bytes: number) => void

  /** Use QueryBudget.instance(). */
  constructor(limitBytes: number, all: QueryBudget, charged: (bytes: number) => void) {
    this.total = new ByteBudget(limitBytes, all.total)
    this.speculative = new ByteBudget(Math.floor(limitBytes / SPECULATIVE_SHARE), all.speculative)
    this.#all = all
    this.#charged = charged
  }

  /** The most that a reservation in `phase` may ever be: more is cut, not waited for. */
  limitBytes(phase: ReservationPhase): number {
    return speculates(phase)
      ? Math.min(this.speculative.limitBytes, this.#all.speculative.limitBytes)
      : Math.min(this.total.limitBytes, this.#all.total.limitBytes)
  }

  /** Charges every counter that it concerns; null and nothing changed when one of them has no room now. */
  reserve(bytes: number, phase: ReservationPhase): Reservation | null {
    const guess = speculates(phase)
    if (guess && this.speculative.verdict(bytes) !== 'fits') return null
    if (!this.total.charge(bytes)) return null
    if (guess) this.speculative.charge(bytes)
    this.#charged(this.total.chargedBytes)
    return new Reservation(this, this.#all, bytes, phase)
  }
}

/**
 * Bytes reserved by one query, preparation or hint, from admission until the last who needs them has ended: the query
 * itself, then its lease, then every restore that redeemed it, and whoever waits for submitted reads to drain.
 */
export class Reservation {
  readonly #instance: InstanceBudget
  readonly #all: QueryBudget
  #bytes: number
  #phase: ReservationPhase
  #owners = 1

  /** Use InstanceBudget.reserve(). */
  constructor(instance: InstanceBudget, all: QueryBudget, bytes: number, phase: ReservationPhase) {
    this.#instance = instance
    this.#all = all
    this.#bytes = bytes
    this.#phase = phase
    all.label(phase, bytes)
    all.began(this)
  }

  get bytes(): number {
    return this.#bytes
  }

  get instance(): InstanceBudget {
    return this.#instance
  }

  get phase(): ReservationPhase {
    return this.#phase
  }

  /** Another phase. From speculation to a request the speculative counters are refunded, the others stay charged. */
  enter(phase: ReservationPhase): void {
    invariant(speculates(this.#phase) || !speculates(phase), 'a request never becomes speculation', {
      from: this.#phase,
      to: phase,
    })
    if (speculates(this.#phase) && !speculates(phase)) this.#instance.speculative.refund(this.#bytes)
    this.#all.label(this.#phase, -this.#bytes)
    this.#phase = phase
    this.#all.label(phase, this.#bytes)
  }

  /** Gives back what is above `bytes`. */
  shrink(bytes: number): void {
    invariant(bytes >= 0 && bytes <= this.#bytes, 'a reservation only shrinks', { bytes, reserved: this.#bytes })
    const backBytes = this.#bytes - bytes
    this.#bytes = bytes
    this.#instance.total.refund(backBytes)
    if (speculates(this.#phase)) this.#instance.speculative.refund(backBytes)
    this.#all.label(this.#phase, -backBytes)
  }

  /** One more needs it. */
  retain(): void {
    invariant(this.#owners > 0, 'a reservation that ended is not taken up again')
    this.#owners++
  }

  /** One fewer; the last gives everything back. */
  release(): void {
    invariant(this.#owners > 0, 'a reservation is released once by each who needs it')
    if (--this.#owners > 0) return
    this.shrink(0)
    this.#all.ended(this)
  }
}
