import type { HostReaderReply } from '../../actors/host-reader/messages.js'
import { type ErrorCode, errorCodeName, provesLoss } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { NONE } from '../../shared/directory/directory.js'
import { READ } from '../../shared/layout/descriptors.js'
import type { DramCache } from '../cache/dram-cache.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM } from './counters.js'
import type { Entries } from './entries.js'
import { ENDED, Fill, SENT } from './fill.js'
import type { CancelOutcome, FillOutcome, FillPurpose, ShardPlace, StoragePorts } from './ports.js'
import { ReadCredits } from './read-credits.js'

type ReadDone = Extract<HostReaderReply, { kind: 'read-done' }>

/** Granules [first, end) of one fill, sent as one record; `left` of them have not ended. */
interface Batch {
  readonly fill: Fill
  readonly first: number
  readonly end: number
  left: number
}

/**
 * SSD to DRAM. Waiters for one block share one read; a waiter that leaves stops it only when it was the last, and then
 * what was submitted still ends first. Reads are verified by the lane: success means the published bytes.
 *
 * | a fill       | memory belongs to | leaves by                                                       |
 * |--------------|-------------------|-----------------------------------------------------------------|
 * | queued       | storage           | credits (reads are sent); the last waiter leaves; drain         |
 * | outstanding  | the device        | the end of its last submitted read, and by nothing else         |
 * | ended        | the DRAM cache when every granule arrived verified, else the pool again             |
 */
export class Fills {
  readonly #entries: Entries
  readonly #cache: DramCache
  readonly #shards: readonly ShardPlace[]
  readonly #ports: StoragePorts
  readonly #tally: Tally
  readonly #demand: (store: number, delta: number) => void
  readonly #byEntry = new Map<number, Fill>()
  readonly #batches = new Map<number, Batch>()
  readonly #stores: readonly ReadCredits[]
  #lastBatch = 0
  #draining = false

  constructor(
    entries: Entries,
    cache: DramCache,
    shards: readonly ShardPlace[],
    ports: StoragePorts,
    tally: Tally,
    demand: (store: number, delta: number) => void,
  ) {
    this.#entries = entries
    this.#cache = cache
    this.#shards = shards
    this.#ports = ports
    this.#tally = tally
    this.#demand = demand
    const stores = shards.reduce((most, shard) => Math.max(most, shard.store + 1), 0)
    this.#stores = Array.from({ length: stores }, () => new ReadCredits())
  }

  get count(): number {
    return this.#byEntry.size
  }

  get outstanding(): number {
    return this.#stores.reduce((sum, store) => sum + store.outstanding, 0)
  }

  get queued(): number {
    return this.#stores.reduce((sum, store) => sum + store.queued, 0)
  }

