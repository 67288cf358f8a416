/**
 * Every kind of fault that a plan may name, by the place where it strikes. A run over many seeds fails when a kind that
 * no plan could have left out never fired: a fault that does not happen proves nothing.
 */
export const READ_FAULTS = [
  'read-late',
  'read-short',
  /** One byte is missing: no multiple of any sector. */
  'read-short-by-one',
  /** The file ends before the range: nothing is read. */
  'read-end-of-file',
  'read-eio',
  'read-again',
  'read-cancelled',
  'read-duplicate',
  'read-stale-tag',
  'read-misdirected',
  /** The second half is what lay in the destination before. */
  'read-torn',
  /** The bytes from before the last write of the range. */
  'read-stale',
  /** A hole was punched into the file. */
  'read-zeroes',
  /** Ends after reads that were submitted later. */
  'read-reordered',
  /** Ends only after its batch was cancelled. */
  'read-outlives-cancel',
  'read-stalled',
] as const
export const WRITE_FAULTS = [
  'write-late',
  'write-short',
  'write-short-by-one',
  'write-eio',
  'write-enospc',
  /** The file may not grow: a part was written. */
  'write-efbig',
  'write-torn',
  'write-lost',
  'write-zeroes',
  'write-misdirected',
  /** Reported at once, on the medium only later, over whatever is there by then. */
  'write-acked-early',
  'write-duplicate',
  'write-reordered',
  'write-stalled',
  'bit-rot',
  /** A bit flips in what was written long ago. */
  'bit-rot-at-rest',
  /** Everything in the file is gone. */
  'shard-wiped',
] as const
export const COPY_FAULTS = [
  'copy-late',
  'copy-failed',
  /** Some of it was done. */
  'copy-partial',
  'copy-refused',
  'copy-duplicate',
  'copy-stalled',
  /** The device fails everything from now on, until the process is restarted. */
  'device-sticky',
] as const
/** `checksum-flipped`: the number comes back wrong, so that the bytes will not match it. */
export const CHECKSUM_FAULTS = ['checksum-late', 'checksum-failed', 'checksum-flipped'] as const
export const HINT_FAULTS = ['hint-lost'] as const
export const CONTROL_FAULTS = [
  'memory-unsealed',
  'memory-short',
  'template-refused',
  'digest-wrong',
  'world-size-wrong',
  'rank-late',
  'engine-reborn',
  'slots-exhausted',
  'canary-wrong',
  'uid-foreign',
] as const
export const WAKE_FAULTS = ['wake-lost', 'wake-spurious'] as const
/** `ring-held`: the receiver gives its records back late, so that the ring fills up. */
export const RING_FAULTS = ['record-delayed', 'ring-held'] as const
/** What happens to the whole Manager process. */
export const PROCESS_FAULTS = [
  'manager-killed',
  'manager-restarted',
  'manager-stopped',
  'manager-contended',
  'lane-died',
  'clock-leapt',
  'clock-held',
] as const
export const PEER_FAULTS = [
  'engine-killed',
  'rank-disconnected',
  'engine-paused',
  'engine-stopped',
  'peer-stuck',
  'fence-withheld',
  'frame-malformed',
  'frame-truncated',
  'frame-oversized',
  'frame-wrong-way',
  'version-wrong',
  'not-greeted',
  'descriptor-surplus',
  'sessions-flooded',
  'queries-flooded',
  'cancel-repeated',
  'slot-stale',
  'slot-out-of-range',
  'lease-foreign',
  'lease-of-old-epoch',
  'ticket-foreign',
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

/** Reads of the cuFile route into a staging slot, checksums included. */
export const STAGING_READ_FAULTS = [
  'cufile-read-late',
  /** 0, 1, 511, 512 bytes, or all but one page or byte. */
  'cufile-read-short',
  'cufile-read-failed',
  /** Nothing was queued: the library says so at once. */
  'cufile-read-refused',
  /** The count is whole, the bytes never came: the slot holds what it held. */
  'cufile-read-lost',
  /** The bytes from before the last write of the range. */
  'cufile-read-stale',
  'cufile-read-rotten',
  'cufile-read-misdirected',
  /** Ends after an operation of the other slot, or of another worker. */
  'cufile-read-reordered',
  'cufile-read-duplicate',
  'cufile-read-stalled',
] as const
/** Gathers into a staging slot and the writes that follow them. */
export const STAGING_WRITE_FAULTS = [
  'cufile-write-late',
  'cufile-write-short',
  'cufile-write-failed',
  'cufile-write-refused',
  'cufile-write-lost',
  'cufile-write-torn',
  'cufile-write-misdirected',
  'cufile-write-reordered',
  'cufile-write-duplicate',
  'cufile-write-stalled',
  /** Pages did not reach the slot: nothing is written. */
  'gather-failed',
] as const
/** Copies from a staging slot to pages. */
export const SCATTER_FAULTS = [
  'scatter-late',
  'scatter-failed',
  'scatter-partial',
  'scatter-refused',
  'scatter-duplicate',
  'scatter-stalled',
] as const
/** Copies between DRAM and pages on the stream of a staging worker. */
export const PART_FAULTS = [
  'part-late',
  'part-failed',
  'part-partial',
  'part-refused',
  'part-duplicate',
  'part-stalled',
] as const
/** What a worker needs does not come to be: a registered slot, or its stream for copies. */
export const STAGING_OPEN_FAULTS = ['slot-refused', 'stream-refused'] as const
/** What befalls staging while it is at work, and what it makes of it; counted where it is seen. */
export const STAGING_EVENTS = [
  'cancel-with-both-slots',
  'engine-killed-while-staging',
  'manager-killed-while-staging',
  'ssd-worker-died',
  /** Under `auto`: no new cuFile work until restart. */
  'route-stopped',
  /** The route was asked for by name: the operation fails, and the route stays. */
  'route-kept',
  /** A rank whose pages a pinned cuFile read route does not reach is refused. */
  'rank-unreached',
  /** A write job without a permit goes by DRAM. */
  'gpu-write-fallback',
] as const

/** Encodings from pages to the pool. */
export const ENCODE_FAULTS = [
  'encode-late',
  'encode-failed',
  /** Some of the items were encoded. */
  'encode-partial',
  'encode-refused',
  'encode-duplicate',
  'encode-stalled',
  /** The workspace has no room for one of the items. */
  'encode-without-room',
  /** One of the items has values that the format does not hold. */
  'item-unfit',
  /** The number of a coding comes back wrong, so that its bytes will not match it. */
  'coding-crc-flipped',
] as const
/** Decodings to pages: from the pool, from the window of a reader, from a staging slot. */
export const DECODE_FAULTS = [
  'decode-late',
  'decode-failed',
  'decode-partial',
  'decode-refused',
  'decode-duplicate',
  'decode-stalled',
  'decode-without-room',
  /** One of the items is said to be no coding. */
  'decode-damaged',
  /** A bit of one of the items flips where it lies. */
  'coding-rotten',
] as const
/** What befalls codings, and what is made of it; counted where it is seen. */
export const CODEC_EVENTS = [
  /** An item that was refused is kept as it is. */
  'kept-raw',
  /** There is no room for it. */
  'kept-raw-without-room',
  /** What a coding needs less than it was given goes back to the pool. */
  'room-shrunk',
  'cancel-while-coding',
  /** A chunk takes codings from where they are held. */
  'held-codes-written',
  /** What would be held does not fit. */
  'hold-refused',
  'cancel-while-held',
  'engine-killed-while-coding',
  'manager-killed-while-coding',
] as const
/** Those that a seed draws together with its codec. */
export const CODEC_FAULTS = [...ENCODE_FAULTS, ...DECODE_FAULTS] as const

/** Those that a seed draws together with its GPU. */
export const STAGING_FAULTS = [
  ...STAGING_READ_FAULTS,
  ...STAGING_WRITE_FAULTS,
  ...SCATTER_FAULTS,
  ...PART_FAULTS,
  ...STAGING_OPEN_FAULTS,
] as const

/** Those of every seed. */
export const HOST_FAULTS = [
  ...READ_FAULTS,
  ...WRITE_FAULTS,
  ...COPY_FAULTS,
  ...CHECKSUM_FAULTS,
  ...HINT_FAULTS,
  ...CONTROL_FAULTS,
  ...WAKE_FAULTS,
  ...RING_FAULTS,
  ...PROCESS_FAULTS,
  ...PEER_FAULTS,
  ...CAPACITY_FAULTS,
] as const

export const FAULT_KINDS = [
  ...HOST_FAULTS,
  ...STAGING_FAULTS,
  ...STAGING_EVENTS,
  ...CODEC_FAULTS,
  ...CODEC_EVENTS,
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

/** One fault of a plan: it strikes after `gap` operations of its place went untouched. `amount` says how hard. */
export interface FaultDraw {
  readonly gap: number
  readonly kind: number
  readonly amount: number
}

/** What strikes one operation. */
export interface Strike<K extends string = string> {
  readonly kind: K
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
export class FaultSite<K extends FaultKind = FaultKind> {
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
  strike(): Strike<K> | null {
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
