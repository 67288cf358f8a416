import type { HostReaderReply } from '../../actors/host-reader/messages.js'
import type { WritebackReply } from '../../actors/writeback/messages.js'
import type { GroupGeometry } from '../../shared/layout/regions.js'
import type {
  Allocation,
  CancelOutcome,
  Claim,
  DropReport,
  FillOutcome,
  FillPurpose,
  GranuleRun,
  SourcePlace,
  StorageGauges,
} from './ports.js'
import type { StoredGranule } from './stored-lengths.js'

/**
 * The verbs' view of storage: the one owner of directory, extents, pool offsets, DRAM cache and SSD writes. An entry
 * number names one generation and is valid from claim() until its last interest drops; generationOf() tells reuse.
 *
 * Publication of one block by one rank:
 *   claim -> new:        allocate ('no-memory': abandon) -> contribute -> COPY the runs -> landed
 *         -> assembling: wants? contribute -> COPY the runs -> landed      (else others bring all this rank has)
 *         -> present:    nothing to do
 *   after landed: complete(entry)? checksum its unchecked granules, setCrc each -> seal. Between complete and seal the
 *   entry is held by the caller (hold/drop), as it is whenever the caller keeps its number over time.
 *
 * Of granules with a codedRoom the COPY is coded, into that room. Where it ends well: coded, then landed, of those that
 * were coded; copyFailed, then keepRaw, of those that were refused, and then again from allocate on.
 */
export interface PageStorage {
  /** Class id of (namespace, group); the same pair gives the same id. -1: STORAGE_CLASSES_MAX are defined already. */
  defineClass(namespaceHex: string, geometry: GroupGeometry): number
  geometryOf(entry: number): GroupGeometry
  classOf(entry: number): number
  /** Monotonic over all entries ever claimed; tells a reused entry number from the old one. */
  generationOf(entry: number): number

  /** Time moves; also collects assemblies without progress and lets the write window open again. */
  tick(nowUs: number): void
  /** When tick() next has something to do; Infinity: never. */
  nextTickUs(): number

  /** Every key: its published entry or -1. Returns how many were found. */
  lookup(classId: number, keys: Uint8Array, count: number, entries: Int32Array): number
  /** Counts one answered query: blocks found by tier, and blocks missed. Once a query. */
  countRequest(ram: number, ssd: number, missed: number): void
  /** Two independent uint32 a key, from word `at` of `target` on: what sketches are shown. */
  hashKeys(classId: number, keys: Uint8Array, count: number, target: Uint32Array, at: number): void
  /** A request asked for the key of these two numbers: admission by frequency remembers it. */
  requested(high: number, low: number): void
  inDram(entry: number): boolean
  onSsd(entry: number): boolean
  published(entry: number): boolean

  /** Interest: the entry is neither evicted nor overwritten nor freed until every hold was dropped. No use. */
  hold(entry: number): void
  drop(entry: number): void
  /** A request looks the block up: its DRAM replica, or the one on its way, is used now and may be promoted. */
  use(entry: number): void
  /** A request was given the block: the write policy may send it to the SSD. */
  returned(entry: number): void
  /** The block was put into engine pages: a guess that paid. */
  restored(entry: number): void

