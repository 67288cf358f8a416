import { createInterface } from 'node:readline'
import { ClosedError } from '../../src/client/index.js'
import { type EngineShape, keysNamed, TestEngine } from './engine.js'

/**
 * A TestEngine in a process of its own, for tests that kill it. Takes one JSON command a line on standard input and
 * answers each with one JSON line: see EngineChild.
 */

export type EngineCommand =
  | {
      readonly op: 'publish' | 'to-ssd' | 'hits' | 'restore' | 'fenced-restore' | 'fenced-publish' | 'restore-apart'
      readonly name: string
      readonly count: number
    }
  /** Publishes, queries and restores without end; answered once at its beginning. */
  | { readonly op: 'work'; readonly name: string; readonly count: number }

const NEVER = new Promise<never>(() => {})

async function answer(engine: TestEngine, { op, name, count }: EngineCommand): Promise<number> {
  const keys = keysNamed(name, count)
  switch (op) {
    case 'publish':
      return (await engine.publish(keys))[0]?.accepted ?? -1
    case 'to-ssd':
      await engine.toSsd()
      return 0
    case 'hits':
      return await engine.hits(keys)
    case 'restore': {
      const found = await engine.find(keys)
      return found.kind === 'ready' ? await engine.restore(keys, found.lease) : -1
    }
    case 'fenced-restore': {
      const found = await engine.find(keys)
      if (found.kind !== 'ready') return -1
      const pairs = Uint32Array.from({ length: 2 * count }, (_, i) => i >> 1)
      void engine.rank.client.restore({ lease: found.lease, groups: [{ group: 0, pairs }] }, { after: NEVER })
      return (await engine.rank.client.inspect('')).get('operationsOpen') ?? -1
    }
    case 'restore-apart': {
      const found = await engine.find(keys)
      if (found.kind !== 'ready') return -1
      const pairs = Uint32Array.from({ length: count & ~1 }, (_, i) => (i % 2 === 0 ? i : i >> 1))
      void engine.rank.client.restore({ lease: found.lease, groups: [{ group: 0, pairs }] })
      return (await engine.rank.client.inspect('')).get('operationsOpen') ?? -1
    }
    case 'fenced-publish': {
      const items = { keys, pages: Uint32Array.from({ length: count }, (_, page) => page) }
      void engine.rank.client.publish({ groups: [{ group: 0, layers: null, items }] }, { after: NEVER })
      return (await engine.rank.client.inspect('')).get('operationsOpen') ?? -1
    }
    case 'work':
      void work(engine, name, count).catch(endOfWork)
      return 0
  }
}

async function work(engine: TestEngine, name: string, count: number): Promise<void> {
  for (let round = 0; ; round++) {
    const keys = keysNamed(`${name} ${round % 8}`, count)
    const found = await engine.find(keys)
    if (found.kind === 'ready' && found.boundaries[0] === count * 16) {
      if ((await engine.restore(keys, found.lease)) > 0) throw new Error('a restore brought wrong bytes')
    } else await engine.publish(keys)
  }
}

/** A Manager that drains or has gone ends the work; anything else is a failure of the test. */
function endOfWork(error: unknown): void {
  if (error instanceof ClosedError) process.exit(0)
  console.error(error)
  process.exit(1)
}

async function main(): Promise<void> {
  const [socketPath, shape] = process.argv.slice(2)
  const engine = await TestEngine.start(socketPath as string, JSON.parse(shape as string) as Partial<EngineShape>)
  console.log(JSON.stringify({ result: 0 }))
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify({ result: await answer(engine, JSON.parse(line) as EngineCommand) }))
  }
  await engine.stop()
}

main().catch((error: unknown) => {
  console.log(JSON.stringify({ error: error instanceof Error ? error.stack : String(error) }))
  process.exit(1)
})
