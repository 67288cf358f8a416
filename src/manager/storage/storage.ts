import type { HostReaderReply } from '../../actors/host-reader/messages.js'
import type { WritebackReply } from '../../actors/writeback/messages.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { ENTRY_STATE, NONE } from '../../shared/directory/directory.js'
import type { GroupGeometry } from '../../shared/layout/regions.js'
import { DramCache } from '../cache/dram-cache.js'
import { Assemblies } from './assemblies.js'
import { Claims } from './claims.js'
import type { ClassTable } from './classes.js'
import { Codings } from './codings.js'
import { STORAGE_COUNT as COUNT } from './counters.js'
import type { Entries } from './entries.js'
import { Fills } from './fills.js'
import { gaugesOf, ShownGauges } from './gauges.js'
import type { PageStorage } from './page-storage.js'
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
  StorageOptions,
  StoragePorts,
} from './ports.js'
import type { StoredGranule } from './stored-lengths.js'
import { partsOf, replicasOf, type StorageParts } from './tables.js'
import { Victims } from './victims.js'
import { WritePolicy } from './write-policy.js'
import { Writes } from './writes.js'

/** How often assemblies that are too old are looked at again. */
const COLLECT_INTERVAL_US = 100_000

/**
 * The one owner of directory, extents, pool offsets, DRAM cache and SSD write scheduling. Pure state: driven by calls
 * and by the replies of lanes, acting only through its ports; time comes in by tick(). Each noun decides for itself
 * (entries.ts: life and replicas, assemblies.ts, fills.ts, writes.ts, ../cache: who stays in DRAM); this file says how
 * they meet.
 */
export class Storage implements PageStorage {
  readonly entries: Entries
  readonly assemblies: Assemblies
  readonly fills: Fills
  readonly writes: Writes
  readonly cache: DramCache
  readonly policy: WritePolicy
  readonly #claims: Claims
  readonly #codings: Codings
  readonly #classes: ClassTable
  readonly #options: StorageOptions
  readonly #tally: Tally
  readonly #shown = new ShownGauges()
  #nowUs = 0
  #holds = 0

  constructor(options: StorageOptions, ports: StoragePorts, tally: Tally, parts: StorageParts = partsOf(options)) {
    this.#options = options
    this.#tally = tally
    this.#classes = parts.classes
    this.entries = parts.entries
    this.cache = new DramCache(this.entries, tally, options.cache, replicasOf(options))
    this.assemblies = new Assemblies(this.entries)
    this.#codings = new Codings(this.entries, this.assemblies, tally)
    this.writes = new Writes(this.entries, options, ports, tally)
    this.policy = new WritePolicy(this.entries, this.writes, options.writePolicy, options.shards.length > 0, tally)
    const victims = new Victims(this.entries, this.cache, tally)
    this.#claims = new Claims(this.entries, this.assemblies, this.cache, this.policy, victims)
    this.fills = new Fills(this.entries, this.cache, options.shards, ports, tally, (store, delta) =>
      this.demand(store, delta),
    )
  }

  /** Interests that callers hold through hold(); the rest belongs to copies, fills and writes. */
  get holds(): number {
    return this.#holds
  }

  defineClass(namespaceHex: string, geometry: GroupGeometry): number {
    return this.#classes.define(namespaceHex, geometry)
  }

  geometryOf(entry: number): GroupGeometry {
    return this.entries.shape(entry).geometry
  }

  classOf(entry: number): number {
    return this.entries.directory.classId(entry)
  }

  generationOf(entry: number): number {
    return this.entries.directory.generation(entry)
  }

