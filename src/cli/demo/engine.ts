import { createInterface } from 'node:readline'
import { connect, type OrbitClient } from '../../client/index.js'
import { OrbitError } from '../../shared/base/errors.js'
import { HEAD_DIM } from './content.js'
import { Oracle } from './oracle.js'
import { createPages, type Pages } from './pages.js'
import type { EngineCommand, EngineEvent, EngineParams, RequestResult } from './protocol.js'

/**
 * A stand-in for an inference engine, without the model: it owns pages, asks for cached prefixes, has them restored,
 * holds every byte to its oracle, "computes" what is missing and publishes it. One process, one rank.
 */
class DemoEngine {
  readonly #params: EngineParams
  readonly #pages: Pages
  readonly #worker: OrbitClient
  readonly #scheduler: OrbitClient

  private constructor(params: EngineParams, pages: Pages, worker: OrbitClient, scheduler: OrbitClient) {
    this.#params = params
    this.#pages = pages
    this.#worker = worker
    this.#scheduler = scheduler
  }

  /** Registers one rank whose layers lie one after the other, K and V of a layer apart. */
  static async start(params: EngineParams): Promise<DemoEngine> {
    const { socketPath, layers, segmentBytes, pages, name } = params
    const instanceId = Buffer.from(params.instanceId, 'hex')
    const memory = createPages(params.device, layers * 2 * segmentBytes * pages)
    const greeting = { socketPath, engine: name, engineVersion: '1' }
    const worker = await connect({ ...greeting, role: 'worker' })
    await worker.register({
      instanceId,
      namespaceInputs: new Map([['model', Buffer.from('orbitkv demo')]]),
      tpRank: 0,
      tpSize: 1,
      ppRank: 0,
      ppSize: 1,
      worldSize: 1,
      pageFirst: false,
      device: memory.device,
      groups: [{ id: 0, kind: 'full-attention', blockTokens: 64, window: 0 }],
      regions: Array.from({ length: layers }, (_, layer) => ({
        layer: `layer.${String(layer).padStart(3, '0')}`,
        group: 0,
        allocation: 0,
        offsetBytes: layer * 2 * segmentBytes * pages,
        pageCount: pages,
        pageStrideBytes: segmentBytes,
        segments: 2 as const,
        segmentBytes,
        segmentStrideBytes: segmentBytes * pages,
        dtype: 'bfloat16',
        kvRole: 'packed' as const,
        headDim: HEAD_DIM,
        heads: 8,
      })),
      memory: [memory.memory],
      slotCount: 16,
    })
    const scheduler = await connect({ ...greeting, role: 'scheduler' })
    await scheduler.attach(instanceId)
    return new DemoEngine(params, memory, worker, scheduler)
  }

  async sync(): Promise<void> {
    await this.#worker.sync(true)
  }

  async stop(): Promise<void> {
    await this.#scheduler.close()
    await this.#worker.close()
    this.#pages.close()
  }

