/**
 * Every kind of fault that a plan may name, by the place where it strikes. A run over many seeds fails when a kind that
 * no plan could have left out never fired: a fault that does not happen proves nothing.
 */
export const READ_FAULTS = [
  'read-late',
  'read-short',
  'read-eio',
  'read-cancelled',
  'read-duplicate',
  'read-stale-tag',
  'read-misdirected',
  'read-stalled',
] as const
export const WRITE_FAULTS = [
  'write-late',
  'write-short',
  'write-eio',
  'write-enospc',
  'write-torn',
  'write-lost',
  'write-misdirected',
  'write-duplicate',
  'write-stalled',
  'bit-rot',
] as const
export const COPY_FAULTS = ['copy-late', 'copy-failed', 'copy-refused', 'copy-duplicate', 'copy-stalled'] as const
export const HINT_FAULTS = ['hint-lost'] as const
export const CONTROL_FAULTS = ['memory-unsealed', 'slots-exhausted', 'canary-wrong', 'uid-foreign'] as const
export const PEER_FAULTS = [
  'engine-killed',
  'rank-disconnected',
  'engine-paused',
  'peer-stuck',
  'frame-malformed',
  'slot-stale',
  'lease-foreign',
  'redeemed-twice',
  'page-out-of-range',
] as const
export const CAPACITY_FAULTS = [
  'pool-full',
  'directory-full',
  'queue-full',
  'budget-busy',
  'speculation-busy',
  'reads-stopped',
  'admission-rejected',
  'lease-expired',
  'ring-full',
  'drain-cut-short',
] as const

export const FAULT_KINDS = [
  ...READ_FAULTS,
  ...WRITE_FAULTS,
  ...COPY_FAULTS,
  ...HINT_FAULTS,
  ...CONTROL_FAULTS,
  ...PEER_FAULTS,
  ...CAPACITY_FAULTS,
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

/** One fault of a plan: it strikes after `gap` operations of its place went untouched. `amount` says how hard. */
export interface FaultDraw {
  readonly gap: number
  readonly kind: number
  readonly amount: number
}

/** How often each kind fired; shared by all seeds of a run. */
export class FaultTally {
  readonly counts = new Map<FaultKind, number>()

  fired(kind: FaultKind): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
  }

  get kinds(): number {
    return this.counts.size
  }
}

/** The faults of one place, taken in order as its operations come by. Phase two switches every place off. */
export class FaultSite<K extends FaultKind> {
  readonly #draws: readonly FaultDraw[]
  readonly #kinds: readonly K[]
  readonly #tally: FaultTally
  #next = 0
  #passed = 0
  on = true

  /** `kinds`: those that this seed leaves on. */
  constructor(draws: readonly FaultDraw[], kinds: readonly K[], tally: FaultTally) {
    this.#draws = kinds.length === 0 ? [] : draws
    this.#kinds = kinds
    this.#tally = tally
  }

  /** One more operation: what strikes it, or null. */
  strike(): { readonly kind: K; readonly amount: number } | null {
    const draw = this.#draws[this.#next]
    if (draw === undefined || !this.on) return null
    if (this.#passed++ < draw.gap) return null
    this.#passed = 0
    this.#next++
    const kind = this.#kinds[draw.kind % this.#kinds.length] as K
    this.#tally.fired(kind)
    return { kind, amount: draw.amount }
  }
}

/** Numbers drawn before the run and used in turn, round and round: delays, sizes, choices. */
export class Stream {
  readonly #values: readonly number[]
  #at = 0

  constructor(values: readonly number[]) {
    this.#values = values
  }

  next(): number {
    if (this.#values.length === 0) return 0
    const value = this.#values[this.#at] as number
    this.#at = (this.#at + 1) % this.#values.length
    return value
  }
}
