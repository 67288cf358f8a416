import { parentPort } from 'node:worker_threads'

/** The far end of the MessagePort control: an empty post asks for nothing, a number for an answer. */
let count = 0
parentPort?.on('message', (message: Uint8Array | number) => {
  count++
  if (typeof message === 'number') {
    parentPort?.postMessage({ message, count })
    count = 0
  }
})
parentPort?.postMessage('ready')
