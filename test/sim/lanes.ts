import { type DramWorkerSinks, perform as performDram } from '../../src/actors/dram-worker/effects.js'
import { type DramWorkerEffect, type DramWorkerInput, DramWorkerMachine } from '../../src/actors/dram-worker/machine.js'
import type { DramWorkerReply } from '../../src/actors/dram-worker/messages.js'
import { resultsOf as dramResultsOf } from '../../src/actors/dram-worker/parts.js'
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
import { resultsOf as restoreResultsOf } from '../../src/actors/host-restore/parts.js'
import { perform as performWrite, type WritebackSinks } from '../../src/actors/writeback/effects.js'
import { type WritebackEffect, type WritebackInput, WritebackMachine } from '../../src/actors/writeback/machine.js'
import type { WritebackReply } from '../../src/actors/writeback/messages.js'
import { SUBMISSION_DOUBLES, SUBMIT_FLAG_VERIFY, SUBMIT_WRITE_SPANS } from '../../src/binding/submissions.js'
import { WRITE, WRITE_SPANS_MAX } from '../../src/shared/layout/descriptors.js'
import type { Channel } from './channel.js'
import { AskedWrites } from './checks/writes.js'
import type { DeviceStream } from './device-stream.js'
import type { DiskPort, Span } from './disk.js'
import { Lane } from './lane.js'
import type { Limits } from './limits.js'
import type { ManagerProcess } from './manager-process.js'
import { SimTally } from './tally.js'

const NEVER = () => Number.POSITIVE_INFINITY

/** The addon as a lane's effects see it: slots and the clock of the process. */
export function nativeOf(manager: ManagerProcess) {
  const { slots } = manager
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
    monotonicUs: () => manager.nowUs,
  }
}

/** The port as a lane's effects see it: jobs of its one stream. */
function streamPort(stream: DeviceStream, results: Uint32Array) {
  return {
    copy: (_: number, tag: number, direction: 0 | 1, list: Float64Array, offset: number, count: number) =>
      stream.copy(tag, direction === 0, list, offset, count),
    checksum: (_: number, tag: number, list: Float64Array, offset: number, count: number, base: number) =>
      stream.checksum(tag, list, offset, count, results, base),
    encode: (_: number, tag: number, list: Float64Array, offset: number, count: number, base: number) =>
      stream.encode(tag, list, offset, count, results, base),
    decode: (_: number, tag: number, list: Float64Array, offset: number, count: number, base: number) =>
      stream.decode(tag, list, offset, count, results, base),
    releaseCodecWorkspace: () => stream.releaseWorkspace(),
  }
}

/** Lanes of the host have the plain name. */
function onDevice(name: string, device: number): string {
  return device === 0 ? name : `${name}-${device}`
}

/** A job is cancelled: maybe over codings that are under way. */
export function cancelled({ world }: ManagerProcess, { coding }: { readonly coding: number }): void {
  if (coding > 0) world.faults.fired('cancel-while-coding')
}

/** dram-worker: the real machine and effects over the simulated device. */
export class DramWorkerLane extends Lane<DramWorkerInput, DramWorkerEffect> {
  readonly device: DeviceStream
  readonly #sinks: DramWorkerSinks

  constructor(manager: ManagerProcess, device: number, replies: () => Channel<DramWorkerReply>) {
    const { sizes, codec } = manager.plan
    const { parts, partDescriptors } = sizes
    const options = { parts, partDescriptors, codedDescriptors: codec.name === 'none' ? 0 : codec.partDescriptors }
    const tally = new SimTally()
    const results = new Uint32Array(dramResultsOf(options))
    const machine = new DramWorkerMachine(options, results, tally)
    super(
      manager,
      onDevice('dram-worker', device),
      tally,
      manager.twin.dramWorker?.(machine) ?? machine,
      () => machine.nextTickUs,
    )
    this.device = manager.openStream(this.actor, (tag, result) => this.step({ kind: 'stream-completed', tag, result }))
    this.#sinks = {
      native: nativeOf(manager),
      port: streamPort(this.device, results),
      stream: 0,
      client: { send: (reply: DramWorkerReply) => replies().send(reply) },
    } as unknown as DramWorkerSinks
  }

  override step(input: DramWorkerInput): void {
    if (input.kind === 'request' && input.request.kind === 'cancel') cancelled(this.manager, this.device)
    super.step(input)
  }

  protected act(effect: DramWorkerEffect): void {
    const said = performDram(this.#sinks, effect)
    if (said !== null) this.step(said)
  }
}

/** host-restore: reads through the simulated readers, copies on a stream of its own. */
export class HostRestoreLane extends Lane<HostRestoreInput, HostRestoreEffect> {
  readonly device: DeviceStream
  readonly #sinks: HostRestoreSinks

  constructor(
    manager: ManagerProcess,
    device: number,
    options: HostRestoreOptions,
    replies: () => Channel<HostRestoreReply>,
    readers: () => readonly Channel<HostReaderRequest>[],
  ) {
    const tally = new SimTally()
    const results = new Uint32Array(restoreResultsOf(options))
    const machine = new HostRestoreMachine(options, tally, results)
    super(
      manager,
      onDevice('host-restore', device),
      tally,
      manager.twin.hostRestore?.(machine) ?? machine,
      () => machine.nextTickUs,
    )
    this.device = manager.openStream(this.actor, (tag, result) => this.step({ kind: 'stream-completed', tag, result }))
    this.#sinks = {
      native: nativeOf(manager),
      port: streamPort(this.device, results),
      stream: 0,
      client: { send: (reply: HostRestoreReply) => replies().send(reply) },
      get readers() {
        return readers()
      },
    } as unknown as HostRestoreSinks
  }

  override step(input: HostRestoreInput): void {
    if (input.kind === 'request' && input.request.kind === 'cancel') cancelled(this.manager, this.device)
    super.step(input)
  }

  protected act(effect: HostRestoreEffect): void {
    const said = performRestore(this.#sinks, effect)
    if (said !== null) this.step(said)
  }
}

