import {
  type DramWorkerReply,
  type DramWorkerRequest,
  replyCodec as dramReplies,
  requestCodec as dramRequests,
} from '../../src/actors/dram-worker/messages.js'
import {
  type HostReaderReply,
  type HostReaderRequest,
  replyCodec as readerReplies,
  requestCodec as readerRequests,
} from '../../src/actors/host-reader/messages.js'
import {
  type HostRestoreReply,
  type HostRestoreRequest,
  replyCodec as restoreReplies,
  requestCodec as restoreRequests,
} from '../../src/actors/host-restore/messages.js'
import {
  type SsdWorkerReply,
  type SsdWorkerRequest,
  replyCodec as ssdReplies,
  requestCodec as ssdRequests,
} from '../../src/actors/ssd-worker/messages.js'
import {
  type WritebackReply,
  type WritebackRequest,
  replyCodec as writeReplies,
  requestCodec as writeRequests,
} from '../../src/actors/writeback/messages.js'
import type { ManagerSinks } from '../../src/manager/effects.js'
import type { ControlReply, ManagerInput } from '../../src/manager/messages.js'
import { WRITE } from '../../src/shared/layout/descriptors.js'
import { listAt } from '../../src/shared/layout/records.js'
import type { MessageCodec } from '../../src/shared/rings/codec.js'
import type { Actor } from './actor.js'
import { Channel } from './channel.js'
import type { LaneState } from './lane.js'
import { DramWorkerLane, HostReaderLane, HostRestoreLane, WritebackLane } from './lanes.js'
import type { Limits } from './limits.js'
import type { ManagerProcess } from './manager-process.js'
import { SsdWorkerLane } from './ssd-worker-lane.js'
import { must } from './violation.js'

/** Records of a reply ring: more than the credits of its client allow. */
const REPLIES_MAX = 257

/** The CUDA device among the Manager's devices. */
const GPU_DEVICE = 1

/** The lanes of one process and every ring between them, as src/control wires the workers. */
export class Wiring {
  readonly lanes: readonly LaneState[]
  /** The lanes that copy and code for each device. */
  readonly copying: readonly (readonly [DramWorkerLane, HostRestoreLane])[]
  /** The ssd-worker of the CUDA device; null without a cuFile route. */
  readonly staging: SsdWorkerLane | null
  readonly channels: Channel<never>[] = []
  readonly sinks: ManagerSinks
  readonly #process: ManagerProcess

