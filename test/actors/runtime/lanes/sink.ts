import { feed, runLane } from '../../../../src/actors/runtime/loop.js'
import { sayReady, workerInput } from '../../../../src/actors/runtime/spawn.js'
import { Actor } from '../../../../src/actors/runtime/wiring.js'
import { type BedKind, bedOf } from './bed.js'
import { checkNumber, delays, type TestMessage, testCodec } from './messages.js'

interface SinkParams {
  readonly client: string
  readonly seed: number
  readonly bed: BedKind
  readonly broken?: boolean
}

/** Checks and echoes numbered records of `client`; obeys the orders that tests of ends need. */
function run(): void {
  const { seat, params } = workerInput<SinkParams>()
  const bed = bedOf(params.bed)
  if (params.broken === true) throw new Error('planted: broken before ready')
  const actor = new Actor(seat, bed.wakePort)
  const inbox = actor.inbox(params.client, testCodec)
  const outbox = actor.outbox(params.client, testCodec)
  const orders = params.client === 'main' ? null : actor.inbox('main', testCodec)
  const delay = delays(params.seed)
  let expected = 0
  let stopping = false

  const obey = (message: TestMessage): void => {
    switch (message.kind) {
      case 'number':
        checkNumber(message, expected++)
        outbox.send(message)
        delay()
        return
      case 'throw':
        throw new Error('planted: lane failed')
      case 'exit':
        process.exit(3)
        return
      case 'spin':
        for (;;);
      case 'stop':
        stopping = true
        outbox.send({ kind: 'stopped' })
        return
      default:
        throw new Error(`unexpected ${message.kind}`)
    }
  }
  const native = bed.native(actor)
  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes: orders === null ? [feed(inbox, obey)] : [feed(inbox, obey), feed(orders, obey)],
    outboxes: [outbox],
    native,
    perform: () => 0,
    hasNativeWork: () => bed.parksNatively,
    nextTickUs: () => Number.POSITIVE_INFINITY,
    tick: () => {},
    nowUs: () => 0,
    ended: () => stopping,
  })
}

run()
