import { createInterface } from 'node:readline'
import { connect, createEngineMemory, type EngineMemory, type OrbitClient } from '../../client/index.js'
import { OrbitError } from '../../shared/base/errors.js'
import { segmentContent } from './content.js'
import type { EngineCommand, EngineEvent, EngineParams, RequestResult } from './protocol.js'

/**
 * A stand-in for an inference engine, without the model: it owns pages, asks for cached prefixes, has them restored,
 * compares every byte, "computes" what is missing and publishes it. One process, one rank.
 */
class DemoEngine {
  readonly #params: EngineParams
  readonly #memory: EngineMemory
  readonly #worker: OrbitClient
  readonly #scheduler: OrbitClient

  private constructor(params: EngineParams, memory: EngineMemory, worker: OrbitClient, scheduler: OrbitClient) {
    this.#params = params
    this.#memory = memory
    this.#worker = worker
    this.#scheduler = scheduler
  }

  /** Registers one rank whose layers lie one after the other, K and V of a layer apart. */
  static async start(params: EngineParams): Promise<DemoEngine> {
    const { socketPath, layers, segmentBytes, pages, name } = params
    const instanceId = Buffer.from(params.instanceId, 'hex')
    const memory = createEngineMemory(layers * 2 * segmentBytes * pages)
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
      device: { kind: 'host', uuid: new Uint8Array(16) },
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
        headDim: 128,
        heads: 8,
      })),
      memory: [memory],
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
    this.#memory.close()
  }

  async request(id: number, blocks: readonly Buffer[], hanging: () => void = () => {}): Promise<RequestResult> {
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
        mismatches = this.#mismatches(blocks, hits)
      } catch (error) {
        if (!(error instanceof OrbitError)) throw error
      }
    }
    const publishedBlocks = await this.#computeAndPublish(blocks, restored)
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
    }
  }

  get #blockBytes(): number {
    return this.#params.layers * 2 * this.#params.segmentBytes
  }

  /** The bytes of one segment of one page. */
  #segment(layer: number, part: 0 | 1, page: number): Uint8Array {
    const { segmentBytes, pages } = this.#params
    const at = ((layer * 2 + part) * pages + page) * segmentBytes
    return this.#memory.view.subarray(at, at + segmentBytes)
  }

  *#segments(page: number): IterableIterator<{ layer: number; part: 0 | 1; bytes: Uint8Array }> {
    for (let layer = 0; layer < this.#params.layers; layer++) {
      for (const part of [0, 1] as const) yield { layer, part, bytes: this.#segment(layer, part, page) }
    }
  }

  /** A byte that the restore does not write must not look right by chance. */
  #poison(pages: number): void {
    for (let page = 0; page < pages; page++) for (const { bytes } of this.#segments(page)) bytes.fill(0xa5)
  }

  #mismatches(blocks: readonly Buffer[], hits: number): number {
    let wrong = 0
    for (let page = 0; page < hits; page++) {
      const key = blocks[page] as Buffer
      let right = true
      for (const { layer, part, bytes } of this.#segments(page)) {
        right = segmentContent(key, layer, part, bytes.length).equals(bytes) && right
      }
      if (!right) wrong++
    }
    return wrong
  }

  async #computeAndPublish(blocks: readonly Buffer[], from: number): Promise<number> {
    if (from === blocks.length) return 0
    for (let page = from; page < blocks.length; page++) {
      for (const { layer, part, bytes } of this.#segments(page)) {
        bytes.set(segmentContent(blocks[page] as Buffer, layer, part, bytes.length))
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
