import { type ManagerSinks, perform } from '../../src/manager/effects.js'
import { LaneJobs } from '../../src/manager/lanes/lane-jobs.js'
import { ManagerMachine } from '../../src/manager/machine.js'
import type { ControlReply, ManagerEffect, ManagerInput } from '../../src/manager/messages.js'
import { Storage } from '../../src/manager/storage/storage.js'
import { Permits } from '../../src/shared/scheduling/permits.js'
import { Actor, type ActorHost } from './actor.js'
import { DamageCheck } from './checks/damage.js'
import { type LeasedBlocks, watchLeases } from './checks/leases.js'
import { RouteCheck, WatchedSsdJobs } from './checks/routes.js'
import type { StagingCheck } from './checks/staging.js'
import { StepChecks } from './checks/steps.js'
import { watchStorage } from './checks/storage.js'
import { checkWorkspaces } from './checks/workspaces.js'
import type { Clock } from './clock.js'
import { Descriptors, type EngineMemory } from './descriptors.js'
import { Device } from './device.js'
import { DeviceStream } from './device-stream.js'
import { DiskPort } from './disk.js'
import { Engaged } from './engaged.js'
import {
  CHECKSUM_FAULTS,
  COPY_FAULTS,
  DECODE_FAULTS,
  ENCODE_FAULTS,
  PART_FAULTS,
  READ_FAULTS,
  SCATTER_FAULTS,
  STAGING_OPEN_FAULTS,
  STAGING_READ_FAULTS,
  STAGING_WRITE_FAULTS,
  type Stream,
  WRITE_FAULTS,
} from './faults.js'
import type { LaneState } from './lane.js'
import { Flights } from './ledger.js'
import { type Limits, limitsOf } from './limits.js'
import { ManagerClock } from './manager-clock.js'
import { managerPorts } from './manager-ports.js'
import type { Plan } from './plan.js'
import { Pool } from './pool.js'
import type { Shard } from './shard.js'
import { SlotTables } from './slots.js'
import { StagingPort } from './staging.js'
import { SimTally } from './tally.js'
import { Truth } from './truth.js'
import type { Twin } from './twin.js'
import { must } from './violation.js'
import { watchedParts } from './watched-entries.js'
import { Wire } from './wire.js'
import { Wiring } from './wiring.js'
import type { World } from './world.js'

/** Thrown through the turn in which the process is killed, and caught where its turns begin. */
const KILLED = Symbol('killed')
/** Between the death of a process and the report of its exit; its device work may go on until then. */
const EXIT_US_MAX = 400
/** Parts of codings that an arena of the model holds: publications of more are coded without a hold. */
const HELD_PARTS = 3

/**
 * One process of the Manager from its start to its exit: the machine, its lanes and rings, its memory and descriptors,
 * and what the checks know of it. All of it goes with the process; only the file system and the engines outlive it.
 */
export class ManagerProcess implements ActorHost {
  readonly world: World
  readonly plan: Plan
  readonly twin: Twin
  readonly clock: Clock
  readonly time: ManagerClock
  readonly wakeUs: Stream
  readonly wakes: World['wakes']
  readonly fds = new Descriptors()
  readonly flights = new Flights()
  readonly slots = new SlotTables(this.fds)
  readonly pool: Pool
  readonly truth: Truth
  readonly device: Device
  readonly engaged: Engaged
  readonly wire: Wire
  readonly storage: Storage
  readonly machine: ManagerMachine
  readonly storageTally = new SimTally()
  readonly verbTally = new SimTally()
  readonly routes = new RouteCheck(this)
  readonly damage = new DamageCheck(this)
  /** Entries that were found and are hidden, so far. */
  hides = 0
  /** Device memory that engines have exported, by handle. */
  readonly exported = new Map<string, EngineMemory>()
  /** What each lease holds, by group. */
  readonly leases = new Map<number, ReadonlyMap<number, LeasedBlocks>>()
  readonly wiring: Wiring
  readonly actor: Actor
  readonly #shards: ReadonlyMap<number, Shard>
  readonly #sinks: ManagerSinks
  readonly #checks: StepChecks
  #effects: ManagerEffect[] = []
  #spare: ManagerEffect[] = []
  #stoppedUntilUs = 0
  #drained: ControlReply | null = null
  /** Asked to drain: nothing new is let in. */
  draining = false
  alive = true
  /** Its exit has been reported: every connection is closed, and nothing of it runs any more. */
  exited = false

  /** On its way out: nothing that begins now can count on it. */
  doomed = false
  /** Who holds the lock of the path. */
  readonly owner: object