  constructor(process: ManagerProcess, limits: Limits, actor: Actor, step: (input: ManagerInput) => void) {
    this.#process = process
    const { engaged, damage } = process
    const each = Array.from({ length: limits.stores }, (_, store) => store)
    const devices = limits.restore.map((_, device) => device)
    // Lanes and channels name each other: channels are looked up when they are first used.
    let readerToRestore: Channel<HostReaderReply>[][] = []
    let readerToManager: Channel<HostReaderReply>[] = []
    let restoreToReader: Channel<HostReaderRequest>[][] = []
    let writerToManager: Channel<WritebackReply>[] = []
    let dramToManager: Channel<DramWorkerReply>[] = []
    let restoreToManager: Channel<HostRestoreReply>[] = []
    let ssdToManager: Channel<SsdWorkerReply> | null = null
    const drams = devices.map(
      (device) => new DramWorkerLane(process, device, () => dramToManager[device] as Channel<DramWorkerReply>),
    )
    const restores = limits.restore.map(
      (options, device) =>
        new HostRestoreLane(
          process,
          device,
          options,
          () => restoreToManager[device] as Channel<HostRestoreReply>,
          () => restoreToReader[device] as Channel<HostReaderRequest>[],
        ),
    )
    const readers = each.map(
      (store) =>
        new HostReaderLane(process, store, 1 + devices.length, () => [
          readerToManager[store] as Channel<HostReaderReply>,
          ...readerToRestore.map((ofDevice) => ofDevice[store] as Channel<HostReaderReply>),
        ]),
    )
    const writers = each.map(
      (store) => new WritebackLane(process, store, limits, () => writerToManager[store] as Channel<WritebackReply>),
    )
    const staged = limits.manager.staging.length > 0
    this.staging = staged ? new SsdWorkerLane(process, limits, () => ssdToManager as Channel<SsdWorkerReply>) : null
    this.copying = drams.map((dram, device) => [dram, restores[device] as HostRestoreLane])
    this.lanes = [...drams, ...restores, ...readers, ...writers, ...(this.staging === null ? [] : [this.staging])]

    dramToManager = drams.map(({ name }, device) =>
      this.#reply<DramWorkerReply>(`${name} to manager`, dramReplies, actor, (reply) => {
        const offsets = 'job' in reply ? engaged.end(`d${device}/${reply.job}`) : []
        damage.ofMemory(reply, offsets, () => step({ kind: 'dram-worker', device, reply }))
      }),
    )
    restoreToManager = restores.map(({ name }, device) =>
      this.#reply<HostRestoreReply>(`${name} to manager`, restoreReplies, actor, (reply) => {
        if ('job' in reply) engaged.end(`h${device}/${reply.job}`)
        damage.ofGenerations(reply, () => step({ kind: 'host-restore', device, reply }))
      }),
    )
    readerToManager = each.map((store) =>
      this.#reply<HostReaderReply>(`host-reader-${store} to manager`, readerReplies, actor, (reply) => {
        if (reply.kind !== 'stopped') engaged.end(`r${store}/${reply.batch}/${reply.index}`)
        step({ kind: 'host-reader', store, reply })
      }),
    )
    writerToManager = each.map((store) =>
      this.#reply<WritebackReply>(`writeback-${store} to manager`, writeReplies, actor, (reply) => {
        if (reply.kind !== 'stopped') engaged.end(`w${store}/${reply.job}`)
        step({ kind: 'writeback', store, reply })
      }),
    )
    readerToRestore = restores.map((restore) =>
      each.map((store) =>
        this.#reply<HostReaderReply>(
          `host-reader-${store} to ${restore.name}`,
          readerReplies,
          restore.actor,
          (reply) => {
            must(reply.kind === 'read-done', 'X1', () => 'a reader stops and tells host-restore')
            if (reply.kind === 'read-done') restore.step(reply)
          },
        ),
      ),
    )
    restoreToReader = restores.map(({ name }, device) =>
      readers.map((lane, store) =>
        this.#request<HostReaderRequest>(`${name} to host-reader-${store}`, readerRequests, lane.actor, (request) =>
          lane.step({ kind: 'request', client: 1 + device, request }),
        ),
      ),
    )
    const managerToReader = readers.map((lane, store) =>
      this.#request<HostReaderRequest>(`manager to host-reader-${store}`, readerRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', client: 0, request }),
      ),
    )
    const managerToWriter = writers.map((lane, store) =>
      this.#request<WritebackRequest>(`manager to writeback-${store}`, writeRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', request }),
      ),
    )
    const managerToDram = drams.map((lane) =>
      this.#request<DramWorkerRequest>(`manager to ${lane.name}`, dramRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', request }),
      ),
    )
    const managerToRestore = restores.map((lane) =>
      this.#request<HostRestoreRequest>(`manager to ${lane.name}`, restoreRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', request }),
      ),
    )
    const ssd = this.#wireStaging(actor, step)
    ssdToManager = ssd?.replies ?? null
    const { slots, fds, wire, routes } = process
    this.sinks = {
      native: {
        slotState: (table: number, slot: number, generation: number, state: number) =>
          slots.state(table, slot, generation, state),
        slotFinish: (
          table: number,
          slot: number,
          generation: number,
          state: number,
          errorCode: number,
          firstFailed: number,
          bytes: number,
        ) => slots.finish(table, slot, generation, { state, errorCode, firstFailed, bytes }),
        closeFd: (fd: number) => fds.close(fd),
        releaseSlots: (table: number) => slots.release(table),
      },
      port: {
        send: (connection: number, frame: Uint8Array, bytes: number, files: readonly number[]) =>
          wire.reply(connection, frame, bytes, files),
        closeConnection: (connection: number) => wire.closeConnection(connection),
      },
      readers: managerToReader.map((channel, store) => ({
        send: (request: HostReaderRequest) => {
          engaged.reads(store, request)
          channel.send(request)
        },
      })),
      writers: managerToWriter.map((channel, store) => ({
        send: (request: WritebackRequest) => {
          engaged.writes(store, request)
          this.#overwrites(request)
          channel.send(request)
        },
      })),
      dram: managerToDram.map((channel, device) => ({
        send: (request: DramWorkerRequest) => {
          engaged.copies(device, request)
          channel.send(request)
        },
      })),
      restore: managerToRestore.map((channel, device) => ({
        send: (request: HostRestoreRequest) => {
          engaged.restores(device, request)
          if (device === GPU_DEVICE && staged && request.kind === 'restore') routes.restoresByUring(request.list)
          channel.send(request)
        },
      })),
      ssd: devices.map((device) => (device === GPU_DEVICE && ssd !== null ? { send: ssd.send } : null)),
      main: { send: (reply: ControlReply) => process.report(reply) },
    } as unknown as ManagerSinks
  }

  /** The rings between the Manager and the ssd-worker, with what is engaged on either side of them. */
  #wireStaging(actor: Actor, step: (input: ManagerInput) => void) {
    const lane = this.staging
    if (lane === null) return null
    const { engaged, routes, damage } = this.#process
    const replies = this.#reply<SsdWorkerReply>('ssd-worker to manager', ssdReplies, actor, (reply) => {
      if (reply.kind === 'copied' || reply.kind === 'encoded') engaged.end(`sc${GPU_DEVICE}/${reply.job}`)
      if (reply.kind === 'restore-done' || reply.kind === 'write-done') engaged.end(`s${GPU_DEVICE}/${reply.job}`)
      if (reply.kind === 'route-failed') routes.failed()
      lane.check.mustBeHeld()
      damage.ofGenerations(reply, () => step({ kind: 'ssd-worker', device: GPU_DEVICE, reply }))
    })
    const requests = this.#request<SsdWorkerRequest>('manager to ssd-worker', ssdRequests, lane.actor, (request) =>
      lane.step({ kind: 'request', request }),
    )
    const send = (request: SsdWorkerRequest) => {
      engaged.stagings(GPU_DEVICE, request)
      requests.send(request)
    }
    return { replies, send }
  }

  /** Bytes of extents that io_uring writes. */
  #overwrites(request: WritebackRequest): void {
    if (request.kind !== 'write' || this.staging === null) return
    let bytes = 0
    for (let at = 0; at < request.list.length; at += WRITE.doubles) bytes += listAt(request.list, at + WRITE.bytes)
    this.staging.check.extents.overwritten(request.file, request.fileOffsetBytes, bytes)
  }

  #request<M>(name: string, codec: MessageCodec<M>, to: Actor, deliver: (message: M) => void): Channel<M> {
    return this.#channel(name, codec, to, deliver, this.#process.plan.sizes.ringCapacity, false)
  }

  #reply<M>(name: string, codec: MessageCodec<M>, to: Actor, deliver: (message: M) => void): Channel<M> {
    return this.#channel(name, codec, to, deliver, REPLIES_MAX, true)
  }

  #channel<M>(
    name: string,
    codec: MessageCodec<M>,
    to: Actor,
    deliver: (message: M) => void,
    capacity: number,
    credited: boolean,
  ): Channel<M> {
    const { world, clock } = this.#process
    const full = () => world.faults.fired('ring-full')
    const options = {
      clock,
      delayUs: world.ringUs,
      capacity,
      credited,
      full,
      faults: credited ? world.replyRings : world.rings,
    }
    const channel = new Channel(name, codec, to, deliver, options)
    this.channels.push(channel as unknown as Channel<never>)
    return channel
  }
}
