import { loadNative } from '../../binding/load.js'
import { openLanePort } from '../runtime/lane-port.js'
import { feed, runLane } from '../runtime/loop.js'
import { sayReady, workerInput } from '../runtime/spawn.js'
import { LaneTurn } from '../runtime/turn.js'
import { Actor } from '../runtime/wiring.js'
import { perform, type WritebackSinks } from './effects.js'
import { type WritebackEffect, type WritebackInput, WritebackMachine } from './machine.js'
import { replyCodec, requestCodec } from './messages.js'
import { WRITEBACK_LAYOUT, type WritebackParams } from './params.js'

/** The writeback worker: takes writes of the manager, steps the machine, submits, reaps, answers. */
function main(): void {
  const { seat, params } = workerInput<WritebackParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const { client, depth, windowBytes, joinBytes } = params
  const ways = { jobs: 0, results: 0, spans: joinBytes > 0 }
  const { port, submissions, spans, completions } = openLanePort(native, actor, { ...params, ...ways })
  const machine = new WritebackMachine({ depth, windowBytes, joinBytes }, actor.counters(WRITEBACK_LAYOUT))
  const nowUs = () => native.monotonicUs()
  const turn = new LaneTurn<WritebackInput, WritebackEffect>(machine, nowUs)
  const outbox = actor.outbox(client, replyCodec)
  const sinks: WritebackSinks = { submissions, spans, client: outbox, submitted: 0 }

  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: [feed(actor.inbox(client, requestCodec), (request) => turn.step({ kind: 'request', request }))],
    outboxes: [outbox],
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
