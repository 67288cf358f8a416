import { readFileSync } from 'node:fs'
import { ConfigError } from '../../shared/base/errors.js'

/** One request of an engine: its prompt as the names of its blocks, first to last. */
export interface DemoRequest {
  readonly blocks: readonly string[]
}

/** A small generator of repeatable numbers (mulberry32); the demo's workload is the same on every machine. */
export function seededNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** How the demo's own workload is drawn. */
export interface WorkloadShape {
  readonly seed: number
  readonly prefixes: number
  readonly blocksPerPrefix: number
  readonly requests: number
}

/**
 * The demo's own workload: every prefix once, so that it is published, then prefixes drawn evenly: with DRAM much
 * smaller than all of them together, most of those are on the SSD by then.
 */
export function drawWorkload(shape: WorkloadShape): DemoRequest[] {
  const random = seededNumbers(shape.seed)
  const requestOf = (prefix: number): DemoRequest => ({
    blocks: Array.from({ length: shape.blocksPerPrefix }, (_, block) => `${shape.seed}/${prefix}/${block}`),
  })
  const first = Array.from({ length: shape.prefixes }, (_, prefix) => requestOf(prefix))
  const later = Array.from({ length: Math.max(0, shape.requests - shape.prefixes) }, () =>
    requestOf(Math.floor(random() * shape.prefixes)),
  )
  return [...first, ...later]
}

/**
 * Reads a trace of the public Mooncake format: one JSON object a line, `hash_ids` are its prefix blocks in order.
 * Timestamps are ignored: the demo replays in a closed loop.
 * @throws ConfigError config_bad_value naming the line that is not of the format.
 */
export function readTrace(path: string, limit: number): DemoRequest[] {
  const requests: DemoRequest[] = []
  for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
    if (requests.length >= limit) break
    if (line.trim() === '') continue
    const ids = hashIds(line)
    if (ids === null) {
      throw new ConfigError(
        'config_bad_value',
        `Cannot read ${path}: line ${index + 1} is not {"hash_ids": [numbers]} as JSON`,
        { path, line: index + 1 },
      )
    }
    if (ids.length > 0) requests.push({ blocks: ids.map((id) => `trace/${id}`) })
  }
  return requests
}

function hashIds(line: string): number[] | null {
  try {
    const { hash_ids: ids } = JSON.parse(line) as { hash_ids?: unknown }
    return Array.isArray(ids) && ids.every((id) => Number.isSafeInteger(id)) ? (ids as number[]) : null
  } catch {
    return null
  }
}
