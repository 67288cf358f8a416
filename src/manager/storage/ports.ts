import type { HostReaderRequest } from '../../actors/host-reader/messages.js'
import type { WritebackRequest } from '../../actors/writeback/messages.js'
import type { ErrorCode } from '../../shared/base/errors.js'

/**
 * What Storage needs from outside and what it gives back. Storage is pure state: it never reads a clock, never waits,
 * and its only effects are the calls of StoragePorts. read() and write() must not call back into Storage; filled() and synced()
 * may: they are called when everything else is consistent again.
 */
export interface StoragePorts {
  /** To the host-reader lane `store`. Never more than CLIENT_READS_MAX granules are outstanding on one. */
  read(store: number, request: HostReaderRequest): void
  /** To the writeback lane `writer`. Never more than WRITES_OUTSTANDING_MAX jobs are outstanding on one. */
  write(writer: number, request: WritebackRequest): void
  /** A fill that `waiter` started or joined has ended. `ok`: the entry is in DRAM, verified. */
  filled(waiter: number, entry: number, status: ErrorCode): void
  /** Every SSD write that was pending when `waiter` called sync() has ended. */
  synced(waiter: number): void
}

/** One opened shard file and the lanes that serve it. Its place in StorageOptions.shards is its shard number. */
export interface ShardPlace {
  readonly file: number
  readonly capacityBytes: number
  /** Index of the host-reader lane that owns the file. */
  readonly store: number
  /** Index of the writeback lane that owns the file. */
  readonly writer: number
}

export interface StorageOptions {
  readonly poolBytes: number
  /** Rows of the directory: entries in any state. */
  readonly entriesMax: number
  /** Secret of the directory's hash, two uint32, random per start. */
  readonly directorySeed: readonly [number, number]
  /** Empty: the SSD tier is off. */
  readonly shards: readonly ShardPlace[]
  /** 512 with io_uring alone, 4096 when cuFile may touch the files. */
  readonly extentAlignmentBytes: number
  /** Sealed bytes that may wait for the SSD; what does not fit is dropped as `queue_full`. At most a part of the pool. */
  readonly writeQueueBytesMax: number
  /** Bytes in flight to one writeback lane while no demand read waits (lanes start with it), and while one does. */
  readonly writeWindowBytes: number
  readonly writeWindowBytesMin: number
  /** The window opens again when no demand read has been outstanding for this long. */
  readonly writeWindowRestoreUs: number
  /** Which sealed blocks go to the SSD: all, or those that are asked for or saved again. */
  readonly writePolicy: WritePolicyName
  readonly cache: CachePolicy
  /** An assembly without progress for this long is given up (never while a copy is in flight). */
  readonly assemblyAgeUsMax: number
}

/** Items of one granule of a group: `firstItem` counts inside the granule. */
export interface GranuleRun {
  readonly granule: number
  readonly firstItem: number
  readonly itemCount: number
}

/** Where the SSD replica of an entry starts. */
export interface SourcePlace {
  readonly store: number
  readonly file: number
  readonly fileOffsetBytes: number
}

export type ClaimOutcome = 'new' | 'present' | 'assembling' | 'directory-full'
export interface Claim {
  /** -1 when the directory is full. */
  readonly entry: number
  readonly outcome: ClaimOutcome
}

/** Who may stay in DRAM. */
export interface CachePolicy {
  /** Bytes of the protected segment; 0: none. */
  readonly protectedBytesMax: number
  /** A block that is asked for less often than the one it would displace is not admitted. */
  readonly lfuAdmission: boolean
}

export type Allocation = 'ok' | 'no-memory' | 'rejected'

export type WritePolicyName = 'all' | 'reuse'

/** Why a block is read: a request waits for it, or somebody guesses that one will. */
export type FillPurpose = 'demand' | 'speculation'

export type FillOutcome = 'resident' | 'started' | 'joined' | 'no-memory' | 'gone' | 'draining'

/**
 * How a waiter left: others still wait, or nothing was submitted (`left`); it was the last, and filled() follows when
 * what was submitted has ended (`draining`); it did not wait (`absent`).
 */
export type CancelOutcome = 'left' | 'draining' | 'absent'

export interface DropReport {
  readonly evictedBlocks: number
  readonly evictedBytes: number
  readonly reclaimedBytes: number
  readonly stillReferencedBlocks: number
}

/** Everything that must be zero at rest (after quiesce and dropDram). */
export interface StorageGauges {
  readonly interests: number
  readonly assemblies: number
  readonly copiesInFlight: number
  readonly fillsInFlight: number
  readonly readsOutstanding: number
  readonly readsQueued: number
  readonly writesQueued: number
  readonly writesQueuedBytes: number
  readonly writesInFlight: number
  readonly writesInFlightBytes: number
  readonly syncWaiters: number
  readonly ssdPinnedBytes: number
  readonly poolUsedBytes: number
}
