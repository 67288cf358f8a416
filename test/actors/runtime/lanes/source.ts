import { feed, runLane } from '../../../../src/actors/runtime/loop.js'
import { sayReady, workerInput } from '../../../../src/actors/runtime/spawn.js'
import { Actor } from '../../../../src/actors/runtime/wiring.js'
import { type BedKind, bedOf } from './bed.js'
import { checkNumber, delays, listFor, type TestMessage, testCodec } from './messages.js'

/** Sends numbered records to `sink` as fast as the ring takes them and checks that they come back in order. */
function run(): void {
  const { seat, params } = workerInput<{ readonly seed: number; readonly bed: BedKind }>()
  const bed = bedOf(params.bed)
  const actor = new Actor(seat, bed.wakePort)
  const orders = actor.inbox('main', testCodec)
  const reports = actor.outbox('main', testCodec)
  const echoes = actor.inbox('sink', testCodec)
  const numbers = actor.outbox('sink', testCodec)
  const delay = delays(params.seed)
  const scratch = new Float64Array(8)
  let count = 0
  let sent = 0
  let back = 0
  let stopping = false

  const order = (message: TestMessage): void => {
    if (message.kind === 'go') count += message.count
    else if (message.kind === 'stop') stopping = true
  }
  const echo = (message: TestMessage): void => {
    checkNumber(message, back++)
    if (back === count) reports.send({ kind: 'done', count })
    delay()
  }
  const wantsTurn = (): boolean => sent < count && numbers.pending === 0
  const native = bed.native(actor)
  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: [feed(orders, order), feed(echoes, echo)],
    outboxes: [reports, numbers],
    native,
    perform: () => {
      for (let burst = 0; burst < 100 && wantsTurn(); burst++) {
        numbers.send({ kind: 'number', serial: sent, list: listFor(sent, scratch) })
        sent++
        delay()
      }
      return 0
    },
    hasNativeWork: () => bed.parksNatively,
    nextTickUs: () => (wantsTurn() ? 0 : Number.POSITIVE_INFINITY),
    tick: () => {},
    nowUs: () => 0,
    ended: () => stopping,
  })
}

run()