  tick(nowUs: number): void {
    invariant(nowUs >= this.#nowUs, 'time does not go back', { nowUs, before: this.#nowUs })
    this.#nowUs = nowUs
    this.cache.tick(nowUs)
    this.#collect(nowUs - this.#options.assemblyAgeUsMax)
    this.writes.tick(nowUs)
  }

  nextTickUs(): number {
    // An old assembly that is held, or copied into, is due and stays: look again later, not at once.
    const collectUs = Math.max(
      this.assemblies.oldestProgressUs + this.#options.assemblyAgeUsMax,
      this.#nowUs + COLLECT_INTERVAL_US,
    )
    return Math.min(this.assemblies.count > 0 ? collectUs : Number.POSITIVE_INFINITY, this.writes.nextTickUs)
  }

  lookup(classId: number, keys: Uint8Array, count: number, entries: Int32Array): number {
    this.entries.directory.lookup(classId, keys, count, entries)
    let found = 0
    for (let index = 0; index < count; index++) {
      if (this.published(entries[index] as number)) found++
      else entries[index] = NONE
    }
    return found
  }

  countRequest(ram: number, ssd: number, missed: number): void {
    this.#tally.add(COUNT.blockHits, ram + ssd)
    this.#tally.add(COUNT.blockMisses, missed)
    this.#tally.add(COUNT.requestsRam, ram)
    this.#tally.add(COUNT.requestsSsd, ssd)
    this.#tally.add(COUNT.requestsMiss, missed)
  }

  hashKeys(classId: number, keys: Uint8Array, count: number, target: Uint32Array, at: number): void {
    this.entries.directory.hashKeys(classId, keys, count, target, at)
  }

  requested(high: number, low: number): void {
    this.cache.asked(high, low)
  }

  inDram(entry: number): boolean {
    return this.entries.resident(entry)
  }

  onSsd(entry: number): boolean {
    return this.entries.onSsd(entry)
  }

  published(entry: number): boolean {
    return entry !== NONE && this.entries.published(entry)
  }

  hold(entry: number): void {
    this.entries.hold(entry)
    this.#holds++
  }

  use(entry: number): void {
    if (this.inDram(entry)) this.cache.used(entry)
    else this.fills.demanded(entry)
  }

  returned(entry: number): void {
    this.policy.returned(entry, this.#nowUs)
  }

  restored(entry: number): void {
    if (this.inDram(entry)) this.cache.restored(entry)
  }

  duplicate(): void {
    this.policy.skipped('duplicate')
  }

  drop(entry: number): void {
    invariant(this.#holds > 0, 'only a held entry is dropped', { entry })
    this.#holds--
    this.entries.drop(entry)
  }

  claim(classId: number, keys: Uint8Array, keyIndex: number): Claim {
    return this.#claims.claim(classId, keys, keyIndex, this.#nowUs)
  }

  allocate(entry: number): Allocation {
    invariant(this.assemblies.has(entry), 'memory is allocated for an entry that is being assembled', { entry })
    if (this.entries.hasMemory(entry)) return 'ok'
    return this.cache.allocate(entry, true)
  }

  wants(entry: number, offered: readonly GranuleRun[]): boolean {
    return this.assemblies.wants(entry, offered)
  }

  untouched(entry: number): boolean {
    return this.assemblies.untouched(entry)
  }

  contribute(entry: number, offered: readonly GranuleRun[], runs: number[]): number {
    return this.assemblies.contribute(entry, offered, runs, this.#nowUs)
  }

  codedRoom(entry: number, granule: number): number {
    return this.#codings.room(entry, granule)
  }

  coded(entry: number, granule: number, storedBytes: number, crc32: number): void {
    this.#codings.ended(entry, granule, storedBytes, crc32)
  }

  keepRaw(entry: number, granule: number): void {
    this.#codings.refused(entry, granule)
  }

  landed(entry: number, runs: readonly number[], from: number, end: number): void {
    this.assemblies.ended(entry, runs, from, end, true, this.#nowUs)
  }

  copyFailed(entry: number, runs: readonly number[], from: number, end: number): void {
    this.assemblies.ended(entry, runs, from, end, false, this.#nowUs)
  }

  complete(entry: number): boolean {
    return this.assemblies.complete(entry)
  }

  assembling(entry: number): boolean {
    return this.assemblies.has(entry)
  }

  granuleOffset(entry: number, granule: number): number {
    return this.entries.offsetBytes(entry, granule)
  }

  crc(entry: number, granule: number): number {
    return this.entries.crc(entry, granule)
  }

  granule(entry: number, granule: number): StoredGranule {
    return this.entries.granule(entry, granule)
  }

  encoded(entry: number, granule: number): boolean {
    return this.entries.encoded(entry, granule)
  }

  extentBytes(entry: number): number {
    return this.entries.extentBytes(entry)
  }

  blockBytes(classId: number): number | null {
    const { lengths, geometry } = this.#classes.get(classId)
    return lengths === null ? geometry.extentBytes : null
  }

  extentOffset(entry: number, granule: number): number {
    return this.entries.extentOffsetBytes(entry, granule)
  }

  unchecked(entry: number): number[] {
    return this.assemblies.unchecked(entry)
  }

  setCrc(entry: number, granule: number, crc32: number): void {
    if (!this.assemblies.has(entry)) return
    this.assemblies.checked(entry, granule)
    this.entries.setCrc(entry, granule, crc32)
  }

  seal(entry: number): void {
    this.assemblies.finish(entry)
    // Held here, so that the write can take its own interest before the entry may be evicted.
    this.entries.hold(entry)
    this.entries.seal(entry)
    this.cache.arrived(entry, null)
    this.#tally.add(COUNT.insertions, 1)
    if (this.writes.directSealed(entry, this.#nowUs)) this.policy.forget(entry)
    else this.policy.sealed(entry, this.#nowUs)
    this.entries.drop(entry)
  }

  beginDirect(entry: number): SourcePlace | null {
    const whole = this.assemblies.untouched(entry) || this.assemblies.complete(entry)
    invariant(whole, 'a direct write brings all of its block, before or after its copy', { entry })
    if (!this.policy.judge(entry)) return null
    const reserved = this.writes.beginDirect(entry, this.#nowUs)
    return reserved === null ? null : this.#placeIn(reserved.shard, reserved.offsetBytes)
  }

  abortDirect(entry: number): void {
    this.writes.abortDirect(entry, this.#nowUs)
  }

  directEnded(entry: number, whole: boolean): void {
    this.writes.directEnded(entry, whole, this.assemblies.has(entry), this.#nowUs)
  }

  abandon(entry: number): void {
    if (!this.assemblies.has(entry)) return
    this.policy.forget(entry)
    this.assemblies.abandon(entry)
    this.writes.directAbandoned(entry, this.#nowUs)
  }

  fill(entry: number, waiter: number, purpose: FillPurpose = 'demand'): FillOutcome {
    return this.fills.start(entry, waiter, purpose, this.#nowUs)
  }

  cancelFill(entry: number, waiter: number): CancelOutcome {
    return this.fills.cancel(entry, waiter, this.#nowUs)
  }

  source(entry: number): SourcePlace | null {
    const { directory, extents } = this.entries
    const extent = directory.extent(entry)
    if (extent === NONE) return null
    const shard = directory.shard(entry)
    return this.#placeIn(shard, extents.shard(shard).offsetBytes(extent))
  }

  #placeIn(shard: number, fileOffsetBytes: number): SourcePlace {
    const place = this.#options.shards[shard]
    invariant(place !== undefined, 'an extent lies in a shard that was opened', { shard, fileOffsetBytes })
    return { store: place.store, file: place.file, fileOffsetBytes }
  }

  demand(store: number, delta: number): void {
    this.writes.demand(store, delta, this.#nowUs)
  }

  invalidate(entry: number): void {
    if (!this.published(entry)) return
    this.#tally.add(COUNT.invalidations, 1)
    this.entries.hide(entry)
  }

  invalidateGeneration(entry: number, generation: number): boolean {
    if (!this.published(entry) || this.generationOf(entry) !== generation) return false
    this.invalidate(entry)
    return true
  }

  dropDram(): DropReport {
    return this.cache.drop()
  }

  dropClass(classId: number): number {
    const doomed: number[] = []
    const { directory } = this.entries
    directory.forEach((entry) => {
      if (directory.classId(entry) === classId && this.entries.is(entry, ENTRY_STATE.published)) doomed.push(entry)
    })
    for (const entry of doomed) this.invalidate(entry)
    return doomed.length
  }

  sync(waiter: number): 'done' | 'waiting' {
    return this.writes.sync(waiter) ? 'done' : 'waiting'
  }

  cancelSync(waiter: number): void {
    this.writes.cancelSync(waiter)
  }

  get writesPending(): number {
    return this.writes.pending
  }

  beginDrain(): void {
    this.fills.beginDrain(this.#nowUs)
    this.writes.beginDrain(this.#nowUs)
    // What is missing of a block will not come any more.
    this.#collect(Number.POSITIVE_INFINITY)
  }

  /** Gives up assemblies without progress since `beforeUs`. */
  #collect(beforeUs: number): void {
    this.#tally.add(COUNT.inflightGcCleaned, this.assemblies.collect(beforeUs))
  }

  get quiesced(): boolean {
    return this.writes.pending === 0 && this.fills.count === 0 && this.assemblies.copiesInFlight === 0
  }

  gauges(): StorageGauges {
    return gaugesOf(this)
  }

  refreshGauges(): void {
    this.#shown.refresh(this, this.#tally)
  }

  readDone(store: number, reply: Extract<HostReaderReply, { kind: 'read-done' }>): void {
    this.fills.done(store, reply, this.#nowUs)
  }

  writeDone(writer: number, reply: Extract<WritebackReply, { kind: 'write-done' }>): void {
    this.writes.done(writer, reply, this.#nowUs)
  }
}
