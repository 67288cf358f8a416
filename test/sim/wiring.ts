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
  type WritebackReply,
  type WritebackRequest,
  replyCodec as writeReplies,
  requestCodec as writeRequests,
} from '../../src/actors/writeback/messages.js'
import type { ManagerSinks } from '../../src/manager/effects.js'
import type { ControlReply, ManagerInput } from '../../src/manager/messages.js'
import type { MessageCodec } from '../../src/shared/rings/codec.js'
import type { Actor } from './actor.js'
import { Channel } from './channel.js'
import type { LaneState } from './lane.js'
import { DramWorkerLane, HostReaderLane, HostRestoreLane, WritebackLane } from './lanes.js'
import type { Limits } from './limits.js'
import type { ManagerProcess } from './manager-process.js'
import { must } from './violation.js'

/** Records of a reply ring: more than the credits of its client allow. */
const REPLIES_MAX = 257

/** The lanes of one process and every ring between them, as src/control wires the workers. */
export class Wiring {
  readonly lanes: readonly LaneState[]
  readonly channels: Channel<never>[] = []
  readonly sinks: ManagerSinks
  readonly #process: ManagerProcess

  constructor(process: ManagerProcess, limits: Limits, actor: Actor, step: (input: ManagerInput) => void) {
    this.#process = process
    const { engaged } = process
    const each = Array.from({ length: limits.stores }, (_, store) => store)
    // Lanes and channels name each other: channels are looked up when they are first used.
    let readerToRestore: Channel<HostReaderReply>[] = []
    let readerToManager: Channel<HostReaderReply>[] = []
    let restoreToReader: Channel<HostReaderRequest>[] = []
    let writerToManager: Channel<WritebackReply>[] = []
    const dram = new DramWorkerLane(process, () => dramToManager)
    const restore = new HostRestoreLane(
      process,
      limits.restore,
      () => restoreToManager,
      () => restoreToReader,
    )
    const readers = each.map(
      (store) =>
        new HostReaderLane(process, store, () => [
          readerToManager[store] as Channel<HostReaderReply>,
          readerToRestore[store] as Channel<HostReaderReply>,
        ]),
    )
    const window = limits.storage.writeWindowBytes
    const writers = each.map(
      (store) => new WritebackLane(process, store, window, () => writerToManager[store] as Channel<WritebackReply>),
    )
    this.lanes = [dram, restore, ...readers, ...writers]

    const dramToManager = this.#reply<DramWorkerReply>('dram-worker to manager', dramReplies, actor, (reply) => {
      if (reply.kind !== 'stopped') engaged.end(`d${reply.job}`)
      step({ kind: 'dram-worker', device: 0, reply })
    })
    const restoreToManager = this.#reply<HostRestoreReply>(
      'host-restore to manager',
      restoreReplies,
      actor,
      (reply) => {
        if (reply.kind !== 'stopped') engaged.end(`h${reply.job}`)
        step({ kind: 'host-restore', device: 0, reply })
      },
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
    readerToRestore = each.map((store) =>
      this.#reply<HostReaderReply>(`host-reader-${store} to host-restore`, readerReplies, restore.actor, (reply) => {
        must(reply.kind === 'read-done', 'X1', () => 'a reader stops and tells host-restore')
        if (reply.kind === 'read-done') restore.step(reply)
      }),
    )
    restoreToReader = readers.map((lane, store) =>
      this.#request<HostReaderRequest>(`host-restore to host-reader-${store}`, readerRequests, lane.actor, (request) =>
        lane.step({ kind: 'request', client: 1, request }),
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
    const managerToDram = this.#request<DramWorkerRequest>(
      'manager to dram-worker',
      dramRequests,
      dram.actor,
      (request) => dram.step({ kind: 'request', request }),
    )
    const managerToRestore = this.#request<HostRestoreRequest>(
      'manager to host-restore',
      restoreRequests,
      restore.actor,
      (request) => restore.step({ kind: 'request', request }),
    )
    const { slots, fds, wire } = process
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
          channel.send(request)
        },
      })),
      dram: [
        {
          send: (request: DramWorkerRequest) => {
            engaged.copies(request)
            managerToDram.send(request)
          },
        },
      ],
      restore: [
        {
          send: (request: HostRestoreRequest) => {
            engaged.restores(request)
            managerToRestore.send(request)
          },
        },
      ],
      main: { send: (reply: ControlReply) => process.report(reply) },
    } as unknown as ManagerSinks
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
