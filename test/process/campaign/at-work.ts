import { randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { CapacityError, ClosedError, connect, OrbitError } from '../../../src/client/index.js'
import {
  BLOCK_TOKENS,
  EngineRank,
  keyAt,
  keysNamed,
  memoryBytesOf,
  registrationOf,
  spread,
} from '../../support/engine.js'
import { createPageMemory } from '../../support/page-memory.js'
import { BLOCKS_MAX, CAMPAIGN_SHAPE, NAMES, NAMES_WANTED, versionedSegment, versionOf } from './content.js'
import { Draw } from './draw.js'
import type { Word } from './engine-words.js'

/**
 * An engine process that publishes, asks and restores without end, survives its Managers, and says everything that
 * happens on standard output, a JSON word a line (engine-words.ts). Arguments: socket path, seed, number. SIGTERM lets
 * it leave in order.
 */

const [socketPath, seedText, numberText] = process.argv.slice(2) as [string, string, string]
const draw = new Draw(Number(seedText), 'engine')
/** Versions of different engines never meet. */
const VERSIONS_EACH = 1_000_000
let version = Number(numberText) * VERSIONS_EACH
let leaving = false
let requests = 0

/** Written before anything else happens, and there even when the process is killed in the next instant. */
function say(word: Word): void {
  writeSync(1, `${JSON.stringify(word)}\n`)
}

interface Session {
  readonly epoch: number
  readonly rank: EngineRank
}

/** Connects and registers; null when nobody is there yet, or no longer. */
async function join(): Promise<Session | null> {
  let client: Awaited<ReturnType<typeof connect>>
  try {
    client = await connect({ socketPath, role: 'worker', engine: 'campaign', engineVersion: '1' })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof ClosedError || code === 'ENOENT' || code === 'ECONNREFUSED') return null
    throw error
  }
  const memory = createPageMemory(CAMPAIGN_SHAPE.device, memoryBytesOf(CAMPAIGN_SHAPE))
  const rank = new EngineRank(CAMPAIGN_SHAPE, 0, client, memory)
  try {
    await client.register(registrationOf(CAMPAIGN_SHAPE, 0, memory, randomBytes(16)))
  } catch (error) {
    await leave(rank)
    if (error instanceof ClosedError) return null
    throw error
  }
  return { epoch: client.welcome.managerEpoch, rank }
}

async function leave({ client, memory }: EngineRank): Promise<void> {
  await client.close()
  memory.close()
}

/** Every second choice is among the few that everybody wants: young Managers have hits, too. */
function prefix(): string {
  return `prefix ${draw.below(draw.below(2) === 0 ? NAMES_WANTED : NAMES)}`
}

async function publish({ epoch, rank }: Session): Promise<void> {
  const name = prefix()
  const blocks = 1 + draw.below(BLOCKS_MAX)
  const keys = keysNamed(name, blocks)
  version++
  for (let page = 0; page < blocks; page++) {
    for (let layer = 0; layer < CAMPAIGN_SHAPE.layers; layer++) {
      for (const segment of [0, 1]) {
        rank.segment(layer, segment, page).set(versionedSegment(keyAt(keys, page), version, layer, segment))
      }
    }
  }
  const publication = { epoch, name, blocks, version }
  say({ word: 'begun', ...publication })
  const items = { keys, pages: Uint32Array.from({ length: blocks }, (_, page) => page) }
  await rank.client.publish({ groups: [{ group: 0, layers: null, items }] }, aborting())
  say({ word: 'acknowledged', ...publication })
}

/** One operation in eight is taken back, at once or a moment later. */
function aborting(): { readonly signal?: AbortSignal } {
  if (draw.below(8) !== 0) return {}
  const abort = new AbortController()
  const delayMs = draw.below(3)
  if (delayMs === 0) queueMicrotask(() => abort.abort())
  else setTimeout(() => abort.abort(), delayMs - 1)
  return { signal: abort.signal }
}

async function find({ rank }: Session, keys: Uint8Array) {
  const groups = [{ group: 0, firstBlock: 0, keys }]
  return await rank.client.query({ requestId: ++requests, revision: 0, allowSsd: true, groups })
}

async function restore(session: Session): Promise<void> {
  const { epoch, rank } = session
  const name = prefix()
  const keys = keysNamed(name, BLOCKS_MAX)
  const found = await find(session, keys)
  if (found.kind !== 'ready') return
  const blocks = (found.boundaries[0] ?? 0) / BLOCK_TOKENS
  const pages = spread(blocks, CAMPAIGN_SHAPE.pages)
  rank.poison(pages)
  const pairs = Uint32Array.from(pages.flatMap((page, source) => [source, page]))
  await rank.client.restore({ lease: found.lease, groups: [{ group: 0, pairs }] }, aborting())
  const versions = pages.map((page) => versionOf(rank.segment(0, 0, page)))
  for (const [block, page] of pages.entries()) {
    for (let layer = 0; layer < CAMPAIGN_SHAPE.layers; layer++) {
      for (const segment of [0, 1]) {
        const expected = versionedSegment(keyAt(keys, block), versions[block] as number, layer, segment)
        if (!expected.equals(rank.segment(layer, segment, page)))
          say({ word: 'wrong', what: `${name}/${block}: layer ${layer}, segment ${segment} under ${epoch}` })
      }
    }
  }
  if (!rank.guardsIntact(pages)) say({ word: 'wrong', what: `${name}: a restore wrote outside its pages` })
  say({ word: 'restored', epoch, name, versions })
}

async function toSsd({ rank }: Session): Promise<void> {
  await rank.client.sync(true)
  await rank.client.dropDram()
}

async function never(session: Session): Promise<void> {
  const found = await find(session, keysNamed(`never ${draw.below(1_000)}`, 2))
  if (found.kind === 'ready')
    say({ word: 'wrong', what: `a hit of keys that nobody published, under ${session.epoch}` })
}

const STEPS = [publish, publish, publish, publish, restore, restore, restore, restore, toSsd, never] as const

/** Works until the Manager ends or this process shall; says how a Manager ended. */
async function work(session: Session): Promise<void> {
  while (!leaving) {
    try {
      await draw.pick(STEPS)(session)
      say({ word: 'step' })
    } catch (error) {
      if (error instanceof ClosedError) return say({ word: 'off', code: error.code })
      const expected = error instanceof CapacityError || (error instanceof OrbitError && error.code === 'cancelled')
      if (!expected) throw error
    }
    await pause(draw.below(4))
  }
}

const JOIN_EVERY_MS = 10

async function main(): Promise<void> {
  process.on('SIGTERM', () => {
    leaving = true
  })
  say({ word: 'there' })
  while (!leaving) {
    const session = await join()
    if (session === null) await pause(JOIN_EVERY_MS)
    else {
      say({ word: 'on', epoch: session.epoch })
      await work(session)
      await leave(session.rank)
    }
  }
}

main().catch((error: unknown) => {
  say({ word: 'failed', error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  process.exit(1)
})