  /** A save named a key twice. */
  duplicate(): void
  /** First publish wins. `keys` holds keys one after the other, `keyIndex` counts keys. */
  claim(classId: number, keys: Uint8Array, keyIndex: number): Claim
  /**
   * Pool memory for every granule of an assembling entry that has none, evicting as needed; all or nothing. `ok` if it has it;
   * `rejected`: admission prefers what it would displace, and waiting does not help.
   */
  allocate(entry: number): Allocation
  /** Of an assembling entry: whether anything of `offered` was neither brought nor is on its way. */
  wants(entry: number, offered: readonly GranuleRun[]): boolean
  /** Of an assembling entry: nothing of it was brought or is on its way. */
  untouched(entry: number): boolean
  /**
   * A rank brings the runs `offered` (see granuleRuns) of an assembling entry whose memory is allocated. Appends to
   * `runs` triples (granule, first item inside the granule, item count) that nobody brought yet; the caller copies
   * exactly those and calls landed() or copyFailed() once for each triple. Returns how many triples were added.
   */
  contribute(entry: number, offered: readonly GranuleRun[], runs: number[]): number
  /** The copies of the triples in runs[from … end) have ended in full. Also right for an entry that was abandoned. */
  landed(entry: number, runs: readonly number[], from: number, end: number): void
  /** Room that the coming copy of a granule of an assembling entry is encoded into; 0: it is copied as it is. */
  codedRoom(entry: number, granule: number): number
  /**
   * A granule has been encoded: its length and CRC32 are known, and what it does not need of its room goes back. Call
   * landed() next. No-op unless assembling.
   */
  coded(entry: number, granule: number, storedBytes: number, crc32: number): void
  /**
   * The codec refused a granule, and copyFailed() was called: its room goes back, and the next copy of it is as it is.
   * No-op unless assembling.
   */
  keepRaw(entry: number, granule: number): void
  /** They have ended without success: the items are missing again. */
  copyFailed(entry: number, runs: readonly number[], from: number, end: number): void
  /** Every item has landed, and the entry is still assembling. */
  complete(entry: number): boolean
  /** Still assembling: false once abandoned, collected or sealed. */
  assembling(entry: number): boolean
  granuleOffset(entry: number, granule: number): number
  /** How much of a granule this entry stores: of its item's bytes, or of their coding. Padding ends it. */
  granule(entry: number, granule: number): StoredGranule
  /** What is stored of a granule is a coding of its item, which has to be decoded. */
  encoded(entry: number, granule: number): boolean
  /** Bytes of all of them: what the entry takes on the SSD, and in DRAM but for whole pages. */
  extentBytes(entry: number): number
  /** The same of every entry of a class; null: a codec may give each its own. */
  blockBytes(classId: number): number | null
  /** Where a granule begins in the extent. May walk over those before it: ask once, then add up. */
  extentOffset(entry: number, granule: number): number
  crc(entry: number, granule: number): number
  /** Granules of an assembling entry without a checksum, in order. */
  unchecked(entry: number): number[]
  /** No-op unless assembling: somebody else may have ended the entry meanwhile. */
  setCrc(entry: number, granule: number, crc32: number): void
  /**
   * A whole block is to be written from the pages that it is copied from: nothing of it was brought yet, or all of it has
   * landed and it is as long as it will be. An extent that nobody can see, held with the entry until directEnded or abortDirect. Null: the policy does not want it, or there is no room.
   */
  beginDirect(entry: number): SourcePlace | null
  /** Nothing was submitted of it: the extent goes back, and the block is written as any other. */
  abortDirect(entry: number): void
  /** The write has ended. `whole`: every byte is there; the extent becomes the entry's once both are known good. */
  directEnded(entry: number, whole: boolean): void
  /** Complete and every CRC set: visible in DRAM from now; its SSD write is queued, or dropped with a reason. */
  seal(entry: number): void
  /** An assembling entry (else no-op) ends unseen; its memory is freed when its copies have ended and its holds dropped. */
  abandon(entry: number): void

  /**
   * SSD to DRAM. `started` and `joined` are followed by ports.filled(waiter, …), unless cancelFill comes first. What is
   * read for speculation alone is the first to be evicted.
   */
  fill(entry: number, waiter: number, purpose?: FillPurpose): FillOutcome
  /** The waiter leaves; others keep the read. After `draining`, filled(waiter, …) still follows. */
  cancelFill(entry: number, waiter: number): CancelOutcome
  /** Where the SSD replica is; null when there is none. Stays true while the entry is held. */
  source(entry: number): SourcePlace | null
  /** Reads that others (host-restore) have outstanding on a store: writes make room. `delta` is +n or -n. */
  demand(store: number, delta: number): void

  /** Hidden at once; lives until interests drop; the key may be claimed again. No-op unless published. */
  invalidate(entry: number): void
  /** The same for a late report: an entry number that now names another generation is left alone. */
  invalidateGeneration(entry: number, generation: number): boolean
  /** Drops every DRAM replica without interests; SSD replicas stay. */
  dropDram(): DropReport
  /** Invalidates every published entry of a class; returns how many. */
  dropClass(classId: number): number

  /** `done`, or later ports.synced(waiter): all SSD writes that are pending now have ended. */
  sync(waiter: number): 'done' | 'waiting'
  cancelSync(waiter: number): void
  readonly writesPending: number
  /** Shutdown: queued writes are dropped as `draining`, unsent reads fail as `draining`, what is in flight ends. */
  beginDrain(): void
  /** Nothing in flight, nothing queued. */
  readonly quiesced: boolean
  gauges(): StorageGauges
  /** Writes the gauges into the counters; the owner calls it now and then. */
  refreshGauges(): void

  readDone(store: number, reply: Extract<HostReaderReply, { kind: 'read-done' }>): void
  writeDone(writer: number, reply: Extract<WritebackReply, { kind: 'write-done' }>): void
}
