import { readFileSync } from 'node:fs'
import anyTest, { type ExecutionContext, type TestFn } from 'ava'
import type { OrbitError } from '../../src/client/index.js'
import { BLOCK_TOKENS, keysNamed, TestEngine } from '../support/engine.js'
import { EngineChild } from '../support/engine-child.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'

/**
 * What the verbs promise across processes. One Manager on the explicit route serves all tests of this file, each with a
 * namespace of its own and back at rest behind it; those that need other flags, or end the Manager, start their own.
 */

const test = anyTest as TestFn<{ manager: ManagerChild }>
const NEVER = new Promise<never>(() => {})
const LEASE_MS = 400

const atTheEnd: (() => unknown)[] = []
let shared: ManagerChild

test.before(async (t) => {
  const teardown = (run: () => unknown) => void atTheEnd.push(run)
  shared = await ManagerChild.start(
    { teardown },
    {
      folder: folderOf({ teardown } as unknown as ExecutionContext),
      flags: ['--ssd-read-path', 'uring'],
    },
  )
  t.true(shared.running)
})
test.afterEach(async () => await shared.atRest())
test.after('the Manager of this file drains and exits with 0', async (t) => await endsClean(t as never, shared))
test.after.always(async () => {
  for (const run of atTheEnd.reverse()) await run()
})

/** How many memfds of engines and slots a Manager has mapped. */
function mapped(manager: ManagerChild): number {
  return [...readFileSync(`/proc/${manager.pid}/maps`, 'utf8').matchAll(/memfd:/g)].length
}

const engineOf = (t: ExecutionContext, parts = {}) => TestEngine.start(shared.socketPath, { salt: t.title, ...parts })

async function ready(engine: TestEngine, keys: Uint8Array) {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

test.serial('V1: a publication by layers is findable only when its last layer came', async (t) => {
  const engine = await engineOf(t)
  const keys = keysNamed(t.title, 5)
  t.is((await engine.publishLayers(engine.rank, keys, [0, 2])).accepted, 5)
  t.is(await engine.hits(keys), 0)
  await engine.publishLayers(engine.rank, keys, [1])
  t.is(await engine.hits(keys), 5)
  const { lease } = await ready(engine, keys)
  t.is(await engine.restore(keys, lease), 0)
  await engine.stop()
})

test.serial('a page-first publication with missing layers is refused and leaves nothing', async (t) => {
  const engine = await engineOf(t, { layout: 'page-first' })
  const keys = keysNamed(t.title, 3)
  await t.throwsAsync(engine.publishLayers(engine.rank, keys, [0, 1]), { code: 'layers_missing' })
  t.is(await engine.hits(keys), 0)
  t.is((await engine.publish(keys))[0]?.accepted, 3)
  t.is(await engine.hits(keys), 3)
  await engine.stop()
})

test.serial('the first publication of a key wins; a second with other bytes is success without a copy', async (t) => {
  const engine = await engineOf(t)
  const keys = keysNamed(t.title, 4)
  await engine.publish(keys)
  engine.rank.poison([0, 1, 2, 3])
  const pages = Uint32Array.of(0, 1, 2, 3)
  const second = await engine.rank.client.publish({ groups: [{ group: 0, layers: null, items: { keys, pages } }] })
  t.deepEqual([second.present, second.accepted, second.bytes], [4, 0, 0])
  const { lease } = await ready(engine, keys)
  t.is(await engine.restore(keys, lease), 0)
  await engine.stop()
})

test.serial('V1: blocks of two ranks are findable when both have published, and one lease serves both', async (t) => {
  const engine = await engineOf(t, { tpSize: 2 })
  const keys = keysNamed(t.title, 6)
  const [first, second] = engine.ranks
  if (first === undefined || second === undefined) return t.fail()
  await engine.publish(keys, [first])
  t.is(await engine.hits(keys), 0, 'one rank of two')
  await engine.publish(keys.subarray(0, 4 * 32), [second])
  t.is(await engine.hits(keys), 4, 'the common prefix of both')
  await engine.publish(keys, [second])
  await engine.toSsd()
  const { lease, boundaries } = await ready(engine, keys)
  t.deepEqual([...boundaries], [6 * BLOCK_TOKENS])
  t.is(await engine.restore(keys, lease, [first]), 0)
  await t.throwsAsync(engine.restore(keys, lease, [first]), { code: 'lease_already_redeemed' })
  t.is(await engine.restore(keys, lease, [second]), 0)
  await t.throwsAsync(engine.restore(keys, lease, [second]), { code: 'lease_already_redeemed' })
  await engine.stop()
})

/** Renews one of two leases until the other has ended. False when this process was held up for longer than they live. */
async function outlives(engine: TestEngine, kept: number, sinceMs: number): Promise<boolean> {
  for (let renewedMs = sinceMs; ; ) {
    const askedMs = performance.now()
    try {
      const leftMs = await engine.scheduler.renew(kept, 3_600_000)
      if (leftMs > LEASE_MS) throw new Error(`a lease was renewed for ${leftMs} ms`)
    } catch (error) {
      if (performance.now() - renewedMs < LEASE_MS) throw error
      return false
    }
    renewedMs = askedMs
    if ((await engine.scheduler.inspect('')).get('leases') === 1) return true
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS / 20))
  }
}

