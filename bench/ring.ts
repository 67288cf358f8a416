import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { rawRecord } from '../src/shared/rings/codec.js'
import { ActorControl, createControl, PARK_WORD, wakerOf } from '../src/shared/rings/control.js'
import { parkInJs } from '../src/shared/rings/park.js'
import { createRing, RingConsumer, type RingMemory, RingProducer } from '../src/shared/rings/ring.js'

/**
 * Question: how many 64-byte records a second does one ring carry between two threads, each record checked?
 * Control: the same records through a MessagePort, one post each.
 * Does not show: what codecs and machines cost, lists, or more than one producer.
 */
const RECORDS = 1_000_000
const POSTS = 100_000
const ROUNDS = 5
const BATCH = 64

type Sleep = 'spin' | 'park'

interface SinkInput {
  readonly ring: RingMemory
  readonly own: SharedArrayBuffer
  readonly peer: SharedArrayBuffer
  readonly sleep: Sleep
}

function receive({ ring, own, peer, sleep }: SinkInput): void {
  const control = new ActorControl(own)
  const consumer = RingConsumer.attach(ring, wakerOf(new ActorControl(peer), null))
  const record = rawRecord()
  const idle = (): boolean => consumer.empty()
  parentPort?.postMessage('ready')
  let expected = 0
  while (expected < RECORDS) {
    let taken = 0
    while (taken < BATCH && consumer.take(record)) {
      if (record.tag !== expected || record.fields[5] !== expected + 5) throw new Error(`record ${expected} is wrong`)
      expected++
      taken++
    }
    consumer.release()
    if (taken === 0 && sleep === 'park') parkInJs(control.cells, PARK_WORD, idle, 1000)
  }
  parentPort?.postMessage('done')
}

function send(ring: RingMemory, own: SharedArrayBuffer, peer: SharedArrayBuffer, sleep: Sleep): void {
  const control = new ActorControl(own)
  const producer = RingProducer.attach(ring, wakerOf(new ActorControl(peer), null))
  const record = rawRecord()
  const stalled = (): boolean => producer.stalled()
  let sent = 0
  while (sent < RECORDS) {
    let pushed = 0
    record.tag = sent
    for (let i = 0; i < 6; i++) record.fields[i] = sent + i
    while (pushed < BATCH && sent < RECORDS && producer.push(record)) {
      pushed++
      sent++
      record.tag = sent
      for (let i = 0; i < 6; i++) record.fields[i] = sent + i
    }
    producer.publish()
    if (pushed === 0 && sleep === 'park') parkInJs(control.cells, PARK_WORD, stalled, 1000)
  }
}

function heard(worker: Worker, what: string): Promise<void> {
  return new Promise((resolve, reject) => {
    worker.on('error', reject)
    worker.on('message', (message) => message === what && resolve())
  })
}

async function ringRound(sleep: Sleep, capacity: number): Promise<number> {
  const ring = createRing({ capacity, arenaDoubles: 0 })
  const [mine, its] = [createControl(), createControl()]
  const worker = new Worker(new URL(import.meta.url), { workerData: { ring, own: its, peer: mine, sleep } })
  const done = heard(worker, 'done')
  await heard(worker, 'ready')
  const start = performance.now()
  send(ring, mine, its, sleep)
  await done
  const rate = RECORDS / (performance.now() - start) / 1000
  await worker.terminate()
  return rate
}

async function portRound(): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: 'port' })
  const done = heard(worker, 'done')
  await heard(worker, 'ready')
  const start = performance.now()
  for (let i = 0; i < POSTS; i++) worker.postMessage(new Uint8Array(64))
  await done
  const rate = POSTS / (performance.now() - start) / 1000
  await worker.terminate()
  return rate
}

async function main(): Promise<void> {
  const shapes: Record<string, () => Promise<number>> = {
    ring256spin: () => ringRound('spin', 256),
    ring256park: () => ringRound('park', 256),
    ring64park: () => ringRound('park', 64),
    messagePort: portRound,
  }
  const results: Record<string, number> = {}
  for (const [name, round] of Object.entries(shapes)) {
    const rates: number[] = []
    for (let i = 0; i < ROUNDS; i++) rates.push(await round())
    rates.sort((a, b) => a - b)
    const [low = 0, middle = 0, high = 0] = [rates[0], rates[ROUNDS >> 1], rates[ROUNDS - 1]]
    console.log(`${name}: ${middle.toFixed(2)} M records/s [${low.toFixed(2)}..${high.toFixed(2)}]`)
    results[`${name}MillionPerSecond`] = Number(middle.toFixed(2))
  }
  console.log(JSON.stringify({ records: RECORDS, ...results }))
}

if (isMainThread) void main()
else if (workerData === 'port') {
  let count = 0
  parentPort?.on('message', () => {
    if (++count === POSTS) parentPort?.postMessage('done')
  })
  parentPort?.postMessage('ready')
} else receive(workerData as SinkInput)
