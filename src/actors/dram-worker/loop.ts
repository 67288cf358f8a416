import { CodecWorkspaces } from '../../binding/codec-workspace.js'
import { opening } from '../../binding/errors.js'
import { loadNative } from '../../binding/load.js'
import { endWithLostDevice } from '../../binding/lost-device.js'
import type { StreamOptions } from '../../binding/streams.js'
import { CODEC_PART_DESCRIPTORS, CodecTally } from '../../shared/codec/lane-series.js'
import { openLanePort } from '../runtime/lane-port.js'
import { feed, runLane } from '../runtime/loop.js'
import { sayReady, workerInput } from '../runtime/spawn.js'
import { LaneTurn } from '../runtime/turn.js'
import { Actor } from '../runtime/wiring.js'
import { DRAM_WORKER_HISTOGRAMS, DRAM_WORKER_SERIES } from './counters.js'
import { type DramWorkerSinks, perform } from './effects.js'
import { type DramWorkerEffect, type DramWorkerInput, DramWorkerMachine } from './machine.js'
import { replyCodec, requestCodec } from './messages.js'
import { DRAM_WORKER_LAYOUT, type DramWorkerParams } from './params.js'
import { resultsOf } from './parts.js'

/** The port submits no reads and writes for this lane; it carries the stream's completions and the lane's sleep. */
const PORT_DEPTH = 1

/** What the stream may hold, and what those may that decode what it encodes. */
function codecOptions({ codecBudgetBytes = 0, codecStagingBudgetBytes }: DramWorkerParams): StreamOptions {
  if (codecStagingBudgetBytes === undefined) return { codecBudgetBytes }
  return { codecBudgetBytes, codecStagingBudgetBytes }
}

/** The dram-worker: takes saves, restores and checksums, steps the machine, queues parts on the stream, answers. */
function main(): void {
  const { seat, params } = workerInput<DramWorkerParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const { client, pool, parts, partDescriptors, io, codecBudgetBytes } = params
  const options = { parts, partDescriptors, codedDescriptors: CODEC_PART_DESCRIPTORS }
  const portOptions = { depth: PORT_DEPTH, jobs: parts, results: resultsOf(options), pool, io, register: false }
  const { port, completions, results } = openLanePort(native, actor, portOptions)
  const counters = actor.counters(DRAM_WORKER_LAYOUT)
  const machine = new DramWorkerMachine(options, results, counters)
  const nowUs = () => native.monotonicUs()
  const turn = new LaneTurn<DramWorkerInput, DramWorkerEffect>(machine, nowUs)
  const outbox = actor.outbox(client, replyCodec)
  const sinks: DramWorkerSinks = {
    native,
    port,
    stream: opening('device', () => port.openStream(params.device, codecOptions(params))),
    client: outbox,
  }
  const codec = new CodecTally(counters, DRAM_WORKER_SERIES.length, DRAM_WORKER_HISTOGRAMS.length)
  const workspaces = new CodecWorkspaces(port)

  /** What the device says, of a job or at once. */
  const said = (input: DramWorkerInput) => {
    if (input.kind === 'stream-completed') endWithLostDevice(native, params.device, input.result)
    turn.step(input)
  }

  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: [feed(actor.inbox(client, requestCodec), (request) => turn.step({ kind: 'request', request }))],
    outboxes: [outbox],
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

main()
