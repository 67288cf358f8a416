import { parentPort, workerData } from 'node:worker_threads'
import { loadNative } from '../../src/binding/load.js'
import { BATCH, type FarEnd, LAST, PairEnd, PING, POUR, REST, STOP } from './ping-pong.js'

/** The far end of a PingPong: answers, counts, or rests. */
function main(): void {
  const end = new PairEnd(loadNative(), workerData as FarEnd)
  const { consumer, record } = end
  let expected = 0
  let resting = true
  parentPort?.postMessage('ready')
  for (;;) {
    end.await(resting ? 'park-js' : undefined)
    resting = false
    let answer = false
    for (let taken = 0; taken < BATCH && consumer.take(record); taken++) {
      if (record.kind === STOP) return end.close()
      if (record.kind === REST) resting = true
      if (record.kind === PING || record.kind === LAST) answer = true
      if (record.kind === POUR || record.kind === LAST) {
        if (record.tag !== expected) throw new Error(`record ${expected} came as ${record.tag}`)
        expected = record.kind === LAST ? 0 : expected + 1
      }
    }
    consumer.release()
    if (answer) end.send(record.kind, record.tag)
  }
}

main()
