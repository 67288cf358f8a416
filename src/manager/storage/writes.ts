import type { WritebackReply } from '../../actors/writeback/messages.js'
import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { NONE } from '../../shared/directory/directory.js'
import { WRITE } from '../../shared/layout/descriptors.js'
import { ByteWindow } from '../../shared/scheduling/byte-window.js'
import { STORAGE_COUNT, STORAGE_HISTOGRAM, WRITE_DROP_COUNT, type WriteDrop } from './counters.js'
import type { Entries } from './entries.js'
import type { ShardPlace, StorageOptions, StoragePorts } from './ports.js'
import { WriteLane } from './write-lane.js'

type WriteDone = Extract<WritebackReply, { kind: 'write-done' }>

/** One sealed block on its way to SSD. It holds an interest from the seal to its end. */
interface WriteJob {
  readonly entry: number
  readonly bytes: number
  readonly sealedUs: number
  /** Place in the order of seals. */
  readonly turn: number
  shard: number
  extent: number
  ended: boolean
}

/** A write from engine pages. */
interface DirectJob {
  readonly job: WriteJob
  sealed: boolean
  /** Every byte is on the SSD. */
  written: boolean
  /** The lane has ended it. */
  over: boolean
}

/**
 * DRAM to SSD, after the seal: best effort, bounded, and every block that does not get there is counted with a reason.
 *
 * | a job      | holds                       | leaves by                                                        |
 * |------------|-----------------------------|------------------------------------------------------------------|
 * | queued     | the entry                   | a reservation; a drop (no room, drain, the entry was hidden)     |
 * | reserved   | the entry, an extent        | write-done, and by nothing else                                  |
 *
 * A *direct* write goes from engine pages while they are copied to DRAM, or under a codec from where that was made. It takes its extent first, before the entry is
 * sealed, and is `reserved` from there on; it may end before or after the seal, and publishes its extent after both.
 *
 * A job takes its extent only when the window lets it go, so that no older block is overwritten earlier than needed.
 */
export class Writes {
  readonly #entries: Entries
  readonly #shards: readonly ShardPlace[]
  readonly #lanes: readonly WriteLane[]
  readonly #ports: StoragePorts
  readonly #tally: Tally
  readonly #largestBytes: number
  readonly #queue: WriteJob[] = []
  readonly #queueWindow: ByteWindow
  readonly #window: ByteWindow
  readonly #reserved = new Map<number, WriteJob>()
  /** By entry. */
  readonly #direct = new Map<number, DirectJob>()
  /** Assembling entries whose direct write has failed already. */
  readonly #failedDirect = new Set<number>()
  readonly #syncs: { readonly waiter: number; readonly turn: number }[] = []
  /** Every job that has not ended, in order of turns; ended ones leave from the front. */
  readonly #order: WriteJob[] = []
  readonly #evicted: number[] = []
  #lastTurn = 0
  #pending = 0
  #draining = false

  constructor(entries: Entries, options: StorageOptions, ports: StoragePorts, tally: Tally) {
    this.#entries = entries
    this.#shards = options.shards
    this.#ports = ports
    this.#tally = tally
    this.#largestBytes = largestShard(entries, options.shards.length)
    this.#queueWindow = new ByteWindow(options.writeQueueBytesMax)
    const writers = options.shards.reduce((most, shard) => Math.max(most, shard.writer + 1), 0)
    this.#lanes = Array.from({ length: writers }, (_, writer) => new WriteLane(writer, options, ports))
    this.#window = new ByteWindow(this.#openBytes())
  }

  get queued(): number {
    return this.#queue.length
  }

  get queuedBytes(): number {
    return this.#queueWindow.inFlightBytes
  }

  get reserved(): number {
    return this.#reserved.size + this.#direct.size
  }

