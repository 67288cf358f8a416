import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { loadNative } from '../src/binding/load.js'
import type { BenchOptions } from './support/options.js'
import { Refusal } from './support/options.js'
import { PingPong, type Waiting } from './support/ping-pong.js'
import { type Estimate, estimate, quantile, ratios, rounded } from './support/statistics.js'

/**
 * Question: how long does a 64-byte record take to another thread and back, and how many a second go one way, when
 * both ends spin, sleep in JavaScript or sleep in the addon? Control: MessagePort, in turns with them.
 * Does not show: what codecs and machines cost, lists, more than one producer, or a lane that is busy.
 */

const MODES: readonly Waiting[] = ['spin', 'park-js', 'park-native']
const CONTROL = 'message-port'

/** One way to carry records, and what its rounds said. */
interface Mode {
  readonly name: string
  readonly roundTrips: (count: number) => Float64Array | Promise<Float64Array>
  readonly pour: (count: number) => number | Promise<number>
  readonly rest: () => void
  readonly close: () => Promise<void>
  readonly parks: () => number
  readonly p50: number[]
  readonly p99: number[]
  readonly rate: number[]
}

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const native = loadNative()
  const probe = native.probe()
  if (!probe.available) throw new Refusal(`Cannot sleep natively: io_uring is not available (${probe.reason})`)
  const modes = [...(await Promise.all(MODES.map((mode) => ringMode(mode)))), await portMode()]
  const trips = options.quick ? 500 : 4_000
  const messages = options.quick ? 50_000 : 500_000
  for (let round = -1; round < options.pairs; round++) {
    for (const mode of modes) {
      const times = await mode.roundTrips(trips)
      const rate = await mode.pour(mode.name === CONTROL ? messages / 10 : messages)
      mode.rest()
      if (round < 0) continue // code is being compiled
      mode.p50.push(quantile([...times], 0.5))
      mode.p99.push(quantile([...times], 0.99))
      mode.rate.push(rate)
    }
  }
  const control = modes[modes.length - 1] as Mode
  const rows = modes.map((mode) => rowOf(mode, control))
  for (const mode of modes) await mode.close()
  for (const row of rows) say(lineOf(row))
  return { rows, trips, messages }
}

function rowOf(mode: Mode, control: Mode) {
  const p50 = estimate(mode.p50)
  const rate = estimate(mode.rate)
  return {
    mode: mode.name,
    p50Us: rounded(p50.median),
    p50UsLow: rounded(p50.low),
    p50UsHigh: rounded(p50.high),
    p99Us: rounded(estimate(mode.p99).median),
    messagesPerSecond: rounded(rate.median),
    messagesPerSecondLow: rounded(rate.low),
    messagesPerSecondHigh: rounded(rate.high),
    latencyRatio: shortened(ratios(mode.p50, control.p50)),
    rateRatio: shortened(ratios(mode.rate, control.rate)),
    parks: mode.parks(),
  }
}

function shortened({ median, low, high }: Estimate): Estimate {
  return { median: rounded(median), low: rounded(low), high: rounded(high) }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const millions = (rate: number) => (rate / 1e6).toFixed(2)
  return [
    row.mode.padEnd(13),
    `round trip p50 ${row.p50Us} us [${row.p50UsLow}..${row.p50UsHigh}], p99 ${row.p99Us} us;`,
    `${millions(row.messagesPerSecond)} M/s [${millions(row.messagesPerSecondLow)}..${millions(row.messagesPerSecondHigh)}];`,
    `${row.parks} parks`,
  ].join(' ')
}

async function ringMode(waiting: Waiting): Promise<Mode> {
  const pair = await PingPong.open(loadNative(), waiting)
  return {
    name: waiting,
    roundTrips: (count) => pair.roundTrips(count),
    pour: (count) => pair.pour(count),
    rest: () => pair.rest(),
    close: () => pair.close(),
    parks: () => pair.parks,
    ...{ p50: [], p99: [], rate: [] },
  }
}

async function portMode(): Promise<Mode> {
  const worker = new Worker(new URL('./support/port-echo.js', import.meta.url))
  await once(worker, 'message')
  let heard: (answer: { message: number; count: number }) => void = () => {}
  worker.on('message', (answer) => heard(answer))
  const answer = (number: number) =>
    new Promise<number>((resolve, reject) => {
      heard = ({ message, count }) =>
        message === number ? resolve(count) : reject(new Error(`post ${number} came back as ${message}`))
      worker.postMessage(number)
    })
  return {
    name: CONTROL,
    async roundTrips(count) {
      const times = new Float64Array(count)
      for (let trip = 0; trip < count; trip++) {
        const startMs = performance.now()
        await answer(trip)
        times[trip] = (performance.now() - startMs) * 1000
      }
      return times
    },
    async pour(count) {
      const bytes = new Uint8Array(64)
      const startMs = performance.now()
      for (let sent = 0; sent < count - 1; sent++) worker.postMessage(bytes)
      const counted = await answer(count)
      if (counted !== count) throw new Error(`${counted} of ${count} posts came`)
      return (count / (performance.now() - startMs)) * 1000
    },
    rest() {},
    async close() {
      await worker.terminate()
    },
    parks: () => 0,
    ...{ p50: [], p99: [], rate: [] },
  }
}
