import { writeSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads from 'node:worker_threads'

/**
 * Loaded into a Manager process before anything else (NODE_OPTIONS=--import), in every thread of it: ends one lane the
 * way that the environment says, so that the Manager under test is the shipped one. A lane's work is counted in its
 * stores to shared words, of which every batch of messages that it takes or gives needs some.
 */

/** How a lane dies. `throw`: in the middle of its work; `exit`: its thread leaves; `terminate`: its thread is ended by
 * another; `heap`: its JavaScript heap is full. */
export const DEATH_KINDS = ['throw', 'exit', 'terminate', 'heap'] as const
export type DeathKind = (typeof DEATH_KINDS)[number]

export interface PlannedDeath {
  readonly lane: string
  readonly kind: DeathKind
  /** Stores to shared words that the lane still does. */
  readonly afterStores: number
}

export const DEATH_VARIABLE = 'ORBITKV_PLANNED_DEATH'
/** What stands before the time of death, in nanoseconds of CLOCK_MONOTONIC, on standard error. */
export const DEATH_WORD = 'planned death at '
/** Small enough to be filled at once. */
const HEAP_MIB_MAX = 24

interface Bearer {
  readonly seat?: { readonly name?: string }
}

const planText = process.env[DEATH_VARIABLE]
if (planText !== undefined) plan(JSON.parse(planText) as PlannedDeath)

function plan({ lane, kind, afterStores }: PlannedDeath): void {
  if (workerThreads.isMainThread) watchWorkers(lane, kind)
  else if ((workerThreads.workerData as Bearer | null)?.seat?.name === lane) dieAfter(kind, afterStores)
}

/** In the lane: the store after the last one is its end. */
function dieAfter(kind: DeathKind, afterStores: number): void {
  const { store } = Atomics
  let left = afterStores
  Atomics.store = ((words: Int32Array, index: number, value: number) => {
    if (left-- === 0) die(kind)
    return store(words, index, value)
  }) as typeof Atomics.store
}

function die(kind: DeathKind): void {
  writeSync(2, `${DEATH_WORD}${process.hrtime.bigint()}\n`)
  if (kind === 'throw') throw new Error('planned death')
  if (kind === 'exit') process.exit(3)
  if (kind === 'terminate') workerThreads.parentPort?.postMessage('end me')
  const heap: unknown[] = []
  while (kind === 'heap') heap.push(new Array(10_000).fill(heap.length))
}

/** In main: the lane's small heap, and the one who ends its thread. */
function watchWorkers(lane: string, kind: DeathKind): void {
  const { Worker } = workerThreads
  workerThreads.Worker = class extends Worker {
    constructor(entry: URL, options: workerThreads.WorkerOptions) {
      const planned = (options.workerData as Bearer).seat?.name === lane
      const small = { resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX } }
      super(entry, planned && kind === 'heap' ? { ...options, ...small } : options)
      if (planned && kind === 'terminate') {
        this.on('message', (message) => {
          if (message === 'end me') void this.terminate()
        })
      }
    }
  } as typeof Worker
  syncBuiltinESMExports()
}