  get reservedBytes(): number {
    let bytes = this.#window.inFlightBytes
    for (const { job } of this.#direct.values()) bytes += job.bytes
    return bytes
  }

  /** Queued and reserved. */
  get pending(): number {
    return this.#pending
  }

  get syncWaiters(): number {
    return this.#syncs.length
  }

  /** Every job that has not ended; `extent` is NONE until it is reserved. */
  *inFlight(): IterableIterator<{ entry: number; shard: number; extent: number }> {
    for (const { entry, shard, extent, ended } of this.#order) if (!ended) yield { entry, shard, extent }
  }

  /** Writeback lanes. */
  get writers(): number {
    return this.#lanes.length
  }

  outstandingOn(writer: number): number {
    return this.#lanes[writer]?.outstanding ?? 0
  }

  /** A sealed entry, which the caller holds: written in its turn, or dropped and counted. */
  admit(entry: number, nowUs: number): void {
    if (this.#shards.length === 0) return
    const bytes = this.#entries.extentBytes(entry)
    if (this.#draining) return this.#count('draining')
    if (bytes > this.#largestBytes) return this.#count('too_large')
    if (!this.#queueWindow.enter(bytes)) return this.#count('queue_full')
    this.#entries.hold(entry)
    this.#entries.setWriting(entry, true)
    const job = { entry, bytes, sealedUs: nowUs, turn: ++this.#lastTurn, shard: NONE, extent: NONE, ended: false }
    this.#queue.push(job)
    this.#order.push(job)
    this.#pending++
    this.#tally.add(STORAGE_COUNT.writesAdmitted, 1)
    this.#pump(nowUs)
  }

  /** Reserves an extent for a block that is being assembled; null: there is none now, and nothing has changed. */
  beginDirect(entry: number, nowUs: number): { readonly shard: number; readonly offsetBytes: number } | null {
    const bytes = this.#entries.extentBytes(entry)
    if (this.#draining || bytes > this.#largestBytes || this.#direct.has(entry)) return null
    const job = { entry, bytes, sealedUs: nowUs, turn: this.#lastTurn + 1, shard: NONE, extent: NONE, ended: false }
    if (!this.#reserve(job)) return null
    this.#lastTurn = job.turn
    this.#entries.hold(entry)
    this.#entries.setWriting(entry, true)
    this.#order.push(job)
    this.#pending++
    this.#failedDirect.delete(entry)
    this.#direct.set(entry, { job, sealed: false, written: false, over: false })
    return { shard: job.shard, offsetBytes: this.#entries.extents.shard(job.shard).offsetBytes(job.extent) }
  }

  /** Nothing of it was submitted: it is as if the extent had never been taken. */
  abortDirect(entry: number, nowUs: number): void {
    const { job } = this.#directOf(entry)
    this.#entries.extents.shard(job.shard).abort(job.extent)
    this.#direct.delete(entry)
    this.#leave(job)
    this.#pump(nowUs)
    this.#fireSyncs()
  }

  /** The lane has ended it. `assembling`: the entry may still be sealed. */
  directEnded(entry: number, whole: boolean, assembling: boolean, nowUs: number): void {
    const direct = this.#directOf(entry)
    direct.over = true
    direct.written = whole
    if (!whole || direct.sealed || !assembling) this.#settleDirect(direct, nowUs)
    // Its save was offered to the SSD, and counted: a seal that follows does not offer it again.
    if (!whole && assembling) this.#failedDirect.add(entry)
  }

  /** The entry is published from now on. False: no direct write has to do with it. */
  directSealed(entry: number, nowUs: number): boolean {
    const direct = this.#direct.get(entry)
    if (direct === undefined) return this.#failedDirect.delete(entry)
    direct.sealed = true
    if (direct.over) this.#settleDirect(direct, nowUs)
    return true
  }

  /** The entry ends unseen: what was written of it is nobody's. A write under way keeps its extent until it ends. */
  directAbandoned(entry: number, nowUs: number): void {
    this.#failedDirect.delete(entry)
    const direct = this.#direct.get(entry)
    if (direct?.over) this.#settleDirect(direct, nowUs)
  }

  #settleDirect(direct: DirectJob, nowUs: number): void {
    const { job, written, sealed } = direct
    if (written && sealed && this.#entries.published(job.entry)) {
      this.#entries.gainExtent(job.entry, job.shard, job.extent)
      this.#tally.add(STORAGE_COUNT.writesCommitted, 1)
    } else {
      this.#entries.extents.shard(job.shard).abort(job.extent)
      this.#count(written ? 'invalidated' : 'failed')
    }
    this.#tally.add(STORAGE_COUNT.writesAdmitted, 1)
    this.#direct.delete(job.entry)
    this.#end(job, nowUs)
    this.#pump(nowUs)
    this.#fireSyncs()
  }

  #directOf(entry: number): DirectJob {
    const direct = this.#direct.get(entry)
    invariant(direct !== undefined, 'a direct write ends once', { entry })
    return direct
  }

  done(writer: number, reply: WriteDone, nowUs: number): void {
    const job = this.#reserved.get(reply.job)
    const lane = this.#lanes[writer]
    if (job === undefined || lane === undefined || !lane.ended(reply.job)) {
      this.#tally.add(STORAGE_COUNT.strayReplies, 1)
      return
    }
    this.#reserved.delete(reply.job)
    this.#window.leave(job.bytes)
    this.#settle(job, reply)
    this.#end(job, nowUs)
    this.#pump(nowUs)
    this.#fireSyncs()
  }

  /** Demand reads on a store begin (+) or end (-): writes to its files make room for them. */
  demand(store: number, delta: number, nowUs: number): void {
    for (const shard of this.#shards) {
      if (shard.store === store) this.#lanes[shard.writer]?.demand(delta, nowUs)
    }
    this.#window.resize(this.#openBytes())
  }

  tick(nowUs: number): void {
    for (const lane of this.#lanes) lane.tick(nowUs)
    this.#window.resize(this.#openBytes())
    this.#pump(nowUs)
    this.#fireSyncs()
  }

  /** When a window may open again; Infinity: none is shrunk. */
  get nextTickUs(): number {
    return this.#lanes.reduce((soonest, lane) => Math.min(soonest, lane.reopensUs), Number.POSITIVE_INFINITY)
  }

  /** True: nothing is pending. False: ports.synced(waiter) follows. */
  sync(waiter: number): boolean {
    if (this.#pending === 0) return true
    this.#syncs.push({ waiter, turn: this.#lastTurn })
    return false
  }

  cancelSync(waiter: number): void {
    const at = this.#syncs.findIndex((sync) => sync.waiter === waiter)
    if (at >= 0) this.#syncs.splice(at, 1)
  }

  /** The index dies with the process, so what is only queued would be written for nobody. */
  beginDrain(nowUs: number): void {
    this.#draining = true
    for (const job of this.#queue.splice(0)) this.#drop(job, 'draining', nowUs)
    this.#fireSyncs()
  }

  #pump(nowUs: number): void {
    for (let job = this.#queue[0]; job !== undefined; job = this.#queue[0]) {
      const hidden = !this.#entries.published(job.entry)
      if (!hidden && !this.#window.enter(job.bytes)) return
      if (!hidden && this.#reserve(job)) {
        this.#queue.shift()
        this.#queueWindow.leave(job.bytes)
        this.#send(job)
        continue
      }
      if (!hidden) {
        this.#window.leave(job.bytes)
        // Extents in flight stand in the way as pinned ones do, but not for long: wait for them before giving up.
        if (this.#window.inFlight > 0) return
      }
      this.#queue.shift()
      this.#drop(job, hidden ? 'invalidated' : 'no_space_pinned', nowUs)
    }
  }

  #reserve(job: WriteJob): boolean {
    this.#evicted.length = 0
    const place = this.#entries.extents.reserve(job.bytes, job.entry, this.#evicted)
    if ('refused' in place) return false
    job.shard = place.shard
    job.extent = place.extent
    for (const owner of this.#evicted) {
      this.#tally.add(STORAGE_COUNT.ssdOverwrites, 1)
      if (this.#entries.loseExtent(owner)) this.#tally.add(STORAGE_COUNT.blocksLost, 1)
    }
    return true
  }

  #send(job: WriteJob): void {
    const { file, writer } = this.#shards[job.shard] as ShardPlace
    const granules = this.#entries.shape(job.entry).geometry.granules.length
    const doubles = new Float64Array(granules * WRITE.doubles)
    for (let granule = 0; granule < granules; granule++) {
      doubles[granule * WRITE.doubles + WRITE.poolOffsetBytes] = this.#entries.offsetBytes(job.entry, granule)
      doubles[granule * WRITE.doubles + WRITE.bytes] = this.#entries.granule(job.entry, granule).bytes
    }
    const fileOffsetBytes = this.#entries.extents.shard(job.shard).offsetBytes(job.extent)
    this.#reserved.set(job.turn, job)
    const list = { doubles, offset: 0, length: doubles.length }
    this.#lanes[writer]?.send({ kind: 'write', job: job.turn, file, fileOffsetBytes, list })
  }

  /** Publishes the extent of a whole write; every other ending gives it back. */
  #settle(job: WriteJob, reply: WriteDone): void {
    if (reply.latencyUs > 0) {
      this.#tally.observe(STORAGE_HISTOGRAM.writeThroughput, (reply.bytes * 1e6) / reply.latencyUs)
    }
    const whole = reply.status === ERROR_CODES.ok && reply.bytes === job.bytes
    const wanted = this.#entries.published(job.entry)
    if (whole && wanted) {
      this.#entries.gainExtent(job.entry, job.shard, job.extent)
      this.#tally.add(STORAGE_COUNT.writesCommitted, 1)
      return
    }
    this.#entries.extents.shard(job.shard).abort(job.extent)
    this.#count(whole ? 'invalidated' : reply.status === ERROR_CODES.io_disk_full ? 'disk_full' : 'failed')
  }

  #drop(job: WriteJob, reason: WriteDrop, nowUs: number): void {
    this.#queueWindow.leave(job.bytes)
    this.#count(reason)
    this.#end(job, nowUs)
  }

  #end(job: WriteJob, nowUs: number): void {
    this.#tally.observe(STORAGE_HISTOGRAM.writeUs, nowUs - job.sealedUs)
    this.#leave(job)
  }

  #leave(job: WriteJob): void {
    job.ended = true
    this.#pending--
    while (this.#order[0]?.ended) this.#order.shift()
    this.#entries.setWriting(job.entry, false)
    this.#entries.drop(job.entry)
  }

  #fireSyncs(): void {
    const oldest = this.#order[0]?.turn ?? Number.POSITIVE_INFINITY
    while (this.#syncs[0] !== undefined && this.#syncs[0].turn < oldest) {
      this.#ports.synced((this.#syncs.shift() as { waiter: number }).waiter)
    }
  }

  #count(reason: WriteDrop): void {
    this.#tally.add(WRITE_DROP_COUNT[reason], 1)
    if (reason === 'queue_full') this.#tally.add(STORAGE_COUNT.writeQueueFull, 1)
  }

  /** What all lanes together may have in flight now. */
  #openBytes(): number {
    return this.#lanes.reduce((sum, lane) => sum + lane.windowBytes, 0)
  }
}

function largestShard(entries: Entries, shards: number): number {
  let bytes = 0
  for (let shard = 0; shard < shards; shard++) bytes = Math.max(bytes, entries.extents.shard(shard).capacityBytes)
  return bytes
}
