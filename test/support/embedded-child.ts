import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadNative } from '../../src/binding/load.js'
import { connect, createEngineMemory } from '../../src/client/index.js'
import { Runtime } from '../../src/embedded/runtime.js'
import { OrbitError, OrbitKV } from '../../src/index.js'
import { MIB } from '../../src/shared/base/units.js'
import { collect } from './collect.js'
import { keysOf, killLane, SMALL, saveToSsd } from './engine-content.js'
import { HOST_IO } from './host-io.js'

/** Processes that the tests of the embedded runtime start: node embedded-child.js MODE FOLDER [COUNT]. Each says JSON lines. */

const [mode = '', folder = '', count = '20'] = process.argv.slice(2)
const pages = Array.from({ length: SMALL.pages }, (_, page) => page)

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function openHere(options: Partial<Parameters<typeof OrbitKV.open>[0]> = {}) {
  return OrbitKV.open({
    poolBytes: 16 * MIB,
    io: HOST_IO,
    ssd: { paths: [join(folder, 'kv.dat')], capacityBytes: 32 * MIB },
    readRoute: 'uring',
    ...options,
  })
}

const LOOK_MS = 10
const STILL_LOOKS = 20
const SETTLE_MS = 60_000

function census() {
  const threads = /Threads:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return {
    fds: readdirSync('/proc/self/fd').length,
    threads: Number(threads),
    mappings: loadNative().mappingsAlive(),
    timers: process.getActiveResourcesInfo().filter((name) => name !== 'PipeWrap' && name !== 'TTYWrap'),
    exitListeners: process.listenerCount('exit'),
  }
}

type Census = ReturnType<typeof census>

/** What is left once nothing has changed for a while: the kernel counts an ended thread a little longer. */
async function atRest(): Promise<Census> {
  let last = census()
  for (let looks = 0; looks < STILL_LOOKS; looks++) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    const now = census()
    if (now.threads !== last.threads || now.fds !== last.fds) looks = 0
    last = now
  }
  return last
}

/** What is left once it is no more than before, or when that has not come. */
async function leftAfter(before: Census): Promise<Census> {
  for (const endMs = performance.now() + SETTLE_MS; ; ) {
    const now = census()
    if ((now.threads <= before.threads && now.fds <= before.fds) || performance.now() > endMs) return now
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

/** One life of a runtime with engines in both kinds of memory, one of them left open. */
async function cycle(name: string): Promise<void> {
  const kv = await openHere()
  const native = await kv.register(SMALL)
  const shared = await kv.register({ ...SMALL, memory: new SharedArrayBuffer(native.layout.bytes) })
  const keys = keysOf(name, SMALL.pages)
  await saveToSsd(kv, native, keys)
  const found = await shared.query(keys)
  await shared.restore(found, pages)
  await shared.close()
  const { unfinished, leaks } = await kv.close()
  if (unfinished !== 0 || Object.keys(leaks).length > 0) throw new Error(JSON.stringify({ unfinished, leaks }))
}

const MODES: Readonly<Record<string, () => Promise<void>>> = {
  /** Counts what is open before and after COUNT lives. */
  async cycles() {
    // The first lives load code, start the thread pool and grow tables that stay.
    for (let i = 0; i < 2; i++) await cycle(`warm ${i}`)
    await collect()
    const before = await atRest()
    for (let i = 0; i < Number(count); i++) await cycle(`life ${i}`)
    await collect()
    say({ before, after: await leftAfter(before) })
  },

  /** Ends itself amid restores, without closing anything. */
  async exit() {
    const kv = await openHere()
    const engine = await kv.register({ ...SMALL, memory: new SharedArrayBuffer(2 * 2 * 16 * 4096) })
    const keys = keysOf('exit', SMALL.pages)
    await saveToSsd(kv, engine, keys)
    const restores = []
    for (let i = 0; i < 8; i++) restores.push(engine.restore(await engine.query(keys), pages.slice(i, i + 8)))
    void Promise.allSettled(restores)
    say({ restoring: restores.length })
    process.exit(7)
  },

  /** A lane dies and nobody said what then. */
  async death() {
    const runtime = await Runtime.open({ poolBytes: 16 * MIB, io: HOST_IO })
    killLane(runtime, 'dram-worker')
    await new Promise(() => {})
  },

  /** An engine of another process that names memory of the Manager's process: number FOLDER is the socket here. */
  async foreign() {
    const client = await connect({ socketPath: folder, role: 'worker', engine: 'foreign', engineVersion: '1' })
    const memory = createEngineMemory(4096)
    const registration = {
      instanceId: new Uint8Array(16).fill(1),
      namespaceInputs: new Map(),
      tpRank: 0,
      tpSize: 1,
      ppRank: 0,
      ppSize: 1,
      worldSize: 1,
      pageFirst: false,
      device: { kind: 'host', uuid: new Uint8Array(16) },
      groups: [{ id: 0, kind: 'full-attention', blockTokens: 16, window: 0 }],
      regions: [REGION],
      slotCount: 1,
    } as const
    for (let mapping = 0; mapping < 32; mapping++) {
      await client.register({ ...registration, memory: [{ mapping, bytes: 4096 }] }).catch((error: unknown) => {
        say({ mapping, code: error instanceof OrbitError ? error.code : String(error) })
      })
    }
    await client.register({ ...registration, memory: [memory] })
    say({ registered: 'by descriptor' })
    await client.close()
  },
}

const REGION = {
  layer: 'layer',
  group: 0,
  allocation: 0,
  offsetBytes: 0,
  pageCount: 1,
  pageStrideBytes: 4096,
  segments: 1,
  segmentBytes: 4096,
  segmentStrideBytes: 4096,
  dtype: 'bfloat16',
  kvRole: 'latent',
  headDim: 0,
  heads: 0,
} as const

await MODES[mode]?.()
