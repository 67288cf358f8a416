import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { OrbitError, type RemoteOrbitKV, wrapOrbitKV } from '../../src/index.js'
import { compute, keysOf, SMALL, saveToSsd, wrongBlocks } from './engine-content.js'

/** An engine on a thread of its own, for the tests of the embedded runtime. */

export interface EngineWorkerInput {
  readonly port: MessagePort
  readonly mode: keyof typeof MODES
  /** Where its pages lie; null: native memory. */
  readonly memory: SharedArrayBuffer | null
}

const pages = Array.from({ length: SMALL.pages }, (_, page) => page)
const keys = keysOf('across threads', SMALL.pages)

const MODES = {
  async save(kv: RemoteOrbitKV, memory: SharedArrayBuffer | null) {
    const engine = await kv.register({ ...SMALL, memory: memory ?? 'native' })
    await saveToSsd(kv, engine, keys)
    return { saved: keys.length, sessions: (await kv.stats())['sessions'] }
  },
  async restore(kv: RemoteOrbitKV, memory: SharedArrayBuffer | null) {
    const engine = await kv.register({ ...SMALL, memory: memory ?? 'native' })
    const found = await engine.query(keys)
    const { bytes } = await engine.restore(found, pages)
    return { bytes, fromSsd: found.blocksSsd, wrong: wrongBlocks(engine, pages) }
  },
  /** Owns pages when it is terminated. */
  async hang(kv: RemoteOrbitKV, memory: SharedArrayBuffer | null) {
    const engine = await kv.register({ ...SMALL, memory: memory ?? 'native' })
    const never = new Promise(() => {})
    compute(engine, [0])
    engine.restore(await engine.query(keys), pages, { after: never }).catch(() => {})
    parentPort?.postMessage({ restoring: true })
    await never
    return {}
  },
  /** What goes wrong over the port keeps its class and code. */
  async refused(kv: RemoteOrbitKV) {
    const text = await kv.metrics()
    const { status } = await kv.health()
    const error = await kv.register({ ...SMALL, pages: 2 ** 25, segmentBytes: 1 }).catch((reason: unknown) => reason)
    const code = error instanceof OrbitError ? error.code : String(error)
    const dropped = Object.keys(await kv.dropDram()).length
    return { status, metrics: text.includes('orbitkv_build_info'), code, class: (error as Error).name, dropped }
  },
  /** Closes the runtime from here, and sees it closed. */
  async drain(kv: RemoteOrbitKV) {
    await kv.drain()
    const after = await kv.stats().catch((reason: unknown) => (reason as { code?: string }).code)
    return { after }
  },
} as const

async function run(input: EngineWorkerInput): Promise<void> {
  const kv = wrapOrbitKV(input.port)
  parentPort?.postMessage(await MODES[input.mode](kv, input.memory))
  await kv.close()
}

if (workerData !== null) void run(workerData as EngineWorkerInput)