/** One host-reader over the simulated disk. Client 0 is the Manager, those after it host-restore of each device. */
export class HostReaderLane extends Lane<HostReaderInput, HostReaderEffect> {
  readonly device: DiskPort
  readonly #sinks: HostReaderSinks
  readonly #submissions: Float64Array

  constructor(
    manager: ManagerProcess,
    store: number,
    clients: number,
    replies: () => readonly Channel<HostReaderReply>[],
  ) {
    const depth = manager.plan.sizes.readDepth
    const tally = new SimTally()
    const machine = new HostReaderMachine({ clients, depth }, tally)
    super(manager, `host-reader-${store}`, tally, manager.twin.hostReader?.(machine) ?? machine, NEVER)
    const submissions = new Float64Array(depth * SUBMISSION_DOUBLES)
    this.#submissions = submissions
    this.device = manager.openDisk(this.actor, (tag, result) => this.step({ kind: 'io-completed', tag, result }))
    this.#sinks = {
      submissions,
      submitted: 0,
      get clients() {
        return replies()
      },
    } as unknown as HostReaderSinks
  }

  override step(input: HostReaderInput): void {
    super.step(input)
    if (input.kind === 'request' && input.request.kind === 'cancel-batch') this.device.cancelled()
  }

  protected act(effect: HostReaderEffect): void {
    performReader(this.#sinks, effect)
  }

  protected override perform(): void {
    this.#sinks.submitted = 0
    super.perform()
    const list = this.#submissions
    for (let at = 0; at < this.#sinks.submitted * SUBMISSION_DOUBLES; at += SUBMISSION_DOUBLES) {
      this.device.read({
        tag: list[at + 1] as number,
        file: list[at + 2] as number,
        fileOffsetBytes: list[at + 3] as number,
        poolOffsetBytes: list[at + 4] as number,
        bytes: list[at + 5] as number,
        segmentBytes: list[at + 6] as number,
        segmentStrideBytes: list[at + 7] as number,
        crc32: list[at + 8] as number,
        verify: (list[at] as number) >= 256 * SUBMIT_FLAG_VERIFY,
      })
    }
  }
}

/** One writeback lane over the simulated disk. */
export class WritebackLane extends Lane<WritebackInput, WritebackEffect> {
  readonly device: DiskPort
  readonly #sinks: WritebackSinks
  readonly #submissions: Float64Array
  readonly #spans: Float64Array
  readonly #joined: boolean
  readonly #asked = new AskedWrites()

  constructor(manager: ManagerProcess, writer: number, limits: Limits, replies: () => Channel<WritebackReply>) {
    const depth = manager.plan.sizes.writeDepth
    const tally = new SimTally()
    const options = { depth, windowBytes: limits.storage.writeWindowBytes, joinBytes: limits.joinBytes }
    const machine = new WritebackMachine(options, tally)
    super(manager, `writeback-${writer}`, tally, manager.twin.writeback?.(machine) ?? machine, NEVER)
    const submissions = new Float64Array(depth * SUBMISSION_DOUBLES)
    const spans = new Float64Array(depth * WRITE_SPANS_MAX * WRITE.doubles)
    this.#submissions = submissions
    this.#spans = spans
    this.#joined = limits.joinBytes > 0
    this.device = manager.openDisk(this.actor, (tag, result) => this.step({ kind: 'io-completed', tag, result }))
    this.#sinks = {
      submissions,
      spans,
      submitted: 0,
      client: { send: (reply: WritebackReply) => replies().send(reply) },
    } as unknown as WritebackSinks
  }

  override step(input: WritebackInput): void {
    if (input.kind === 'request') this.#asked.asked(input.request)
    super.step(input)
  }

  protected act(effect: WritebackEffect): void {
    performWrite(this.#sinks, effect)
  }

  protected override perform(): void {
    this.#sinks.submitted = 0
    super.perform()
    for (let entry = 0; entry < this.#sinks.submitted; entry++) {
      const at = entry * SUBMISSION_DOUBLES
      const [op, tag, file, fileOffsetBytes, place, bytes] = this.#submissions.subarray(at, at + 6) as unknown as Fields
      const spans = op === SUBMIT_WRITE_SPANS ? this.#spansOf(entry, place) : [{ poolOffsetBytes: place, bytes }]
      const order = { tag, file, fileOffsetBytes, bytes, spans, joined: this.#joined }
      this.#asked.submitted(order)
      this.device.write(order)
    }
  }

  #spansOf(entry: number, count: number): Span[] {
    return Array.from({ length: count }, (_, index) => {
      const at = (entry * WRITE_SPANS_MAX + index) * WRITE.doubles
      return {
        poolOffsetBytes: this.#spans[at + WRITE.poolOffsetBytes] as number,
        bytes: this.#spans[at + WRITE.bytes] as number,
      }
    })
  }
}

/** Of an entry of submissions: op, tag, file, offset in it, place, bytes. */
type Fields = readonly [number, number, number, number, number, number]