  /** The entries being filled, with the reads each has outstanding. */
  *inFlight(): IterableIterator<{ entry: number; store: number; outstanding: number }> {
    for (const { entry, place, outstanding } of this.#byEntry.values()) yield { entry, store: place.store, outstanding }
  }

  /** The entry whose reads were sent as `batch`; NONE when none of them is outstanding. */
  entryOf(batch: number): number {
    return this.#batches.get(batch)?.fill.entry ?? NONE
  }

  outstandingOn(store: number): number {
    return this.#stores[store]?.outstanding ?? 0
  }

  start(entry: number, waiter: number, purpose: FillPurpose, nowUs: number): FillOutcome {
    if (this.#entries.resident(entry)) return 'resident'
    const running = this.#byEntry.get(entry)
    if (running !== undefined) return this.#join(running, waiter, purpose)
    if (!this.#entries.published(entry) || !this.#entries.onSsd(entry)) return 'gone'
    if (this.#draining) return 'draining'
    this.#entries.hold(entry)
    // A request must have it; a guess is weighed against what it would displace.
    if (this.#cache.allocate(entry, purpose === 'speculation') !== 'ok') {
      this.#entries.drop(entry)
      return 'no-memory'
    }
    const place = this.#shards[this.#entries.directory.shard(entry)] as ShardPlace
    const granules = this.#entries.shape(entry).geometry.granules.length
    const fill = new Fill(entry, place, granules, nowUs, purpose, (of, first, count) => this.#send(of, first, count))
    fill.waiters.push(waiter)
    this.#byEntry.set(entry, fill)
    this.#tally.add(STORAGE_COUNT.fillsStarted, 1)
    this.#demand(place.store, 1)
    this.#enqueue(fill)
    return 'started'
  }

  /** A request needs the block that is on its way. */
  demanded(entry: number): void {
    const fill = this.#byEntry.get(entry)
    if (fill !== undefined) fill.demanded = true
  }

  /** The waiter leaves. The last one to leave stops what was not sent, and hears when the rest has ended. */
  cancel(entry: number, waiter: number, nowUs: number): CancelOutcome {
    const fill = this.#byEntry.get(entry)
    const at = fill?.waiters.indexOf(waiter) ?? -1
    if (fill === undefined || at < 0) return 'absent'
    fill.waiters.splice(at, 1)
    if (fill.waiters.length > 0) return 'left'
    const draining = fill.outstanding > 0
    if (draining) fill.drainers.push(waiter)
    this.#stop(fill, nowUs)
    return draining ? 'draining' : 'left'
  }

  /** One granule ended. A reply that matches nothing outstanding is counted and changes nothing. */
  done(store: number, reply: ReadDone, nowUs: number): void {
    const batch = this.#batches.get(reply.batch)
    const outstanding =
      batch !== undefined &&
      batch.fill.place.store === store &&
      reply.index >= batch.first &&
      reply.index < batch.end &&
      batch.fill.granules[reply.index] === SENT
    if (!outstanding) {
      this.#tally.add(STORAGE_COUNT.strayReplies, 1)
      return
    }
    const { fill } = batch
    fill.granules[reply.index] = ENDED
    fill.outstanding--
    if (--batch.left === 0) this.#batches.delete(reply.batch)
    this.#judge(fill, reply)
    this.#stores[store]?.returned()
    this.#endIfSettled(fill, nowUs)
  }

  /** Fills that still have reads to send end as draining, once what they sent has ended. */
  beginDrain(nowUs: number): void {
    this.#draining = true
    for (const fill of [...this.#byEntry.values()]) {
      if (fill.unsent === 0) continue
      if (fill.status === 'ok') fill.status = 'draining'
      this.#stop(fill, nowUs)
    }
  }

  #join(fill: Fill, waiter: number, purpose: FillPurpose): FillOutcome {
    fill.waiters.push(waiter)
    if (purpose === 'demand') fill.demanded = true
    this.#tally.add(STORAGE_COUNT.fillsJoined, 1)
    // Everyone had left and its unsent reads were withdrawn: it is wanted again.
    if (fill.unsent > 0 && !fill.queued && fill.status === 'ok') this.#enqueue(fill)
    return 'joined'
  }

  #enqueue(fill: Fill): void {
    fill.queued = true
    this.#creditsOf(fill).enqueue(fill)
  }

  #stop(fill: Fill, nowUs: number): void {
    if (fill.queued) this.#creditsOf(fill).withdraw(fill)
    fill.queued = false
    this.#endIfSettled(fill, nowUs)
  }

  #send(fill: Fill, first: number, count: number): void {
    const { entry, place } = fill
    const { directory, extents } = this.#entries
    const extentOffsetBytes = extents.shard(directory.shard(entry)).offsetBytes(directory.extent(entry))
    let fileOffsetBytes = extentOffsetBytes + this.#entries.extentOffsetBytes(entry, first)
    const doubles = new Float64Array(count * READ.doubles)
    for (let index = 0; index < count; index++) {
      const granule = first + index
      const stored = this.#entries.granule(entry, granule)
      const at = index * READ.doubles
      doubles[at + READ.index] = granule
      doubles[at + READ.file] = place.file
      doubles[at + READ.fileOffsetBytes] = fileOffsetBytes
      doubles[at + READ.poolOffsetBytes] = this.#entries.offsetBytes(entry, granule)
      doubles[at + READ.bytes] = stored.bytes
      doubles[at + READ.segmentBytes] = stored.segmentBytes
      doubles[at + READ.segmentStrideBytes] = stored.segmentStrideBytes
      doubles[at + READ.crc32] = this.#entries.crc(entry, granule)
      fileOffsetBytes += stored.bytes
    }
    const batch = ++this.#lastBatch
    this.#batches.set(batch, { fill, first, end: first + count, left: count })
    this.#ports.read(place.store, { kind: 'read-batch', batch, list: { doubles, offset: 0, length: doubles.length } })
  }

  /** Believes a success only with every byte; after a failure nothing new is sent. */
  #judge(fill: Fill, reply: ReadDone): void {
    const wanted = this.#entries.granule(fill.entry, reply.index).bytes
    let status: ErrorCode = errorCodeName(reply.status)
    if (status === 'ok' && reply.bytes !== wanted) status = 'io_short'
    if (status === 'ok') return
    if (fill.status === 'ok' || provesLoss(status)) fill.status = status
    if (fill.queued) this.#creditsOf(fill).withdraw(fill)
    fill.queued = false
  }

  #endIfSettled(fill: Fill, nowUs: number): void {
    if (fill.outstanding > 0 || fill.queued) return
    const { entry, waiters, drainers, place } = fill
    this.#byEntry.delete(entry)
    this.#demand(place.store, -1)
    this.#tally.observe(STORAGE_HISTOGRAM.fillUs, nowUs - fill.startedUs)
    const status = fill.status === 'ok' && fill.unsent > 0 ? 'cancelled' : fill.status
    if (status === 'ok') this.#arrive(fill, nowUs)
    else this.#fail(entry, status)
    // Waiters hear of it while the fill still holds the entry, so that they can take interests of their own.
    for (const waiter of [...waiters, ...drainers]) this.#ports.filled(waiter, entry, status)
    this.#entries.drop(entry)
  }

  #arrive({ entry, guess, demanded, startedUs }: Fill, nowUs: number): void {
    this.#entries.filled(entry)
    this.#cache.arrived(entry, { guess, demanded })
    const extentBytes = this.#entries.extentBytes(entry)
    this.#tally.add(STORAGE_COUNT.fillsDone, 1)
    this.#tally.add(STORAGE_COUNT.fillBytes, extentBytes)
    if (nowUs > startedUs) {
      this.#tally.observe(STORAGE_HISTOGRAM.fillThroughput, (extentBytes * 1e6) / (nowUs - startedUs))
    }
  }

  #fail(entry: number, status: ErrorCode): void {
    this.#entries.deallocate(entry)
    this.#tally.add(status === 'cancelled' ? STORAGE_COUNT.fillsCancelled : STORAGE_COUNT.fillsFailed, 1)
    if (!provesLoss(status) || !this.#entries.published(entry)) return
    this.#tally.add(STORAGE_COUNT.invalidations, 1)
    this.#entries.hide(entry)
  }

  #creditsOf(fill: Fill): ReadCredits {
    const credits = this.#stores[fill.place.store]
    invariant(credits !== undefined, 'every shard has a store', { store: fill.place.store })
    return credits
  }
}
