import { CodecWorkspaces } from '../../binding/codec-workspace.js'
import { opening } from '../../binding/errors.js'
import { loadNative } from '../../binding/load.js'
import { endWithLostDevice } from '../../binding/lost-device.js'
import { invariant } from '../../shared/base/invariant.js'
import { CODEC_PART_DESCRIPTORS, CodecTally } from '../../shared/codec/lane-series.js'
import {
  type HostReaderReply,
  replyCodec as readerReplies,
  requestCodec as readerRequests,
} from '../host-reader/messages.js'
import { openLanePort } from '../runtime/lane-port.js'
import { feed, runLane } from '../runtime/loop.js'
import { sayReady, workerInput } from '../runtime/spawn.js'
import { LaneTurn } from '../runtime/turn.js'
import { Actor } from '../runtime/wiring.js'
import { HOST_RESTORE_HISTOGRAMS, HOST_RESTORE_SERIES } from './counters.js'
import { type HostRestoreSinks, perform } from './effects.js'
import { type HostRestoreEffect, type HostRestoreInput, HostRestoreMachine } from './machine.js'
import { replyCodec, requestCodec } from './messages.js'
import { HOST_RESTORE_LAYOUT, type HostRestoreParams } from './params.js'
import { resultsOf } from './parts.js'

/** The port submits no reads and writes for this lane; it carries the stream's completions and the lane's sleep. */
const PORT_DEPTH = 1

/** The host-restore worker: takes restores, asks readers, copies what has landed, writes slots, answers. */
function main(): void {
  const { seat, params } = workerInput<HostRestoreParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const { client, readers, pool, parts, storeReads, io, codecBudgetBytes } = params
  const stores = readers.length
  const codedDescriptors = CODEC_PART_DESCRIPTORS
  const options = { ...params, stores, reads: powerOfTwoFrom(storeReads * stores), codedDescriptors }
  const portOptions = { depth: PORT_DEPTH, jobs: parts, results: resultsOf(options), pool, io, register: false }
  const { port, completions, results } = openLanePort(native, actor, portOptions)
  const counters = actor.counters(HOST_RESTORE_LAYOUT)
  const machine = new HostRestoreMachine(options, counters, results)
  const nowUs = () => native.monotonicUs()
  const turn = new LaneTurn<HostRestoreInput, HostRestoreEffect>(machine, nowUs)
  const sinks: HostRestoreSinks = {
    native,
    port,
    stream: opening('device', () => port.openStream(params.device, { codecBudgetBytes: codecBudgetBytes ?? 0 })),
    client: actor.outbox(client, replyCodec),
    readers: readers.map((name) => actor.outbox(name, readerRequests)),
  }
  const codec = new CodecTally(counters, HOST_RESTORE_SERIES.length, HOST_RESTORE_HISTOGRAMS.length)
  const workspaces = new CodecWorkspaces(port)
  const readerSaid = (reply: HostReaderReply) => {
    invariant(reply.kind === 'read-done', 'only the manager stops a reader', { kind: reply.kind })
    turn.step(reply)
  }

  /** What the device says, of a job or at once. */
  const said = (input: HostRestoreInput) => {
    if (input.kind === 'stream-completed') endWithLostDevice(native, params.device, input.result)
    turn.step(input)
  }

  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: [
      feed(actor.inbox(client, requestCodec), (request) => turn.step({ kind: 'request', request })),
      ...readers.map((name) => feed(actor.inbox(name, readerReplies), readerSaid)),
    ],
    outboxes: [sinks.client, ...sinks.readers],
    native: { port, completions, completed: (tag, result) => said({ kind: 'stream-completed', tag, result }) },
    perform: () => {
      turn.perform((effect) => {
        const at = perform(sinks, effect)
        if (at !== null) said(at)
      })
      if (codecBudgetBytes !== undefined) workspaces.tell(codec, [sinks.stream])
      return 0
    },
    hasNativeWork: () => machine.inFlight > 0,
    nextTickUs: () => machine.nextTickUs,
    tick: (now) => turn.tick(now),
    nowUs,
    ended: () => machine.stopped,
  })
  port.close()
}

/** The smallest power of two that is at least `count`. */
function powerOfTwoFrom(count: number): number {
  let power = 1
  while (power < count) power *= 2
  return power
}

main()