  /** `shards`: the inodes that it has opened. */
  constructor(world: World, epoch: number, owner: object, shards: readonly Shard[]) {
    this.world = world
    this.owner = owner
    this.plan = world.plan
    this.twin = world.twin
    this.clock = world.clock
    this.time = new ManagerClock(world.clock)
    this.wakeUs = world.wakeUs
    this.wakes = world.wakes
    const limits = limitsOf(world.plan, world.models, epoch)
    this.pool = new Pool(limits.storage.poolBytes, limits.windowBytes)
    this.truth = new Truth(this.pool)
    this.device = new Device(this.flights, world.plan.codec.unfitOneIn)
    this.#shards = new Map(shards.map((shard) => [shard.file, shard]))
    this.engaged = new Engaged(this.pool, this.#shards)
    this.wire = new Wire(this.clock, world.wireUs, this.fds, world.sends)

    const made = this.#makeMachine(limits, shards)
    this.machine = made.machine
    this.storage = made.storage
    this.#shrinkJobs()
    watchLeases(this)
    this.twin.context?.(this.machine.context)
    this.#checks = new StepChecks(this.machine.context, this.storage, this.plan.sizes.jobsMax)

    this.actor = new Actor('manager', this, {
      tick: (nowUs) => this.#step({ kind: 'tick', nowUs }, this.machine.nextTickUs() <= nowUs),
      nextTickUs: () => this.machine.nextTickUs(),
      perform: () => this.#performAll(),
    })
    this.wiring = new Wiring(this, limits, this.actor, (input) => this.#step(input))
    this.#sinks = this.wiring.sinks
    this.wire.serve(this.actor, {
      accepted: (connection, uid, pid) => this.#step({ kind: 'accepted', connection, uid, pid }),
      frame: (connection, frame, fds) => this.#step({ kind: 'frame', connection, frame, fds }),
      ended: (connection) => this.#step({ kind: 'connection-ended', connection }),
    })
  }

  get nowUs(): number {
    return this.time.nowUs
  }

  get lanes(): readonly LaneState[] {
    return this.wiring.lanes
  }

  get stoppedForUs(): number {
    return Math.max(0, this.#stoppedUntilUs - this.clock.nowUs)
  }

  /** Under watch, where there is a cuFile route. */
  get staging(): StagingCheck | null {
    return this.wiring.staging?.check ?? null
  }

  /** The file of a shard by its number. */
  fileOf(shard: number): number {
    return [...this.#shards.keys()][shard] as number
  }

  /** Its last report, once everything has ended. */
  get drained(): ControlReply | null {
    return this.#drained
  }

  /** Its files still stand at their path. */
  get linked(): boolean {
    return [...this.#shards.values()].every(({ linked }) => linked)
  }

  /** Engines may connect and be served. */
  get serving(): boolean {
    return this.alive && !this.draining
  }

  /** Every input of every machine but the clock's passes here; the process may be struck at any of them. */
  noteStep(actor: string, input: { readonly kind: string }): void {
    this.world.noteStep(actor, input)
    const strike = this.world.processes.strike()
    if (strike === null) return
    const dead = this.world.strikeProcess(this, strike)
    if (dead === 'all' || dead === actor) throw KILLED
  }

  run(turn: () => void): void {
    try {
      turn()
    } catch (error) {
      if (error !== KILLED) throw error
    }
  }

  report(reply: ControlReply): void {
    if (reply.kind === 'ssd-fallback') return this.routes.told()
    if (reply.kind === 'rank-by-uring' || reply.kind === 'codec-chosen') return
    must(this.#drained === null, 'O5', () => 'the Manager has drained twice')
    this.#drained = reply
    this.world.drained(this)
  }

  drain(limitUs: number): void {
    this.draining = true
    this.actor.post(0, () => this.#step({ kind: 'control', request: { kind: 'drain', limitUs } }))
  }

  /** SIGSTOP: no thread runs for so long; devices and engines go on. */
  stopFor(us: number): void {
    this.#stoppedUntilUs = Math.max(this.#stoppedUntilUs, this.clock.nowUs + us)
  }

  /** One thread ends without a word; returns its name. The process follows within a bound (K5). */
  loseLane(choice: number): string {
    const lane = this.lanes[choice % this.lanes.length] as LaneState
    lane.actor.dead = true
    if (lane === this.wiring.staging) this.world.faults.fired('ssd-worker-died')
    return lane.name
  }

  /** SIGKILL, at this very step. */
  kill(amount: number): void {
    if (!this.alive) return
    if ((this.staging?.busy() ?? 0) > 0) this.world.faults.fired('manager-killed-while-staging')
    if (this.device.coding() > 0) this.world.faults.fired('manager-killed-while-coding')
    this.alive = false
    this.doomed = true
    this.clock.after(1 + (amount % EXIT_US_MAX), () => this.exit())
  }

  /** The exit is reported: connections close, the lock of the path is free, another one may start. */
  exit(): void {
    if (this.exited) return
    this.alive = false
    this.exited = true
    this.wire.die()
    this.world.exited(this)
  }

  /** Phase two: threads run, and what was stalled goes on. */
  calm(): void {
    this.#stoppedUntilUs = 0
    this.time.calm()
    for (const lane of this.lanes) lane.device.unstall()
  }

  openStream(actor: Actor, completed: (tag: number, result: number) => void): DeviceStream {
    const { world, device, pool, flights } = this
    const { copies, checksums, codec } = world.plan
    return new DeviceStream(
      {
        host: this,
        device,
        memory: pool,
        flights,
        copyUs: world.copyUs,
        copies: world.site(`copies ${actor.name}`, copies, COPY_FAULTS),
        checksums: world.site(`checksums ${actor.name}`, checksums, CHECKSUM_FAULTS),
        encodes: world.site(`encodes ${actor.name}`, codec.encodes, ENCODE_FAULTS),
        decodes: world.site(`decodes ${actor.name}`, codec.decodes, DECODE_FAULTS),
        early: this.twin.device === 'early-events',
        failed: () => world.deviceFailed(this),
      },
      actor,
      completed,
    )
  }

  openStagings(actor: Actor, results: Uint32Array, completed: (tag: number, result: number) => void): StagingPort {
    const { world, device, pool, flights, owner } = this
    const { codec } = world.plan
    const { reads, writes, scatters, parts, opens } = world.plan.gpu
    return new StagingPort(
      {
        host: this,
        device,
        pool,
        flights,
        shards: this.#shards,
        owner,
        copyUs: world.copyUs,
        diskUs: world.diskUs,
        opens: world.site('staging opens', opens, STAGING_OPEN_FAULTS),
        reads: world.site('staging reads', reads, STAGING_READ_FAULTS),
        writes: world.site('staging writes', writes, STAGING_WRITE_FAULTS),
        scatters: world.site('scatters', scatters, SCATTER_FAULTS),
        parts: world.site('parts', parts, PART_FAULTS),
        heldCodes: HELD_PARTS * codec.partDescriptors,
        encodes: world.site('staging encodes', codec.encodes, ENCODE_FAULTS),
        decodes: world.site('staging decodes', codec.decodes, DECODE_FAULTS),
        early: this.twin.device === 'early-events',
        failed: () => world.deviceFailed(this),
      },
      actor,
      results,
      completed,
    )
  }

  openDisk(actor: Actor, completed: (tag: number, result: number) => void): DiskPort {
    const { world, pool, flights } = this
    return new DiskPort(
      {
        host: this,
        pool,
        flights,
        shards: this.#shards,
        owner: this.owner,
        delayUs: world.diskUs,
        reads: world.site(`reads ${actor.name}`, world.plan.reads, READ_FAULTS),
        writes: world.site(`writes ${actor.name}`, world.plan.writes, WRITE_FAULTS),
      },
      actor,
      completed,
    )
  }

  #makeMachine(limits: Limits, shards: readonly Shard[]): { machine: ManagerMachine; storage: Storage } {
    const { twin } = this
    const options = twin.options?.(limits.manager) ?? limits.manager
    const makeStorage = twin.storage ?? ((...args) => new Storage(...args))
    let storage: Storage | null = null
    const machine = new ManagerMachine(
      options,
      managerPorts(this),
      (ports) => {
        storage = makeStorage(limits.storage, ports, this.storageTally, watchedParts(this, limits.storage, shards))
        this.#watchRoom(storage)
        watchStorage(storage)
        return storage
      },
      this.verbTally,
      limits.stores,
    )
    return { machine, storage: storage as unknown as Storage }
  }

  #step(input: ManagerInput, counted = true): void {
    if (counted) this.noteStep('manager', input)
    this.machine.step(input, this.#effects)
    this.#checks.after(counted)
    if (counted) this.routes.mustHold()
    if (counted) checkWorkspaces(this)
  }

  /** As src/manager/loop.ts performs a turn. */
  #performAll(): void {
    const stuck: number[] = []
    while (this.#effects.length > 0) {
      const batch = this.#effects
      this.#effects = this.#spare
      for (const effect of batch) perform(this.#sinks, effect, stuck)
      batch.length = 0
      this.#spare = batch
      for (const connection of stuck.splice(0)) {
        this.#step({ kind: 'connection-ended', connection })
        this.wire.closeConnection(connection)
      }
    }
  }

  /** An entry that has memory but for some granules asks for theirs: what the codec refused is kept as it is. */
  #watchRoom({ cache, entries }: Storage): void {
    const allocate = cache.allocate.bind(cache)
    Object.assign(cache, {
      allocate: (entry: number, mayReject: boolean) => {
        const begun = entries.directory.dramSlot(entry) >= 0
        const outcome = allocate(entry, mayReject)
        if (begun && outcome !== 'ok') this.world.faults.fired('kept-raw-without-room')
        return outcome
      },
    })
  }

  /** Lanes with room for fewer jobs, so that operations wait for one and are withdrawn, and for fewer writes of a rank. */
  #shrinkJobs(): void {
    const { jobsMax } = this.plan.sizes
    const { permits } = this.plan.gpu
    for (const lanes of this.machine.context.devices) {
      Object.assign(lanes, { dramJobs: new LaneJobs(jobsMax), restoreJobs: new LaneJobs(jobsMax) })
      const { ssd } = lanes
      if (ssd === null) continue
      const staging = ssd.staging.bind(ssd)
      const known = new Set<object>()
      Object.assign(ssd, {
        jobs: new WatchedSsdJobs(jobsMax, this.routes),
        staging: (hold: object) => {
          const of = staging(hold)
          if (!known.has(of)) Object.assign(of, { permits: new Permits(permits) })
          known.add(of)
          return of
        },
      })
    }
  }
}
