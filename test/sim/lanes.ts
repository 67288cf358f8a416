import { type DramWorkerSinks, perform as performDram } from '../../src/actors/dram-worker/effects.js'
import { type DramWorkerEffect, type DramWorkerInput, DramWorkerMachine } from '../../src/actors/dram-worker/machine.js'
import type { DramWorkerReply } from '../../src/actors/dram-worker/messages.js'
import { type HostReaderSinks, perform as performReader } from '../../src/actors/host-reader/effects.js'
import { type HostReaderEffect, type HostReaderInput, HostReaderMachine } from '../../src/actors/host-reader/machine.js'
import type { HostReaderReply, HostReaderRequest } from '../../src/actors/host-reader/messages.js'
import { type HostRestoreSinks, perform as performRestore } from '../../src/actors/host-restore/effects.js'
import {
  type HostRestoreEffect,
  type HostRestoreInput,
  HostRestoreMachine,
  type HostRestoreOptions,
} from '../../src/actors/host-restore/machine.js'
import type { HostRestoreReply } from '../../src/actors/host-restore/messages.js'
import { LaneTurn, type SteppedMachine } from '../../src/actors/runtime/turn.js'
import { perform as performWrite, type WritebackSinks } from '../../src/actors/writeback/effects.js'
import { type WritebackEffect, type WritebackInput, WritebackMachine } from '../../src/actors/writeback/machine.js'
import type { WritebackReply } from '../../src/actors/writeback/messages.js'
import { SUBMISSION_DOUBLES, SUBMIT_FLAG_VERIFY } from '../../src/binding/surface.js'
import { PlainTally } from '../support/plain-tally.js'
import { Actor } from './actor.js'
import type { Channel } from './channel.js'
import type { DeviceStream } from './device.js'
import type { DiskPort } from './disk.js'
import type { SlotTables } from './slots.js'
import type { World } from './world.js'

/** What every lane of a simulation shows to the world around it. */
interface LaneState {
  readonly name: string
  readonly idle: boolean
  readonly stopped: boolean
}

/** The machine of a lane: the real one, or a broken twin around it. */
export interface LaneMachine<Input, Effect> extends SteppedMachine<Input, Effect> {
  readonly idle: boolean
  readonly stopped: boolean
}

/** The addon as a lane's effects see it: slots and the clock of the world. */
function nativeOf(slots: SlotTables, world: World) {
  return {
    slotFence: (table: number, slot: number) => slots.fence(table, slot),
    slotFinish: (
      table: number,
      slot: number,
      generation: number,
      state: number,
      errorCode: number,
      firstFailed: number,
      bytes: number,
    ) => slots.finish(table, slot, generation, { state, errorCode, firstFailed, bytes }),
    monotonicUs: () => world.clock.nowUs,
  }
}

/** dram-worker: the real machine and effects over the simulated device. */
export class DramWorkerLane implements LaneState {
  readonly name = 'dram-worker'
  readonly actor: Actor
  readonly machine: LaneMachine<DramWorkerInput, DramWorkerEffect>
  readonly tally = new PlainTally()
  readonly stream: DeviceStream
  readonly #turn: LaneTurn<DramWorkerInput, DramWorkerEffect>
  readonly #world: World

  constructor(world: World, replies: () => Channel<DramWorkerReply>) {
    const { parts, partDescriptors } = world.plan.sizes
    const results = new Uint32Array(parts * partDescriptors)
    const machine = new DramWorkerMachine({ parts, partDescriptors }, results, this.tally)
    this.#world = world
    this.machine = world.twin.dramWorker?.(machine) ?? machine
    this.#turn = new LaneTurn(this.machine, () => world.clock.nowUs)
    this.actor = new Actor(this.name, world.clock, world.wakeUs, {
      tick: (nowUs) => this.#turn.tick(nowUs),
      nextTickUs: () => machine.nextTickUs,
      perform: () =>
        this.#turn.perform((effect) => {
          const said = performDram(sinks, effect)
          if (said !== null) this.step(said)
        }),
    })
    this.stream = world.openStream(this.actor, (tag, result) => this.step({ kind: 'stream-completed', tag, result }))
    const sinks = {
      native: nativeOf(world.slots, world),
      port: {
        copy: (_: number, tag: number, direction: 0 | 1, list: Float64Array, offset: number, count: number) =>
          this.stream.copy(tag, direction === 0, list, offset, count),
        checksum: (_: number, tag: number, list: Float64Array, offset: number, count: number, base: number) =>
          this.stream.checksum(tag, list, offset, count, results, base),
      },
      stream: 0,
      client: { send: (reply: DramWorkerReply) => replies().send(reply) },
    } as unknown as DramWorkerSinks
  }

  step(input: DramWorkerInput): void {
    this.#world.noteStep(this.name, input)
    this.#turn.step(input)
  }

  get idle(): boolean {
    return this.machine.idle
  }

  get stopped(): boolean {
    return this.machine.stopped
  }
}

/** host-restore: reads through the simulated readers, copies on a stream of its own. */
export class HostRestoreLane implements LaneState {
  readonly name = 'host-restore'
  readonly actor: Actor
  readonly machine: HostRestoreMachine
  readonly tally = new PlainTally()
  readonly stream: DeviceStream
  readonly #turn: LaneTurn<HostRestoreInput, HostRestoreEffect>
  readonly #world: World

