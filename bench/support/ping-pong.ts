import { Worker } from 'node:worker_threads'
import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import { rawRecord } from '../../src/shared/rings/codec.js'
import { ActorControl, createControl, PARK_WORD, wakerOf } from '../../src/shared/rings/control.js'
import { parkInJs, parkNatively } from '../../src/shared/rings/park.js'
import { createRing, RingConsumer, type RingMemory, RingProducer } from '../../src/shared/rings/ring.js'

/** How both ends of a ring pair wait. */
export type Waiting = 'spin' | 'park-js' | 'park-native'

/** What the far end of a pair does with a record. */
export const PING = 1
/** Counted; the sequence must have no gap. */
export const POUR = 2
/** As POUR, and answered: the last of a run. */
export const LAST = 3
/** Sleep until the next record comes, also when the pair spins: others are measured now. */
export const REST = 4
export const STOP = 5

/** Records taken or pushed before their ring is told. */
export const BATCH = 64

/** What the far end is started with. */
export interface FarEnd {
  readonly waiting: Waiting
  readonly inbound: RingMemory
  readonly outbound: RingMemory
  readonly own: SharedArrayBuffer
  readonly peer: SharedArrayBuffer
}

/** One end of a pair of rings: 64-byte records out, records in, and a place to sleep. */
export class PairEnd {
  readonly producer: RingProducer
  readonly consumer: RingConsumer
  readonly record = rawRecord()
  /** Times this end went to sleep. */
  parks = 0
  readonly #control: ActorControl
  readonly #port: Port | null
  readonly #waiting: Waiting
  readonly #nothingCame = () => this.consumer.empty()
  readonly #noRoom = () => this.producer.stalled()

  constructor(native: Native, { waiting, inbound, outbound, own, peer }: FarEnd) {
    const wake = wakerOf(new ActorControl(peer), (port) => native.wake(port))
    this.#waiting = waiting
    this.#control = new ActorControl(own)
    this.producer = RingProducer.attach(outbound, wake)
    this.consumer = RingConsumer.attach(inbound, wake)
    this.#port = waiting === 'park-native' ? openSleeper(native, this.#control) : null
  }

  /** Waits until something came. */
  await(waiting: Waiting = this.#waiting): void {
    while (this.#nothingCame()) this.#sleep(waiting, this.#nothingCame)
  }

  /** Waits until the ring may have room. */
  awaitRoom(): void {
    this.#sleep(this.#waiting, this.#noRoom)
  }

  send(kind: number, tag: number): void {
    const { record, producer } = this
    record.kind = kind
    record.tag = tag
    while (!producer.push(record)) this.awaitRoom()
    producer.publish()
  }

  /** Waits for one record; it is in `record` afterwards. */
  receive(): void {
    this.await()
    this.consumer.take(this.record)
    this.consumer.release()
  }

  close(): void {
    this.#port?.close()
  }

  #sleep(waiting: Waiting, idle: () => boolean): void {
    if (waiting === 'spin') return
    this.parks += 1
    const { cells } = this.#control
    const port = this.#port
    if (waiting === 'park-native' && port !== null) parkNatively(cells, PARK_WORD, idle, () => port.park(100_000))
    else parkInJs(cells, PARK_WORD, idle, 1000)
  }
}

/** A port that submits nothing: a place to sleep in io_uring_enter, as every lane with native work has. */
function openSleeper(native: Native, control: ActorControl): Port {
  const depth = 8
  const port = native.openPort({
    depth,
    submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * depth)),
    completions: new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 2 * depth)),
    results: new Uint32Array(new SharedArrayBuffer(4)),
    parkWord: control.parkWord,
    pool: -1,
    io: 'uring',
    register: false,
  })
  control.publishPort(port.id)
  return port
}

/** The near end, and a worker at the far end. */
export class PingPong {
  readonly #end: PairEnd
  readonly #exited: Promise<unknown>

  private constructor(end: PairEnd, exited: Promise<unknown>) {
    this.#end = end
    this.#exited = exited
  }

  static async open(native: Native, waiting: Waiting): Promise<PingPong> {
    const [there, back] = [createRing({ arenaDoubles: 0 }), createRing({ arenaDoubles: 0 })]
    const [near, far] = [createControl(), createControl()]
    const input: FarEnd = { waiting, inbound: there, outbound: back, own: far, peer: near }
    const worker = new Worker(new URL('./far-end.js', import.meta.url), { workerData: input })
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    const end = new PairEnd(native, { waiting, inbound: back, outbound: there, own: near, peer: far })
    return new PingPong(end, exited)
  }

  get parks(): number {
    return this.#end.parks
  }

  /** Round-trip times in microseconds. */
  roundTrips(count: number): Float64Array {
    const times = new Float64Array(count)
    for (let trip = 0; trip < count; trip++) {
      const startMs = performance.now()
      this.#end.send(PING, trip)
      this.#end.receive()
      times[trip] = (performance.now() - startMs) * 1000
      if (this.#end.record.tag !== trip) throw new Error(`round trip ${trip} came back as ${this.#end.record.tag}`)
    }
    return times
  }

  /**
   * What one wake-up of a sleeper costs: half a round trip to an end that has slept for `pauseUs` while this end was
   * busy, as lanes do between requests. Where the scheduler puts the two ends is its choice: on one processor a wake-up
   * costs 4 to 8 us, across two 25 to 40.
   */
  wakeUps(count: number, pauseUs: number): Float64Array {
    const times = new Float64Array(count)
    for (let trip = 0; trip < count; trip++) {
      const pausedFromMs = performance.now()
      while ((performance.now() - pausedFromMs) * 1000 < pauseUs);
      times[trip] = (this.roundTrips(1)[0] as number) / 2
    }
    return times
  }

  /** Messages a second of one direction, each checked at the far end. */
  pour(count: number): number {
    const { producer, record } = this.#end
    const startMs = performance.now()
    for (let sent = 0; sent < count - 1; ) {
      let pushed = 0
      record.kind = POUR
      record.tag = sent
      while (pushed < BATCH && sent < count - 1 && producer.push(record)) {
        pushed++
        record.tag = ++sent
      }
      producer.publish()
      if (pushed === 0) this.#end.awaitRoom()
    }
    this.#end.send(LAST, count - 1)
    this.#end.receive()
    return (count / (performance.now() - startMs)) * 1000
  }

  /** Until the next call the far end sleeps. */
  rest(): void {
    this.#end.send(REST, 0)
  }

  async close(): Promise<void> {
    this.#end.send(STOP, 0)
    await this.#exited
    this.#end.close()
  }
}