test.serial('a lease ends by itself, a renewed one lives on, and release is idempotent', async (t) => {
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: ['--lease-ttl', `${LEASE_MS}ms`] })
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
  const keys = keysNamed(t.title, 2)
  await engine.publish(keys)
  for (let held = false; !held; ) {
    const left = await ready(engine, keys)
    const askedMs = performance.now()
    const kept = await ready(engine, keys)
    t.true(left.expiresInMs <= LEASE_MS)
    held = await outlives(engine, kept.lease, askedMs)
    await t.throwsAsync(engine.scheduler.renew(left.lease, 1_000), { code: 'lease_expired' })
    await t.throwsAsync(engine.restore(keys, left.lease), { code: 'lease_expired' })
    await engine.scheduler.release('lease', kept.lease)
  }
  const third = await ready(engine, keys)
  for (let i = 0; i < 3; i++) await t.notThrowsAsync(engine.scheduler.release('lease', third.lease))
  await t.throwsAsync(engine.restore(keys, third.lease), { instanceOf: Error, message: /Cannot redeem lease/ })
  await engine.stop()
  await endsClean(t, manager)
})

test.serial('C5: cancel of a restore whose fence is never raised ends CANCELLED and touches no page', async (t) => {
  const engine = await engineOf(t)
  const keys = keysNamed(t.title, 4)
  await engine.publish(keys)
  await engine.toSsd()
  for (const resident of [false, true]) {
    if (resident) await engine.publish(keysNamed(`${t.title} resident`, 4))
    const { lease } = await ready(engine, resident ? keysNamed(`${t.title} resident`, 4) : keys)
    engine.rank.poison([0, 1, 2, 3])
    const abort = new AbortController()
    const pairs = Uint32Array.of(0, 0, 1, 1, 2, 2, 3, 3)
    const groups = [{ group: 0, pairs }]
    const restore = engine.rank.client.restore({ lease, groups }, { after: NEVER, signal: abort.signal })
    await eventually('it is admitted', async () => (await engine.scheduler.inspect('')).get('operationsOpen') === 1)
    abort.abort()
    await t.throwsAsync(restore, { code: 'cancelled', name: 'CancelledError' })
    t.is(engine.rank.touched([0, 1, 2, 3]), 0)
  }
  await engine.stop()
})

test.serial('V2: a cancelled publication is never findable and its keys can be published again', async (t) => {
  const engine = await engineOf(t)
  const keys = keysNamed(t.title, 4)
  const abort = new AbortController()
  const items = { keys, pages: Uint32Array.of(0, 1, 2, 3) }
  const groups = [{ group: 0, layers: null, items }]
  const publish = engine.rank.client.publish({ groups }, { after: NEVER, signal: abort.signal })
  await eventually('it is admitted', async () => (await engine.scheduler.inspect('')).get('operationsOpen') === 1)
  t.is(await engine.hits(keys), 0)
  abort.abort()
  await t.throwsAsync(publish, { code: 'cancelled' })
  t.is(await engine.hits(keys), 0)
  t.is((await engine.publish(keys))[0]?.accepted, 4)
  t.is(await engine.hits(keys), 4)
  await engine.stop()
})

test.serial('O10: unregister is answered after everything drained and the memory is unmapped', async (t) => {
  const before = mapped(shared)
  const engine = await engineOf(t)
  const keys = keysNamed(t.title, 8)
  await engine.publish(keys)
  await engine.toSsd()
  t.true(mapped(shared) > before)
  const leases = [await ready(engine, keys), await ready(engine, keys), await ready(engine, keys)]
  const pairs = Uint32Array.from({ length: 16 }, (_, i) => i >> 1)
  const ends: string[] = []
  const open = leases.map(({ lease }, i) =>
    engine.rank.client.restore({ lease, groups: [{ group: 0, pairs }] }, i === 0 ? {} : { after: NEVER }).then(
      () => ends.push('done'),
      (error: OrbitError) => ends.push(error.code),
    ),
  )
  const items = { keys: keysNamed(`${t.title} never`, 2), pages: Uint32Array.of(9, 10) }
  open.push(
    engine.rank.client.publish({ groups: [{ group: 0, layers: null, items }] }, { after: NEVER }).then(
      () => ends.push('done'),
      (error: OrbitError) => ends.push(error.code),
    ),
  )
  await engine.rank.client.unregister()
  t.is(mapped(shared), before, 'nothing of the session is mapped when unregister returns')
  await Promise.all(open)
  t.deepEqual(ends.filter((end) => end !== 'done').length >= 3, true)
  t.true(
    ends.every((end) => end === 'done' || end === 'cancelled'),
    ends.join(),
  )
  await engine.stop()
})

