import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { createControl } from '../../../src/shared/rings/control.js'
import { createRing } from '../../../src/shared/rings/ring.js'
import { type BatonReport, createBaton, reportOf } from './baton.js'
import type { ThreadInput } from './thread.js'

/** Two lanes on threads of their own, joined by rings of two records, under the baton of a seed. */
export async function runPair(seed: number, records: number, twin: ThreadInput['twin'] = 'none'): Promise<BatonReport> {
  const baton = createBaton(seed)
  const sizes = { capacity: 2, arenaDoubles: 8 }
  const rings = [createRing(sizes), createRing(sizes)] as const
  const controls = [createControl(), createControl()] as const
  const threads = ([0, 1] as const).map((thread) => {
    const workerData: ThreadInput = { thread, baton, rings, controls, records, twin }
    return new Worker(new URL('./thread.js', import.meta.url), { workerData })
  })
  // A thread that throws rejects; the other then finds the run over and ends.
  await Promise.all(threads.map((thread) => once(thread, 'exit')))
  return reportOf(baton)
}
