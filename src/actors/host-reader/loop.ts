import { loadNative } from '../../binding/load.js'
import { openLanePort } from '../runtime/lane-port.js'
import { feed, runLane } from '../runtime/loop.js'
import { sayReady, workerInput } from '../runtime/spawn.js'
import { LaneTurn } from '../runtime/turn.js'
import { Actor } from '../runtime/wiring.js'
import { type HostReaderSinks, perform } from './effects.js'
import { type HostReaderEffect, type HostReaderInput, HostReaderMachine } from './machine.js'
import { replyCodec, requestCodec } from './messages.js'
import { HOST_READER_LAYOUT, type HostReaderParams } from './params.js'

/** The host-reader worker: takes reads of its clients, steps the machine, submits, reaps, answers. */
function main(): void {
  const { seat, params } = workerInput<HostReaderParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const { clients, depth } = params
  const { port, submissions, completions } = openLanePort(native, actor, { ...params, jobs: 0, results: 0 })
  const machine = new HostReaderMachine({ clients: clients.length, depth }, actor.counters(HOST_READER_LAYOUT))
  const nowUs = () => native.monotonicUs()
  const turn = new LaneTurn<HostReaderInput, HostReaderEffect>(machine, nowUs)
  const outboxes = clients.map((name) => actor.outbox(name, replyCodec))
  const sinks: HostReaderSinks = { submissions, clients: outboxes, submitted: 0 }

  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: clients.map((name, client) =>
      feed(actor.inbox(name, requestCodec), (request) => turn.step({ kind: 'request', client, request })),
    ),
    outboxes,
    native: { port, completions, completed: (tag, result) => turn.step({ kind: 'io-completed', tag, result }) },
    perform: () => {
      sinks.submitted = 0
      turn.perform((effect) => perform(sinks, effect))
      return sinks.submitted
    },
    hasNativeWork: () => machine.inFlight > 0,
    nextTickUs: () => Number.POSITIVE_INFINITY,
    tick: (now) => turn.tick(now),
    nowUs,
    ended: () => machine.stopped,
  })
  port.close()
}

main()
