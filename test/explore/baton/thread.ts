import { workerData } from 'node:worker_threads'
import { Inbox } from '../../../src/actors/runtime/inbox.js'
import { feed, runLane } from '../../../src/actors/runtime/loop.js'
import { Outbox } from '../../../src/actors/runtime/outbox.js'
import { ActorControl, PARK_WORD } from '../../../src/shared/rings/control.js'
import { noNativeWake, PeerWaker, RUN, type Waker } from '../../../src/shared/rings/park.js'
import { RingConsumer, type RingMemory, RingProducer, type RingViews, viewsOf } from '../../../src/shared/rings/ring.js'
import { checkNumber, listFor, type TestMessage, testCodec } from '../../actors/runtime/lanes/messages.js'
import { Baton, BatonCells, BatonOver } from './baton.js'

/** What a thread of the pair gets: thread 0 sends numbered records and checks their echoes, thread 1 echoes. */
export interface ThreadInput {
  readonly thread: 0 | 1
  readonly baton: SharedArrayBuffer
  /** From thread 0 to thread 1, and back. */
  readonly rings: readonly [RingMemory, RingMemory]
  readonly controls: readonly [SharedArrayBuffer, SharedArrayBuffer]
  readonly records: number
  readonly twin: 'none' | 'looks before it publishes'
}

/** Words of one memory in the digest of a run. */
const MEMORY_WORDS = 4096

/** Asks whether the peer sleeps before the record is there: the wake-up is lost when it falls asleep in between. */
class LooksEarly extends RingProducer {
  #peer: BatonCells | null = null

  watch(peer: BatonCells): void {
    this.#peer = peer
  }

  override publish(): void {
    const asleep = this.#peer !== null && this.#peer.load(PARK_WORD) !== RUN
    const self = this as unknown as { consumer: Waker }
    const { consumer } = self
    self.consumer = { wakeIfParked: () => asleep && consumer.wakeIfParked() }
    super.publish()
    self.consumer = consumer
  }
}

function run(): void {
  const { thread, baton: buffer, rings, controls, records, twin } = workerData as ThreadInput
  const baton = new Baton(buffer, thread, 2)
  const cellsOf = (words: Int32Array, memory: number) => new BatonCells(words, baton, memory * MEMORY_WORDS)
  const views = (ring: number): RingViews => {
    const real = viewsOf(rings[ring] as RingMemory)
    return { ...real, cells: cellsOf(real.words, ring) }
  }
  const controlCells = (of: number) => cellsOf(new Int32Array(controls[of] as SharedArrayBuffer), 2 + of)
  const peer = controlCells(1 - thread)
  const control = new ActorControl(controls[thread])
  Object.defineProperty(control, 'cells', { value: controlCells(thread) })
  const waker = new PeerWaker(peer, PARK_WORD, noNativeWake)

  try {
    baton.join()
    const ring = new (twin === 'none' ? RingProducer : LooksEarly)(views(thread), waker)
    if (ring instanceof LooksEarly) ring.watch(peer)
    const outbox = new Outbox<TestMessage>(ring, testCodec)
    const inbox = new Inbox<TestMessage>(new RingConsumer(views(1 - thread), waker), testCodec)
    const scratch = new Float64Array(8)
    let sent = 0
    let received = 0
    runLane({
      control,
      spinUs: 0,
      inboxes: [
        feed(inbox, (message) => {
          checkNumber(message, received++)
          if (thread === 1) outbox.send(message)
        }),
      ],
      outboxes: [outbox],
      native: null,
      perform: () => {
        // No more than wait for their echo at once than the two rings hold: then both ends meet full and empty rings.
        for (; thread === 0 && sent < records && sent - received < 6; sent++) {
          outbox.send({ kind: 'number', serial: sent, list: listFor(sent, scratch) })
        }
        return 0
      },
      hasNativeWork: () => false,
      nextTickUs: () => Number.POSITIVE_INFINITY,
      tick: () => {},
      nowUs: () => 0,
      ended: () => received === records,
    })
    baton.finish()
  } catch (error) {
    if (error instanceof BatonOver) return
    baton.fail()
    throw error
  }
}

run()