  constructor(
    world: World,
    options: HostRestoreOptions,
    replies: () => Channel<HostRestoreReply>,
    readers: () => readonly Channel<HostReaderRequest>[],
  ) {
    this.#world = world
    this.machine = new HostRestoreMachine(options, this.tally)
    this.#turn = new LaneTurn(this.machine, () => world.clock.nowUs)
    this.actor = new Actor(this.name, world.clock, world.wakeUs, {
      tick: (nowUs) => this.#turn.tick(nowUs),
      nextTickUs: () => this.machine.nextTickUs,
      perform: () =>
        this.#turn.perform((effect) => {
          const said = performRestore(sinks, effect)
          if (said !== null) this.step(said)
        }),
    })
    this.stream = world.openStream(this.actor, (tag, result) => this.step({ kind: 'stream-completed', tag, result }))
    const sinks = {
      native: nativeOf(world.slots, world),
      port: {
        copy: (_: number, tag: number, direction: 0 | 1, list: Float64Array, offset: number, count: number) =>
          this.stream.copy(tag, direction === 0, list, offset, count),
      },
      stream: 0,
      client: { send: (reply: HostRestoreReply) => replies().send(reply) },
      get readers() {
        return readers()
      },
    } as unknown as HostRestoreSinks
  }

  step(input: HostRestoreInput): void {
    this.#world.noteStep(this.name, input)
    this.#turn.step(input)
  }

  get idle(): boolean {
    return this.machine.idle
  }

  get stopped(): boolean {
    return this.machine.stopped
  }
}

/** One host-reader over the simulated disk. Client 0 is the Manager, client 1 host-restore. */
export class HostReaderLane implements LaneState {
  readonly name: string
  readonly actor: Actor
  readonly machine: LaneMachine<HostReaderInput, HostReaderEffect>
  readonly tally = new PlainTally()
  readonly port: DiskPort
  readonly #turn: LaneTurn<HostReaderInput, HostReaderEffect>
  readonly #world: World

  constructor(world: World, store: number, replies: () => readonly Channel<HostReaderReply>[]) {
    const depth = world.plan.sizes.readDepth
    const machine = new HostReaderMachine({ clients: 2, depth }, this.tally)
    const submissions = new Float64Array(depth * SUBMISSION_DOUBLES)
    this.name = `host-reader-${store}`
    this.#world = world
    this.machine = world.twin.hostReader?.(machine) ?? machine
    this.#turn = new LaneTurn(this.machine, () => world.clock.nowUs)
    this.actor = new Actor(this.name, world.clock, world.wakeUs, {
      tick: (nowUs) => this.#turn.tick(nowUs),
      nextTickUs: () => Number.POSITIVE_INFINITY,
      perform: () => {
        sinks.submitted = 0
        this.#turn.perform((effect) => performReader(sinks, effect))
        this.#pump(submissions, sinks.submitted)
      },
    })
    this.port = world.openDisk(this.actor, (tag, result) => this.step({ kind: 'io-completed', tag, result }))
    const sinks = {
      submissions,
      submitted: 0,
      get clients() {
        return replies()
      },
    } as unknown as HostReaderSinks
  }

  step(input: HostReaderInput): void {
    this.#world.noteStep(this.name, input)
    this.#turn.step(input)
  }

  #pump(submissions: Float64Array, count: number): void {
    for (let entry = 0; entry < count; entry++) {
      const field = (index: number) => submissions[entry * SUBMISSION_DOUBLES + index] as number
      this.port.read({
        tag: field(1),
        file: field(2),
        fileOffsetBytes: field(3),
        poolOffsetBytes: field(4),
        bytes: field(5),
        segmentBytes: field(6),
        segmentStrideBytes: field(7),
        crc32: field(8),
        verify: field(0) >= 256 * SUBMIT_FLAG_VERIFY,
      })
    }
  }

  get idle(): boolean {
    return this.machine.idle
  }

  get stopped(): boolean {
    return this.machine.stopped
  }
}

/** One writeback lane over the simulated disk. */
export class WritebackLane implements LaneState {
  readonly name: string
  readonly actor: Actor
  readonly machine: LaneMachine<WritebackInput, WritebackEffect>
  readonly tally = new PlainTally()
  readonly port: DiskPort
  readonly #turn: LaneTurn<WritebackInput, WritebackEffect>
  readonly #world: World

  constructor(world: World, writer: number, windowBytes: number, replies: () => Channel<WritebackReply>) {
    const depth = world.plan.sizes.writeDepth
    const machine = new WritebackMachine({ depth, windowBytes }, this.tally)
    const submissions = new Float64Array(depth * SUBMISSION_DOUBLES)
    this.name = `writeback-${writer}`
    this.#world = world
    this.machine = world.twin.writeback?.(machine) ?? machine
    this.#turn = new LaneTurn(this.machine, () => world.clock.nowUs)
    this.actor = new Actor(this.name, world.clock, world.wakeUs, {
      tick: (nowUs) => this.#turn.tick(nowUs),
      nextTickUs: () => Number.POSITIVE_INFINITY,
      perform: () => {
        sinks.submitted = 0
        this.#turn.perform((effect) => performWrite(sinks, effect))
        this.#pump(submissions, sinks.submitted)
      },
    })
    this.port = world.openDisk(this.actor, (tag, result) => this.step({ kind: 'io-completed', tag, result }))
    const sinks = {
      submissions,
      submitted: 0,
      client: { send: (reply: WritebackReply) => replies().send(reply) },
    } as unknown as WritebackSinks
  }

  step(input: WritebackInput): void {
    this.#world.noteStep(this.name, input)
    this.#turn.step(input)
  }

  #pump(submissions: Float64Array, count: number): void {
    for (let entry = 0; entry < count; entry++) {
      const field = (index: number) => submissions[entry * SUBMISSION_DOUBLES + index] as number
      this.port.write({
        tag: field(1),
        file: field(2),
        fileOffsetBytes: field(3),
        poolOffsetBytes: field(4),
        bytes: field(5),
      })
    }
  }

  get idle(): boolean {
    return this.machine.idle
  }

  get stopped(): boolean {
    return this.machine.stopped
  }
}