test.serial('K1: an engine killed with a fenced restore open is drained, and another engine goes on', async (t) => {
  const shape = { salt: t.title }
  const victim = await EngineChild.start(t, shared.socketPath, shape)
  t.is(await victim.ask('publish', t.title, 6), 6)
  await victim.ask('to-ssd', t.title, 6)
  t.is(await victim.ask('fenced-restore', t.title, 6), 1)
  await victim.kill()
  await eventually('the dead engine is gone', async () => (await shared.owned())['orbitkv_sessions'] === undefined)
  const engine = await TestEngine.start(shared.socketPath, shape)
  const { lease } = await ready(engine, keysNamed(t.title, 6))
  t.is(await engine.restore(keysNamed(t.title, 6), lease), 0)
  await engine.stop()
})

test.serial(
  'K1: engines killed at any moment of publish, query and restore leave nothing and no wrong byte',
  async (t) => {
    const shape = { salt: t.title }
    for (let round = 0; round < 16; round++) {
      const victim = await EngineChild.start(t, shared.socketPath, shape)
      await victim.ask('work', `${t.title} work`, 8)
      // Spread over the rounds of its work: the moment is what differs, not how long anybody waits.
      await new Promise((resolve) => setTimeout(resolve, (round * 37) % 50))
      await victim.kill()
    }
    await eventually('every dead engine is gone', async () => (await shared.owned())['orbitkv_sessions'] === undefined)
    const engine = await TestEngine.start(shared.socketPath, shape)
    for (let round = 0; round < 8; round++) {
      const keys = keysNamed(`${t.title} work ${round}`, 8)
      const found = await engine.find(keys)
      if (found.kind !== 'ready') continue
      const blocks = (found.boundaries[0] as number) / BLOCK_TOKENS
      t.is(await engine.restore(keys.subarray(0, blocks * 32), found.lease), 0)
    }
    await engine.stop()
  },
)

test.serial('a key that another is writing is not copied twice and not found before it is whole', async (t) => {
  const shape = { salt: t.title }
  const keys = keysNamed(t.title, 6)
  const writer = await EngineChild.start(t, shared.socketPath, shape)
  t.is(await writer.ask('fenced-publish', t.title, 6), 1)
  const second = await TestEngine.start(shared.socketPath, shape)
  t.is((await second.publish(keys))[0]?.bytes, 0)
  t.is(await second.hits(keys), 0)
  await writer.kill()
  await eventually('the writer has gone', async () => (await second.scheduler.inspect('')).get('operationsOpen') === 0)
  t.true(((await second.publish(keys))[0]?.bytes as number) > 0)
  const { lease } = await ready(second, keys)
  t.is(await second.restore(keys, lease), 0)
  await second.stop()
})

for (const route of ['dram', 'uring'] as const) {
  test.serial(
    `a pool too small for one restore: what fits is restored, the rest is a miss, route ${route}`,
    async (t) => {
      const flags = [
        '--pool-size',
        '16mb',
        '--query-budget',
        '6mb',
        ...(route === 'uring' ? ['--ssd-read-path', 'uring'] : []),
      ]
      const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
      const engine = await TestEngine.start(manager.socketPath, { salt: t.title, segmentBytes: 262_144, layers: 2 })
      const keys = keysNamed(t.title, 24)
      for (let first = 0; first < 24; first += 4) {
        await engine.publish(keys.subarray(first * 32, (first + 4) * 32))
        await engine.toSsd()
      }
      const found = await ready(engine, keys)
      const blocks = (found.boundaries[0] as number) / BLOCK_TOKENS
      t.is(blocks, 6, 'six blocks of 1 MiB are what the budget holds')
      t.is(await engine.restore(keys.subarray(0, blocks * 32), found.lease), 0)
      await engine.stop()
      await endsClean(t, manager)
    },
  )
}

