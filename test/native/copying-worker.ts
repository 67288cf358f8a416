import { parentPort, workerData } from 'node:worker_threads'
import { loadNative } from '../../src/binding/load.js'
import { NativeLane } from './open-lane.js'

/** Queues copies and checksums without an end, and is terminated in the middle of it. */
const { template } = workerData as { template: number }
const lane = new NativeLane(loadNative(), 2 << 20)
const copies = Float64Array.of(template, 0, 0, 0, 0, 1, 0, template, 1, 1, 500_000, 0, 1, 0)
const sums = Float64Array.of(0, 250_368, 250_001, 250_368)
for (let tag = 0; ; tag++) {
  lane.port.copy(lane.stream, tag & 0xffff, 1, copies, 0, 2)
  lane.port.checksum(lane.stream, tag & 0xffff, sums, 0, 1, tag % 4096)
  if (tag === 200) parentPort?.postMessage('copying')
  if (tag > 200) lane.pending()
}
