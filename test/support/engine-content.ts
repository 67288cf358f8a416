import { createHash } from 'node:crypto'
import type { Runtime } from '../../src/embedded/runtime.js'
import type { Engine, OrbitKV } from '../../src/index.js'

/** What the engines of the embedded runtime's tests hold, save and compare. */

/** A small engine: pages of 2 layers, K and V of 4 KiB. */
export const SMALL = { model: 'test', layers: 2, pages: 16, segmentBytes: 4096 } as const

/** Keys of `count` blocks. */
export function keysOf(name: string, count: number): Buffer[] {
  return Array.from({ length: count }, (_, block) => createHash('sha256').update(`${name} ${block}`).digest())
}

/** Bytes that are different in every segment of every block. */
export function contentOf(block: number, segment: number, bytes: number): Buffer {
  return Buffer.alloc(bytes, `block ${block} segment ${segment}; `)
}

/** Writes the content of block i into `pages[i]`. */
export function compute(engine: Engine, pages: readonly number[]): void {
  for (const [block, page] of pages.entries()) {
    for (const [i, segment] of engine.segments(page).entries()) segment.set(contentOf(block, i, segment.length))
  }
}

/** Blocks whose bytes do not stand in `pages[i]`. */
export function wrongBlocks(engine: Engine, pages: readonly number[]): number[] {
  return pages.flatMap((page, block) =>
    engine.segments(page).every((segment, i) => contentOf(block, i, segment.length).equals(segment)) ? [] : [block],
  )
}

/** Publishes every page, with its content, and leaves it on SSD alone. */
export async function saveToSsd(
  kv: Pick<OrbitKV, 'sync' | 'dropDram'>,
  engine: Engine,
  keys: readonly Buffer[],
): Promise<void> {
  const pages = keys.map((_, page) => page)
  compute(engine, pages)
  await engine.publish(keys, pages)
  await kv.sync({ ssd: true })
  await kv.dropDram()
  engine.bytes.fill(0xa5)
}

/** One metric of the Prometheus text, summed over its labels. */
export async function metricOf(kv: OrbitKV, name: string): Promise<number> {
  const text = await kv.metrics()
  const lines = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** Ends the thread of a lane, as a bug of its would. */
export function killLane(runtime: Runtime, name: string): void {
  const { lanes } = runtime.manager as unknown as {
    lanes: readonly { name: string; worker: { terminate(): Promise<number> } }[]
  }
  const lane = lanes.find((each) => each.name === name)
  if (lane === undefined) throw new Error(`no lane ${name}`)
  void lane.worker.terminate()
}