test.serial('K1: an engine killed inside a fenced publication leaves no key behind', async (t) => {
  const shape = { salt: t.title }
  const victim = await EngineChild.start(t, shared.socketPath, shape)
  t.is(await victim.ask('fenced-publish', t.title, 6), 1)
  const engine = await TestEngine.start(shared.socketPath, shape)
  await victim.kill()
  await eventually(
    'its operation has ended',
    async () => (await engine.scheduler.inspect('')).get('operationsOpen') === 0,
  )
  const keys = keysNamed(t.title, 6)
  t.is(await engine.hits(keys), 0)
  t.is((await engine.publish(keys))[0]?.accepted, 6)
  const { lease } = await ready(engine, keys)
  t.is(await engine.restore(keys, lease), 0)
  await engine.stop()
})

test.serial(
  'K1: engines killed while they work disturb no other engine, and one registers again at once',
  async (t) => {
    const shape = { salt: t.title, pages: 64 }
    const engine = await TestEngine.start(shared.socketPath, shape)
    const keys = keysNamed(`${t.title} mine`, 8)
    await engine.publish(keys)
    for (let round = 0; round < 3; round++) {
      const victim = await EngineChild.start(t, shared.socketPath, shape)
      await victim.ask('work', t.title, 8)
      for (let i = 0; i < 20; i++) {
        const { lease } = await ready(engine, keys)
        t.is(await engine.restore(keys, lease), 0)
      }
      await victim.kill()
    }
    await engine.stop()
  },
)

test.serial('K2: a stopped engine holds what it holds and delays nobody; killed, it is drained', async (t) => {
  const shape = { salt: t.title }
  const victim = await EngineChild.start(t, shared.socketPath, shape)
  await victim.ask('publish', t.title, 4)
  t.is(await victim.ask('fenced-restore', t.title, 4), 1)
  victim.signal('SIGSTOP')
  const engine = await TestEngine.start(shared.socketPath, shape)
  const { lease } = await ready(engine, keysNamed(t.title, 4))
  t.is(await engine.restore(keysNamed(t.title, 4), lease), 0)
  const operations = async () => (await engine.scheduler.inspect('')).get('operationsOpen')
  // A restore's slot is written before the Manager hears of its end.
  await eventually('the restore beside it has ended', async () => (await operations()) === 1)
  t.is(await engine.hits(keysNamed(t.title, 4)), 4)
  t.is(await operations(), 1, "the stopped engine's restore is still its own")
  await victim.kill()
  await engine.stop()
})

for (const route of ['dram', 'uring'] as const) {
  test.serial(`D1: SIGTERM under load ends what was admitted and exits with 0, route ${route}`, async (t) => {
    const flags = route === 'uring' ? ['--ssd-read-path', 'uring'] : []
    const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
    const shape = { salt: t.title, pages: 64 }
    const workers = await Promise.all([0, 1].map(() => EngineChild.start(t, manager.socketPath, shape)))
    for (const worker of workers) await worker.ask('work', t.title, 16)
    const fenced = await TestEngine.start(manager.socketPath, shape)
    const keys = keysNamed(`${t.title} fenced`, 2)
    await fenced.publish(keys)
    const busy = eventually('load', async () => (await manager.metric('orbitkv_publishes_total')) > 5)
    await busy
    const end = await manager.stop()
    t.is(end.exitCode, 0, end.stdout + end.stderr)
    t.deepEqual(end.drained?.leaks, {})
    t.is(end.drained?.unfinished, 0)
    await t.throwsAsync(fenced.find(keys), { name: 'ClosedError', code: 'manager_gone' })
    for (const worker of workers) t.is(await worker.ended, 0, 'an engine sees a typed end')
  })
}

test.serial('shards in two paths all serve, and every byte comes back', async (t) => {
  const folder = folderOf(t)
  const paths = [`${folder}/a`, `${folder}/b`].flatMap((path) => ['--ssd-cache-path', path])
  const flags = [...paths, '--ssd-cache-shards', '2', '--ssd-cache-capacity', '16mb', '--ssd-read-path', 'uring']
  const manager = await ManagerChild.start(t, { folder, shard: null, flags })
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title, pages: 64, segmentBytes: 4_096 })
  const keys = keysNamed(t.title, 64)
  await engine.publish(keys)
  await engine.toSsd()
  const { lease, blocksSsd } = await ready(engine, keys)
  t.is(blocksSsd, 64)
  t.is(await engine.restore(keys, lease), 0)
  const serving = manager.lines.find(({ msg }) => msg === 'serving')
  const shards = serving?.['ssd'] as { path: string }[]
  t.deepEqual(
    shards.map(({ path }) => path.slice(folder.length)),
    ['/a/shard-000000.dat', '/a/shard-000001.dat', '/b/shard-000002.dat', '/b/shard-000003.dat'],
  )
  const { statSync } = await import('node:fs')
  for (const { path } of shards) t.true(statSync(path).blocks > 0, `${path} has bytes`)
  await engine.stop()
  await endsClean(t, manager)
})
