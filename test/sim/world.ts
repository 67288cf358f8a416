import { createHash } from 'node:crypto'
import { DRAM_WORKER_COUNT } from '../../src/actors/dram-worker/counters.js'
import type { DramWorkerEffect, DramWorkerInput } from '../../src/actors/dram-worker/machine.js'
import {
  type DramWorkerReply,
  type DramWorkerRequest,
  replyCodec as dramReplies,
  requestCodec as dramRequests,
} from '../../src/actors/dram-worker/messages.js'
import { HOST_READER_COUNT } from '../../src/actors/host-reader/counters.js'
import type { HostReaderEffect, HostReaderInput } from '../../src/actors/host-reader/machine.js'
import {
  type HostReaderReply,
  type HostReaderRequest,
  replyCodec as readerReplies,
  requestCodec as readerRequests,
} from '../../src/actors/host-reader/messages.js'
import { HOST_RESTORE_COUNT } from '../../src/actors/host-restore/counters.js'
import {
  type HostRestoreReply,
  type HostRestoreRequest,
  replyCodec as restoreReplies,
  requestCodec as restoreRequests,
} from '../../src/actors/host-restore/messages.js'
import { WRITEBACK_COUNT } from '../../src/actors/writeback/counters.js'
import type { WritebackEffect, WritebackInput } from '../../src/actors/writeback/machine.js'
import {
  type WritebackReply,
  type WritebackRequest,
  replyCodec as writeReplies,
  requestCodec as writeRequests,
} from '../../src/actors/writeback/messages.js'
import { VERB_COUNT } from '../../src/manager/counters.js'
import { type ManagerSinks, perform } from '../../src/manager/effects.js'
import { LaneJobs } from '../../src/manager/lanes/lane-jobs.js'
import { ManagerMachine } from '../../src/manager/machine.js'
import type { ControlReply, ManagerEffect, ManagerInput } from '../../src/manager/messages.js'
import type { ManagerOptions } from '../../src/manager/options.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import type { ManagerPorts } from '../../src/manager/ports.js'
import { census } from '../../src/manager/storage/census.js'
import { STORAGE_COUNT } from '../../src/manager/storage/counters.js'
import type { StorageOptions, StoragePorts } from '../../src/manager/storage/ports.js'
import { Storage } from '../../src/manager/storage/storage.js'
import type { Tally } from '../../src/shared/base/tally.js'
import { alignUp, MIB, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import type { MessageCodec } from '../../src/shared/rings/codec.js'
import { PlainTally } from '../support/plain-tally.js'
import { Actor } from './actor.js'
import { Channel } from './channel.js'
import { checkVerbs } from './checks/verbs.js'
import { Clock } from './clock.js'
import { Descriptors } from './descriptors.js'
import { Device, DeviceStream } from './device.js'
import { DiskPort, type Shard, shardOf } from './disk.js'
import { Engaged } from './engaged.js'
import { Engine } from './engine.js'
import {
  CONTROL_FAULTS,
  COPY_FAULTS,
  type FaultKind,
  FaultSite,
  type FaultTally,
  HINT_FAULTS,
  READ_FAULTS,
  Stream,
  WRITE_FAULTS,
} from './faults.js'
import { DramWorkerLane, HostReaderLane, HostRestoreLane, type LaneMachine, WritebackLane } from './lanes.js'
import { Flights } from './ledger.js'
import { Model, type Segment } from './model.js'
import type { Plan } from './plan.js'
import { Pool } from './pool.js'
import { SlotTables } from './slots.js'
import { Truth } from './truth.js'
import { must, Violation } from './violation.js'
import { type EntriesMixin, keyOf, watchedParts } from './watched-entries.js'
import { Wire } from './wire.js'

/** A planted bug: real machines and tables, one of them broken on purpose. */
export interface Twin {
  readonly name: string
  readonly entries?: EntriesMixin
  readonly storage?: (...args: ConstructorParameters<typeof Storage>) => Storage
  readonly dramWorker?: (
    real: LaneMachine<DramWorkerInput, DramWorkerEffect>,
  ) => LaneMachine<DramWorkerInput, DramWorkerEffect>
  readonly hostReader?: (
    real: LaneMachine<HostReaderInput, HostReaderEffect>,
  ) => LaneMachine<HostReaderInput, HostReaderEffect>
  readonly writeback?: (
    real: LaneMachine<WritebackInput, WritebackEffect>,
  ) => LaneMachine<WritebackInput, WritebackEffect>
}

export const NO_TWIN: Twin = { name: 'none' }

export const OUR_UID = 1000
const EPOCH = 77
/** Where each lane counts completions that name nothing. */
const STRAYS: Readonly<Record<string, number>> = {
  'dram-worker': DRAM_WORKER_COUNT.completionsStray,
  'host-restore': HOST_RESTORE_COUNT.completionsStray,
  'host-reader': HOST_READER_COUNT.completionsStray,
  writeback: WRITEBACK_COUNT.completionsStray,
}
const STEPS_MAX = 400_000
/** After faults stop, everything that was admitted ends within this much virtual time on top of the plan's own times. */
const SETTLE_US = 1_000_000
const SCRIPT_US_MAX = 5_000_000

/** What one seed did. */
export interface Outcome {
  readonly operations: number
  readonly hash: number
  readonly restoresVerified: number
  readonly blocksVerified: number
  readonly publishesDone: number
  /** Reads and writes of the disk that ended, well or not. */
  readonly reads: number
  readonly writes: number
  readonly virtualUs: number
}

/** One seed: the Manager, its lanes, a disk, a device and some engines, in one thread. */
export class World {
  readonly plan: Plan
  readonly twin: Twin
  readonly clock = new Clock()
  readonly fds = new Descriptors()
  readonly flights = new Flights()
  readonly slots = new SlotTables(this.fds)
  readonly models: readonly Model[]
  readonly pool: Pool
  readonly truth: Truth
  readonly engaged: Engaged
  readonly wire: Wire
  readonly wakeUs: Stream
  readonly engineUs: Stream
  readonly hints: FaultSite<(typeof HINT_FAULTS)[number]>
  readonly control: FaultSite<(typeof CONTROL_FAULTS)[number]>
  readonly faults: FaultTally
  readonly machine: ManagerMachine
  readonly storage: Storage
  readonly engines: readonly Engine[]
  readonly #on: ReadonlySet<FaultKind>
  readonly #sites: FaultSite<FaultKind>[] = []
  readonly #device: Device
  readonly #shards: ReadonlyMap<number, Shard>
  readonly #storageTally = new PlainTally()
  readonly #verbTally = new PlainTally()
  readonly #ringUs: Stream
  readonly #diskUs: Stream
  readonly #copyUs: Stream
  readonly #manager: Actor
  readonly #dram: DramWorkerLane
  readonly #restore: HostRestoreLane
  readonly #readers: readonly HostReaderLane[]
  readonly #writers: readonly WritebackLane[]
  readonly #channels: Channel<never>[] = []
  #effects: ManagerEffect[] = []
  #sinks: ManagerSinks
  #drained: ControlReply | null = null
  #steps = 0
  #hash = 0
  restoresVerified = 0
  blocksVerified = 0
  publishesDone = 0
  draining = false

  constructor(plan: Plan, faults: FaultTally, twin: Twin = NO_TWIN) {
    this.plan = plan
    this.twin = twin
    this.faults = faults
    const { sizes } = plan
    const off = new Set(plan.off)
    this.#on = new Set(
      [
        ...READ_FAULTS,
        ...WRITE_FAULTS,
        ...COPY_FAULTS,
        ...HINT_FAULTS,
        ...CONTROL_FAULTS,
        'peer-stuck' as const,
      ].filter((kind) => !off.has(kind)),
    )
    this.wakeUs = new Stream(plan.wakeUs)
    this.engineUs = new Stream(plan.engineUs)
    this.#ringUs = new Stream(plan.ringUs)
    this.#diskUs = new Stream(plan.diskUs)
    this.#copyUs = new Stream(plan.copyUs)
    this.hints = this.#site(plan.hints, HINT_FAULTS)
    this.control = this.#site(plan.control, CONTROL_FAULTS)
    this.models = plan.models.map((model, number) => new Model(number, model))
    const blockBytes = this.#largestBlockBytes()
    const stores = sizes.ssd ? sizes.stores : 0
    const windowBytes = MIB
    this.pool = new Pool(sizes.poolBlocks * blockBytes.dram, windowBytes)
    this.truth = new Truth(this.pool)
    this.#device = new Device(this.pool, this.flights)
    const shards: Shard[] = []
    for (let shard = 0; shard < stores * sizes.shardsPerStore; shard++) {
      shards.push(shardOf(10 + shard, sizes.shardBlocks * blockBytes.disk))
    }
    this.#shards = new Map(shards.map((shard) => [shard.file, shard]))
    this.engaged = new Engaged(this.pool, this.#shards)
    this.wire = new Wire(this.clock, new Stream(plan.wireUs), this.fds, this.#site(plan.sends, ['peer-stuck'] as const))

    const storageOptions: StorageOptions = {
      poolBytes: this.pool.allocatedBytes,
      entriesMax: sizes.entriesMax,
      directorySeed: [plan.wakeUs[0] ?? 1, 7],
      shards: shards.map(({ file, bytes }, index) => {
        const store = index % stores
        return { file, capacityBytes: bytes.length, store, writer: store }
      }),
      extentAlignmentBytes: 512,
      writeQueueBytesMax: sizes.queueBlocks * blockBytes.disk,
      writeWindowBytes: 2 * blockBytes.disk,
      writeWindowBytesMin: 4096,
      writeWindowRestoreUs: 2_000,
      writePolicy: sizes.writePolicy,
      cache: { protectedBytesMax: sizes.protectedBlocks * blockBytes.dram, lfuAdmission: sizes.lfuAdmission },
      assemblyAgeUsMax: sizes.assemblyAgeUs,
    }
    const options: ManagerOptions = {
      ...MANAGER_DEFAULTS,
      epoch: EPOCH,
      uids: [OUR_UID],
      ssd: stores > 0,
      routes: { ...MANAGER_DEFAULTS.routes, readRoute: sizes.readRoute },
      queryBudgetBytes: sizes.budgetBlocks * blockBytes.disk,
      queryInstanceBudgetBytes: Math.max(3, Math.ceil(sizes.budgetBlocks / 2)) * blockBytes.disk,
      leaseUs: sizes.leaseUs,
      queryUs: sizes.queryUs,
      publishWaitUs: sizes.publishWaitUs,
      queriesPerSessionMax: sizes.queriesPerSession,
      prepareUs: sizes.prepareUs,
      warmUs: sizes.warmUs,
      queryReadBatchBytes: sizes.readBatchBlocks * blockBytes.disk,
      queryReadBatchesMax: sizes.readBatchBlocks === 0 ? 0 : sizes.readBatchesMax,
      queryReadTimeoutUs: sizes.readTimeoutUs,
      reuseRegisterBits: 4,
      queriesMax: 64,
      descriptorsPerRecordMax: sizes.descriptorsPerRecord,
      publishPartBytes: sizes.publishPartBytes,
      slotsPerSessionMax: 64,
      sessionsMax: 16,
      instancesMax: 8,
    }
    let made: Storage | null = null
    this.machine = new ManagerMachine(
      options,
      this.#managerPorts(),
      (ports) => {
        made = this.#makeStorage(storageOptions, ports)
        return made
      },
      this.#verbTally,
      stores,
    )
    this.storage = made as unknown as Storage
    this.#shrinkJobs()
    this.#watchLeases()

    this.#manager = new Actor('manager', this.clock, this.wakeUs, {
      tick: (nowUs) => this.#step({ kind: 'tick', nowUs }, this.machine.nextTickUs() <= nowUs),
      nextTickUs: () => this.machine.nextTickUs(),
      perform: () => this.#performAll(),
    })
    const { partDescriptors, parts, storeReads } = sizes
    const restoreOptions = {
      windowOffsetBytes: this.pool.allocatedBytes,
      windowBytes,
      stores,
      storeReads,
      reads: 1 << Math.ceil(Math.log2(Math.max(1, storeReads * Math.max(1, stores)))),
      parts,
      partDescriptors,
    }
    // Lanes and channels name each other: channels are looked up when they are first used.
    let readerToRestore: Channel<HostReaderReply>[] = []
    let readerToManager: Channel<HostReaderReply>[] = []
    let restoreToReader: Channel<HostReaderRequest>[] = []
    let writerToManager: Channel<WritebackReply>[] = []
    this.#dram = new DramWorkerLane(this, () => dramToManager)
    this.#restore = new HostRestoreLane(
      this,
      restoreOptions,
      () => restoreToManager,
      () => restoreToReader,
    )
    const each = Array.from({ length: stores }, (_, store) => store)
    this.#readers = each.map(
      (store) =>
        new HostReaderLane(this, store, () => [
          readerToManager[store] as Channel<HostReaderReply>,
          readerToRestore[store] as Channel<HostReaderReply>,
        ]),
    )
    const windowed = storageOptions.writeWindowBytes
    this.#writers = each.map(
      (writer) => new WritebackLane(this, writer, windowed, () => writerToManager[writer] as Channel<WritebackReply>),
    )
    const dramToManager = this.#reply<DramWorkerReply>(
      'dram-worker to manager',
      dramReplies,
      this.#manager,
      (reply) => {
        if (reply.kind !== 'stopped') this.engaged.end(`d${reply.job}`)
        this.#step({ kind: 'dram-worker', device: 0, reply })
      },
    )
    const restoreToManager = this.#reply<HostRestoreReply>(
      'host-restore to manager',
      restoreReplies,
      this.#manager,
      (reply) => {
        if (reply.kind !== 'stopped') this.engaged.end(`h${reply.job}`)
        this.#step({ kind: 'host-restore', device: 0, reply })
      },
    )
    readerToManager = each.map((store) =>
      this.#reply<HostReaderReply>(`host-reader-${store} to manager`, readerReplies, this.#manager, (reply) => {
        if (reply.kind !== 'stopped') this.engaged.end(`r${store}/${reply.batch}/${reply.index}`)
        this.#step({ kind: 'host-reader', store, reply })
      }),
    )
    writerToManager = each.map((store) =>
      this.#reply<WritebackReply>(`writeback-${store} to manager`, writeReplies, this.#manager, (reply) => {
        if (reply.kind !== 'stopped') this.engaged.end(`w${store}/${reply.job}`)
        this.#step({ kind: 'writeback', store, reply })
      }),
    )
    readerToRestore = each.map((store) =>
      this.#reply<HostReaderReply>(
        `host-reader-${store} to host-restore`,
        readerReplies,
        this.#restore.actor,
        (reply) => {
          must(reply.kind === 'read-done', 'X1', () => 'a reader stops and tells host-restore')
          if (reply.kind === 'read-done') this.#restore.step(reply)
        },
      ),
    )
    restoreToReader = this.#readers.map((lane, store) =>
      this.#request<HostReaderRequest>(`host-restore to host-reader-${store}`, readerRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', client: 1, request }),
      ),
    )
    const managerToReader = this.#readers.map((lane, store) =>
      this.#request<HostReaderRequest>(`manager to host-reader-${store}`, readerRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', client: 0, request }),
      ),
    )
    const managerToWriter = this.#writers.map((lane, store) =>
      this.#request<WritebackRequest>(`manager to writeback-${store}`, writeRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', request }),
      ),
    )
    const managerToDram = this.#request<DramWorkerRequest>(
      'manager to dram-worker',
      dramRequests,
      this.#dram.actor,
      (request) => this.#dram.step({ kind: 'request', request }),
    )
    const managerToRestore = this.#request<HostRestoreRequest>(
      'manager to host-restore',
      restoreRequests,
      this.#restore.actor,
      (request) => this.#restore.step({ kind: 'request', request }),
    )
    this.#sinks = {
      native: {
        slotState: (slots: number, slot: number, generation: number, state: number) =>
          this.slots.state(slots, slot, generation, state),
        slotFinish: (
          slots: number,
          slot: number,
          generation: number,
          state: number,
          errorCode: number,
          firstFailed: number,
          bytes: number,
        ) => this.slots.finish(slots, slot, generation, { state, errorCode, firstFailed, bytes }),
        closeFd: (fd: number) => this.fds.close(fd),
        releaseSlots: (slots: number) => this.slots.release(slots),
      },
      port: {
        send: (connection: number, frame: Uint8Array, bytes: number, fds: readonly number[]) =>
          this.wire.reply(connection, frame, bytes, fds),
        closeConnection: (connection: number) => this.wire.closeConnection(connection),
      },
      readers: managerToReader.map((channel, store) => ({
        send: (request: HostReaderRequest) => {
          this.engaged.reads(store, request)
          channel.send(request)
        },
      })),
      writers: managerToWriter.map((channel, store) => ({
        send: (request: WritebackRequest) => {
          this.engaged.writes(store, request)
          channel.send(request)
        },
      })),
      dram: {
        send: (request: DramWorkerRequest) => {
          this.engaged.copies(request)
          managerToDram.send(request)
        },
      },
      restore: {
        send: (request: HostRestoreRequest) => {
          this.engaged.restores(request)
          managerToRestore.send(request)
        },
      },
      main: {
        send: (reply: ControlReply) => {
          must(this.#drained === null, 'O5', () => 'the Manager has drained twice')
          this.#drained = reply
        },
      },
    } as unknown as ManagerSinks
    this.wire.serve(this.#manager, {
      accepted: (connection, uid, pid) => this.#step({ kind: 'accepted', connection, uid, pid }),
      frame: (connection, frame, fds) => this.#step({ kind: 'frame', connection, frame, fds }),
      ended: (connection) => this.#step({ kind: 'connection-ended', connection }),
    })
    this.engines = plan.engines.map((engine, number) => new Engine(this, number, engine))
  }

  /** Runs the whole life of the seed. Throws a Violation, or whatever the code under test throws. */
  run(): Outcome {
    const { plan, clock } = this
    for (const engine of this.engines) engine.start()
    if (plan.drainAtUs !== null) {
      clock.after(plan.drainAtUs, () => {
        if (plan.drainLimitUs < SETTLE_US) this.faults.fired('drain-cut-short')
        this.drain(plan.drainLimitUs)
      })
    }
    this.#until(SCRIPT_US_MAX, () => this.engines.every(({ done }) => done))
    this.#calm()
    this.#settle('after the faults stopped')
    if (!this.draining) {
      for (const engine of this.engines) engine.probe()
      this.#settle('in phase two')
      for (const engine of this.engines) engine.mustHaveProbed()
    }
    for (const engine of this.engines) engine.finish()
    this.drain(SETTLE_US)
    const endUs = clock.nowUs + 2 * SETTLE_US
    this.#until(endUs, () => this.#drained !== null && clock.pending === 0)
    this.#rest()
    return {
      operations: this.#operations(),
      hash: this.#hash >>> 0,
      restoresVerified: this.restoresVerified,
      blocksVerified: this.blocksVerified,
      publishesDone: this.publishesDone,
      reads: this.#readers.reduce((sum, lane) => sum + lane.port.completions, 0),
      writes: this.#writers.reduce((sum, lane) => sum + lane.port.completions, 0),
      virtualUs: clock.nowUs,
    }
  }

  /** Every input of every machine but the clock's passes here. */
  noteStep(actor: string, input: { readonly kind: string }): void {
    this.#steps++
    must(this.#steps < STEPS_MAX, 'D4', () => `${this.#steps} steps and no end`)
    let hash = Math.imul(this.#hash ^ this.clock.nowUs, 0x9e3779b1)
    hash = Math.imul(hash ^ (actor.length * 131 + actor.charCodeAt(actor.length - 1)), 0x85ebca6b)
    const { kind } = input
    hash = Math.imul(hash ^ (kind.length * 31 + kind.charCodeAt(0)), 0xc2b2ae35)
    const inside = input as {
      tag?: number
      connection?: number
      reply?: { kind: string; job?: number; batch?: number }
    }
    hash ^= inside.tag ?? inside.connection ?? inside.reply?.job ?? inside.reply?.batch ?? 0
    this.#hash = hash ^ (hash >>> 15)
  }

  mixHash(value: number): void {
    const hash = Math.imul(this.#hash ^ value, 0x9e3779b1)
    this.#hash = hash ^ (hash >>> 15)
  }

  openStream(actor: Actor, completed: (tag: number, result: number) => void): DeviceStream {
    const site = this.#site(this.plan.copies, COPY_FAULTS)
    return new DeviceStream(this.#device, this.pool, this.flights, this.clock, actor, this.#copyUs, site, completed)
  }

  openDisk(actor: Actor, completed: (tag: number, result: number) => void): DiskPort {
    const reads = this.#site(this.plan.reads, READ_FAULTS)
    const writes = this.#site(this.plan.writes, WRITE_FAULTS)
    const { pool, flights, clock } = this
    return new DiskPort(this.#shards, pool, flights, clock, actor, this.#diskUs, reads, writes, completed)
  }

  drain(limitUs: number): void {
    this.draining = true
    this.#manager.post(0, () => this.#step({ kind: 'control', request: { kind: 'drain', limitUs } }))
  }

  #step(input: ManagerInput, counted = true): void {
    if (counted) this.noteStep('manager', input)
    this.machine.step(input, this.#effects)
    const breaches = census(this.storage)
    if (breaches.length > 0) throw new Violation('O1', breaches.join('; '))
    checkVerbs(this.machine.context, this.plan.sizes.jobsMax)
  }

  /** As src/manager/loop.ts performs a turn. */
  #performAll(): void {
    const stuck: number[] = []
    while (this.#effects.length > 0) {
      const batch = this.#effects
      this.#effects = []
      for (const effect of batch) perform(this.#sinks, effect, stuck)
      for (const connection of stuck.splice(0)) {
        this.#step({ kind: 'connection-ended', connection })
        this.wire.closeConnection(connection)
      }
    }
  }

  #until(limitUs: number, done: () => boolean): void {
    while (!done() && this.clock.step(limitUs));
  }

  /** Faults stop, and what was stalled goes on. */
  #calm(): void {
    for (const site of this.#sites) site.on = false
    for (const lane of [this.#dram, this.#restore]) lane.stream.unstall()
    for (const lane of [...this.#readers, ...this.#writers]) lane.port.unstall()
    for (const engine of this.engines) engine.calm()
  }

  #settle(when: string): void {
    const { leaseUs, queryUs, publishWaitUs } = this.plan.sizes
    const limitUs = this.clock.nowUs + SETTLE_US + leaseUs + queryUs + publishWaitUs
    this.#until(limitUs, () => this.engines.every(({ quiet }) => quiet))
    for (const engine of this.engines) {
      must(engine.quiet, 'D4', () => `engine ${engine.number} still waits ${when}: ${engine.waitsFor()}`)
    }
  }

  /** Everything is at rest: what is owned is owned by nobody, what was counted adds up (D1). */
  #rest(): void {
    const drained = this.#drained as ControlReply | null
    must(
      drained !== null && drained.kind === 'drained',
      'D1',
      () => `the Manager does not drain: ${JSON.stringify(this.machine.ownership())}`,
    )
    must(this.machine.ended, 'D1', () => 'the Manager said drained and goes on')
    for (const engine of this.engines) engine.mustBeAnswered()
    this.storage.dropDram()
    const breaches = census(this.storage)
    must(breaches.length === 0, 'O1', () => breaches.join('; '))
    for (const [name, value] of Object.entries(this.machine.ownership())) {
      must(value === 0, 'D1', () => `${name} is ${value} at rest`)
    }
    must(this.engaged.count === 0, 'D1', () => `lanes still have ${this.engaged.count} pieces of work`)
    must(this.flights.count === 0, 'D1', () => `devices still touch ${this.flights.count} ranges`)
    must(this.fds.count === 0, 'D1', () => `${this.fds.count} descriptors are open at rest`)
    must(this.slots.count === 0, 'D1', () => `${this.slots.count} slot tables are left`)
    must(this.#device.mappings === 0, 'D1', () => `${this.#device.mappings} mappings are left`)
    must(this.#device.templates === 0, 'D1', () => `${this.#device.templates} templates are left`)
    must(this.wire.open === 0, 'D1', () => `${this.wire.open} connections are open`)
    for (const channel of this.#channels) must(channel.pending === 0, 'D1', () => `${channel.name} holds messages`)
    for (const lane of [this.#dram, this.#restore, ...this.#readers, ...this.#writers]) {
      must(lane.idle && lane.stopped, 'D1', () => `${lane.name} has not stopped`)
    }
    this.#strays()
    this.#noteCapacity()
  }

  /** Every completion that named nothing was one that we made up, and was counted (O4). */
  #strays(): void {
    const lanes = [
      { lane: this.#dram, made: this.#dram.stream.duplicates },
      { lane: this.#restore, made: this.#restore.stream.duplicates },
      ...this.#readers.map((lane) => ({ lane, made: lane.port.duplicates })),
      ...this.#writers.map((lane) => ({ lane, made: lane.port.duplicates })),
    ]
    for (const { lane, made } of lanes) {
      const counted = lane.tally.at(STRAYS[lane.name.replace(/-\d+$/, '')] as number)
      must(counted === made, 'O4', () => `${lane.name} counted ${counted} stray completions, ${made} were made`)
    }
    const stray = this.#storageTally.at(STORAGE_COUNT.strayReplies)
    must(stray === 0, 'O4', () => `storage met ${stray} replies that it had not asked for`)
  }

  /** Which bounds were met: they are faults of a kind that plans cannot place. */
  #noteCapacity(): void {
    const storage = this.#storageTally
    if (storage.at(STORAGE_COUNT.poolAllocFailures) > 0) this.faults.fired('pool-full')
    if (storage.at(STORAGE_COUNT.directoryEvictions) > 0) this.faults.fired('directory-full')
    if (storage.at(STORAGE_COUNT.writeQueueFull) > 0) this.faults.fired('queue-full')
    if (this.#verbTally.at(VERB_COUNT.unreadBlocks) > 0) this.faults.fired('reads-stopped')
    if (storage.at(STORAGE_COUNT.admissionRejections) > 0) this.faults.fired('admission-rejected')
    if (this.#verbTally.at(VERB_COUNT.budgetWaits) > 0) this.faults.fired('budget-busy')
  }

  #operations(): number {
    const completions =
      this.#dram.stream.completions +
      this.#restore.stream.completions +
      [...this.#readers, ...this.#writers].reduce((sum, lane) => sum + lane.port.completions, 0)
    return this.#steps + completions
  }

  #largestBlockBytes(): { dram: number; disk: number } {
    let dram = 0
    let disk = 0
    for (const model of this.models) {
      const { ranks } = model.plan
      for (const segments of model.segments) {
        disk = Math.max(disk, ranks * segments.reduce((sum, { words }) => sum + paddedBytes(words), 0))
        dram = Math.max(dram, ranks * pagesOfRuns(segments) * PAGE_BYTES)
      }
    }
    return { dram, disk }
  }

  #site<K extends FaultKind>(draws: Plan['reads'], kinds: readonly K[]): FaultSite<K> {
    const on = kinds.filter((kind) => this.#on.has(kind))
    const site = new FaultSite<K>(draws, on, this.faults)
    this.#sites.push(site as unknown as FaultSite<FaultKind>)
    return site
  }

  #request<M>(name: string, codec: MessageCodec<M>, to: Actor, deliver: (message: M) => void): Channel<M> {
    return this.#channel(name, codec, to, deliver, this.plan.sizes.ringCapacity, false)
  }

  #reply<M>(name: string, codec: MessageCodec<M>, to: Actor, deliver: (message: M) => void): Channel<M> {
    return this.#channel(name, codec, to, deliver, 257, true)
  }

  #channel<M>(
    name: string,
    codec: MessageCodec<M>,
    to: Actor,
    deliver: (message: M) => void,
    capacity: number,
    credited: boolean,
  ): Channel<M> {
    const full = () => this.faults.fired('ring-full')
    const options = { clock: this.clock, delayUs: this.#ringUs, capacity, credited, full }
    const channel = new Channel(name, codec, to, deliver, options)
    this.#channels.push(channel as unknown as Channel<never>)
    return channel
  }

  #managerPorts(): ManagerPorts {
    return {
      sha256: (bytes) => createHash('sha256').update(bytes).digest(),
      importMemory: (fd) => {
        const opened = this.fds.at(fd)
        if (opened.kind !== 'memory' || !opened.sealed) return null
        return { mapping: this.#device.map(opened.memory), bytes: opened.memory.bytes.length, device: 'host' }
      },
      importDeviceMemory: () => ({ refused: 'ENODEV', text: 'the simulator has no such device' }),
      // Engines of the simulator are processes of their own: they pass descriptors.
      borrowMapping: () => null,
      releaseMapping: (mapping) => this.#device.release(mapping),
      readMapping: (mapping, offsetBytes, bytes) => this.#device.read(mapping, offsetBytes, bytes),
      defineTemplate: (items, granuleFirstItem) => this.#device.define(items, granuleFirstItem),
      releaseTemplate: (template) => this.#device.releaseTemplate(template),
      createSlots: (count) =>
        (this.wire.current?.peer as { slotsExhausted?: boolean } | undefined)?.slotsExhausted
          ? null
          : this.slots.create(count),
      slotWord: (slots, slot) => this.slots.managerWord(slots, slot),
      releaseSlots: (slots) => this.slots.release(slots),
      closeFd: (fd) => this.fds.close(fd),
    }
  }

  #makeStorage(options: StorageOptions, ports: StoragePorts): Storage {
    const tally: Tally = this.#storageTally
    const parts = watchedParts(this, options, [...this.#shards.values()])
    const make = this.twin.storage ?? ((...args) => new Storage(...args))
    return make(options, ports, tally, parts)
  }

  /** Lanes with room for fewer jobs, so that operations wait for one and are withdrawn. */
  #shrinkJobs(): void {
    const { jobsMax } = this.plan.sizes
    for (const lanes of this.machine.context.devices) {
      Object.assign(lanes, { dramJobs: new LaneJobs(jobsMax), restoreJobs: new LaneJobs(jobsMax) })
    }
  }

  /** A lease may only be granted on generations that were sealed. */
  #watchLeases(): void {
    const { leaseRecords } = this.machine.context
    const add = leaseRecords.add.bind(leaseRecords)
    leaseRecords.add = (record) => {
      const generations = new Map<number, LeasedBlocks>()
      for (const { group, firstSource, first, count } of record.spans) {
        const entries = record.entries.subarray(first, first + count)
        const held = [...entries].map((entry) => {
          const generation = this.storage.generationOf(entry)
          this.truth.mustBeSealed(generation, keyOf(this.storage, entry), group)
          return generation
        })
        generations.set(group, { firstSource, generations: held })
      }
      this.leases.set(record.lease, generations)
      add(record)
    }
  }

  /** What each lease holds, by group. */
  readonly leases = new Map<number, ReadonlyMap<number, LeasedBlocks>>()
}

/** Generations of the sources `firstSource …` of one group under a lease. */
interface LeasedBlocks {
  readonly firstSource: number
  readonly generations: readonly number[]
}

function paddedBytes(words: number): number {
  return alignUp(words * 4, SECTOR_BYTES)
}

/** Pool pages of one block on one rank: every change of segment size starts a granule, and a granule takes whole pages. */
function pagesOfRuns(segments: readonly Segment[]): number {
  let pages = 0
  let runBytes = 0
  for (const [index, { words }] of segments.entries()) {
    runBytes += paddedBytes(words)
    if (segments[index + 1]?.words === words) continue
    pages += Math.ceil(runBytes / PAGE_BYTES)
    runBytes = 0
  }
  return pages
}
