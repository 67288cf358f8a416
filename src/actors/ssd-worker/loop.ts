import { CodecWorkspaces } from '../../binding/codec-workspace.js'
import { loadNative } from '../../binding/load.js'
import { endWithLostDevice } from '../../binding/lost-device.js'
import { CODEC_PART_DESCRIPTORS, CodecTally } from '../../shared/codec/lane-series.js'
import { openLanePort } from '../runtime/lane-port.js'
import { feed, runLane } from '../runtime/loop.js'
import { sayReady, workerInput } from '../runtime/spawn.js'
import { LaneTurn } from '../runtime/turn.js'
import { Actor } from '../runtime/wiring.js'
import { SSD_WORKER_HISTOGRAMS, SSD_WORKER_SERIES } from './counters.js'
import { perform, type SsdWorkerSinks } from './effects.js'
import { resultsOf, type SsdWorkerEffect, type SsdWorkerInput, SsdWorkerMachine } from './machine.js'
import { replyCodec, requestCodec } from './messages.js'
import { SSD_WORKER_LAYOUT, type SsdWorkerParams, STAGING_SLOT_BYTES } from './params.js'

/** The port submits no reads and writes of the kernel's for this lane; it carries its streams and its sleep. */
const PORT_DEPTH = 1
/** Completions of one reap; more wait inside the port. */
const COMPLETIONS = 64

/** The ssd-worker: takes restores and writes of the cuFile route, moves them through staging, answers. */
function main(): void {
  const { seat, params } = workerInput<SsdWorkerParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const { client, pool, device, partDescriptors, io, codecBudgetBytes } = params
  const codedDescriptors = codecBudgetBytes === undefined ? 0 : CODEC_PART_DESCRIPTORS
  const room = resultsOf(codedDescriptors)
  const portOptions = { depth: PORT_DEPTH, jobs: COMPLETIONS, results: room, pool, io, register: false }
  const { port, completions, results } = openLanePort(native, actor, portOptions)
  const options = { slotBytes: STAGING_SLOT_BYTES, partDescriptors, codedDescriptors }
  const counters = actor.counters(SSD_WORKER_LAYOUT)
  const machine = new SsdWorkerMachine(options, results, counters)
  const nowUs = () => native.monotonicUs()
  const turn = new LaneTurn<SsdWorkerInput, SsdWorkerEffect>(machine, nowUs)
  const codec = new CodecTally(counters, SSD_WORKER_SERIES.length, SSD_WORKER_HISTOGRAMS.length)
  const workspaces = new CodecWorkspaces(port)
  const sinks: SsdWorkerSinks = {
    native,
    port,
    device,
    streams: new Map(),
    client: actor.outbox(client, replyCodec),
    codecBudgetBytes: codecBudgetBytes ?? 0,
    closing: (stream) => {
      if (codecBudgetBytes !== undefined) workspaces.closing(stream)
    },
  }

  /** What the device says, of a job or at once. */
  const said = (input: SsdWorkerInput) => {
    if (input.kind === 'completed') endWithLostDevice(native, device, input.result)
    if (input.kind === 'worker-opened') endWithLostDevice(native, device, input.code)
    turn.step(input)
  }

  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: [feed(actor.inbox(client, requestCodec), (request) => turn.step({ kind: 'request', request }))],
    outboxes: [sinks.client],
    native: { port, completions, completed: (tag, result) => said({ kind: 'completed', tag, result }) },
    perform: () => {
      turn.perform((effect) => {
        const at = perform(sinks, effect)
        if (at !== null) said(at)
      })
      if (codecBudgetBytes !== undefined) workspaces.tell(codec, [...sinks.streams.values()].flat())
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