  async request(id: number, blocks: readonly Buffer[], hanging: () => void = () => {}): Promise<RequestResult> {
    const oracle = new Oracle(this.#params.codec, this.#params.layers)
    const startedUs = performance.now() * 1000
    const keys = Buffer.concat(blocks)
    const answer = await this.#scheduler.query({
      requestId: id,
      revision: 0,
      allowSsd: true,
      groups: [{ group: 0, firstBlock: 0, keys }],
    })
    const hits = answer.kind === 'ready' ? (answer.boundaries[0] ?? 0) / 64 : 0
    let restored = 0
    let restoreUs = 0
    let mismatches = 0
    if (answer.kind === 'ready' && hits > 0) {
      this.#poison(hits)
      const pairs = Uint32Array.from({ length: 2 * hits }, (_, i) => i >> 1)
      try {
        const restore = this.#worker.restore({ lease: answer.lease, groups: [{ group: 0, pairs }] })
        hanging()
        await restore
        restored = hits
        restoreUs = performance.now() * 1000 - startedUs
        mismatches = this.#mismatches(blocks, hits, oracle)
      } catch (error) {
        if (!(error instanceof OrbitError)) throw error
      }
    }
    const publishedBlocks = await this.#computeAndPublish(blocks, restored, oracle)
    const ready = answer.kind === 'ready' && restored > 0 ? answer : { blocksDram: 0, blocksSsd: 0 }
    return {
      id,
      blocks: blocks.length,
      fromDram: ready.blocksDram,
      fromSsd: ready.blocksSsd,
      missed: blocks.length - restored,
      mismatches,
      restoredBytes: restored * this.#blockBytes,
      restoreUs,
      restoreFailures: hits - restored,
      publishedBlocks,
      deviation: oracle.sums,
    }
  }

  get #blockBytes(): number {
    return this.#params.layers * 2 * this.#params.segmentBytes
  }

  *#segments(page: number): IterableIterator<{ layer: number; part: 0 | 1; at: number }> {
    const { layers, segmentBytes, pages } = this.#params
    for (let layer = 0; layer < layers; layer++) {
      for (const part of [0, 1] as const) yield { layer, part, at: ((layer * 2 + part) * pages + page) * segmentBytes }
    }
  }

  /** A byte that the restore does not write must not look right by chance. */
  #poison(pages: number): void {
    const poison = new Uint8Array(this.#params.segmentBytes).fill(0xa5)
    for (let page = 0; page < pages; page++) for (const { at } of this.#segments(page)) this.#pages.write(at, poison)
  }

  #mismatches(blocks: readonly Buffer[], hits: number, oracle: Oracle): number {
    const { segmentBytes } = this.#params
    let wrong = 0
    for (let page = 0; page < hits; page++) {
      const key = blocks[page] as Buffer
      let right = true
      for (const { layer, part, at } of this.#segments(page)) {
        const published = oracle.content(key, layer, part, segmentBytes)
        right = oracle.accepts(layer, part, published, this.#pages.read(at, segmentBytes)) && right
      }
      if (!right) wrong++
    }
    return wrong
  }

  async #computeAndPublish(blocks: readonly Buffer[], from: number, oracle: Oracle): Promise<number> {
    if (from === blocks.length) return 0
    for (let page = from; page < blocks.length; page++) {
      for (const { layer, part, at } of this.#segments(page)) {
        this.#pages.write(at, oracle.content(blocks[page] as Buffer, layer, part, this.#params.segmentBytes))
      }
    }
    const pages = Uint32Array.from({ length: blocks.length - from }, (_, i) => from + i)
    const items = { keys: Buffer.concat(blocks.slice(from)), pages }
    const { accepted } = await this.#worker.publish({
      partialOk: true,
      groups: [{ group: 0, layers: null, items }],
    })
    return accepted
  }
}

function say(event: EngineEvent): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

/** Runs until `stop` or the end of standard input. */
export async function runEngine(params: EngineParams): Promise<void> {
  const engine = await DemoEngine.start(params)
  say({ event: 'ready' })
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line) as EngineCommand
    if (command.op === 'stop') break
    if (command.op === 'sync') {
      await engine.sync()
      say({ event: 'synced' })
      continue
    }
    const keys = command.blocks.map((key) => Buffer.from(key, 'hex'))
    const hang = command.op === 'hang'
    const result = await engine.request(command.id, keys, () => {
      if (!hang) return
      say({ event: 'restoring', id: command.id })
      // Like an engine that is stopped in the middle: nothing of this process runs any more until it is killed.
      process.kill(process.pid, 'SIGSTOP')
    })
    say({ event: 'done', ...result })
  }
  await engine.stop()
}

const argument = process.argv[2]
if (argument !== undefined && process.argv[1]?.endsWith('engine.js') === true) {
  runEngine(JSON.parse(argument) as EngineParams).catch((error: unknown) => {
    say({ event: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    process.exitCode = 1
  })
}
