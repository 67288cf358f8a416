import test, { type ExecutionContext } from 'ava'
import { DRAM_WORKER_LAYOUT } from '../../src/actors/dram-worker/params.js'
import { HOST_READER_LAYOUT } from '../../src/actors/host-reader/params.js'
import { HOST_RESTORE_LAYOUT } from '../../src/actors/host-restore/params.js'
import { SSD_WORKER_LAYOUT } from '../../src/actors/ssd-worker/params.js'
import { WRITEBACK_LAYOUT } from '../../src/actors/writeback/params.js'
import { OrbitError } from '../../src/client/index.js'
import { shownWith } from '../../src/control/metrics/features.js'
import { familiesOf } from '../../src/control/metrics/page-metrics.js'
import { managerLayout } from '../../src/manager/series.js'
import type { Feature } from '../../src/shared/base/tally.js'
import { createCounterPage } from '../../src/shared/rings/counter-page.js'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { BLOCK_TOKENS, type EngineLayout, keyAt, keysNamed, type Ready, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/** Speculation, retention, admission and read limits across processes, and what a scrape shows of them. */

async function start(t: ExecutionContext, flags: readonly string[] = [], shard?: null) {
  return await ManagerChild.start(t, { folder: folderOf(t), flags, ...(shard === null ? { shard } : {}) })
}

const asked = (keys: Uint8Array) => [{ group: 0, firstBlock: 0, keys }]

async function ready(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

/** One sample with its labels, as the text has it. */
async function sample(manager: ManagerChild, line: string): Promise<number> {
  const found = (await manager.get('/metrics')).body.split('\n').find((each) => each.startsWith(`${line} `))
  if (found === undefined) throw new Error(`the scrape has no ${line}`)
  return Number(found.slice(line.length + 1))
}

// --- retention -----------------------------------------------------------------------------------------------------

for (const layout of ['packed', 'split'] as const satisfies readonly EngineLayout[]) {
  test.serial(`hold one page of four, evict: three are freed and the held one is byte-exact, ${layout}`, async (t) => {
    const manager = await start(t)
    const engine = await TestEngine.start(manager.socketPath, { layout, salt: t.title })
    const keys = keysNamed(t.title, 4)
    await engine.publish(keys)
    await engine.toSsd()
    const all = await ready(engine, keys)
    t.is(await engine.restore(keys, all.lease), 0)
    await eventually('all four are in DRAM', async () => (await manager.metric('orbitkv_cache_resident_blocks')) === 4)
    await engine.settled()
    const blockBytes = (await manager.metric('orbitkv_pool_used_bytes')) / 4
    const one = keyAt(keys, 1)
    const held = await ready(engine, one)
    const dropped = await engine.scheduler.dropDram()
    t.is(dropped.get('evictedBlocks'), 3)
    t.is(dropped.get('stillReferencedBlocks'), 1)
    t.is(dropped.get('reclaimedBytes'), 3 * blockBytes)
    await eventually('one block is left', async () => (await manager.metric('orbitkv_pool_used_bytes')) === blockBytes)
    t.is(await engine.restore(one, held.lease), 0, 'the held page has its bytes')
    const again = await ready(engine, keys)
    t.is(await engine.restore(keys, again.lease), 0, 'the freed ones come back from SSD')
    await engine.stop()
    await endsClean(t, manager)
  })
}

// --- speculation ---------------------------------------------------------------------------------------------------

const errorCodeOf = (error: unknown) => (error instanceof OrbitError ? error.code : String(error))

/** How long a preparation lives after its last poll. */
const PREPARED_MS = 1_000

/**
 * Prepares, polls until everything is read, and claims; in between, nothing of it may be evicted. null when this
 * process was held up for longer than a preparation lives, so that it ended by itself.
 */
async function claimed(
  manager: ManagerChild,
  { scheduler }: TestEngine,
  keys: Uint8Array,
  requestId: number,
): Promise<Ready | null> {
  const groups = asked(keys)
  let polledMs = performance.now()
  try {
    let prepared = await scheduler.prepare({ requestId, revision: 0, groups })
    if (prepared.kind !== 'prepared') throw new Error(`expected a preparation, got ${prepared.kind}`)
    const { ticket } = prepared
    const poll = async () => {
      const nowMs = performance.now()
      prepared = await scheduler.pollPreparation(ticket)
      polledMs = nowMs
      return prepared
    }
    await eventually('everything is read', async () => !(await poll()).loading)
    if (prepared.blocks !== 6 || prepared.blocksReady !== 6) throw new Error(JSON.stringify(prepared))
    await eventually('speculation is charged', async () => {
      await poll()
      return (await manager.metric('orbitkv_query_speculative_reserved_bytes')) > 0
    })
    const dropped = await scheduler.dropDram()
    await poll()
    if (dropped.get('evictedBlocks') !== 0) throw new Error('what is prepared was evicted')
    const other = scheduler.claim({ ticket, requestId, revision: 0, groups: asked(keys.subarray(0, 64)) })
    const refused = await other.then(() => null, errorCodeOf)
    if (refused !== 'ticket_mismatch') throw new Error(`a claim of other keys: ${refused}`)
    const found = await scheduler.claim({ ticket, requestId, revision: 0, groups })
    if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
    return found
  } catch (error) {
    if (performance.now() - polledMs < PREPARED_MS) throw error
    return null
  }
}

test.serial(
  'PREPARE holds what it read until the claim; CLAIM restores byte-exact; what nobody claims ends',
  async (t) => {
    const manager = await start(t)
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const keys = keysNamed(t.title, 6)
    await engine.publish(keys)
    await engine.toSsd()
    let found: Ready | null = null
    for (let requestId = 70; found === null; requestId++) found = await claimed(manager, engine, keys, requestId)
    t.deepEqual([found.blocksDram, found.blocksSsd], [6, 0])
    await eventually('the claim took the bytes', async () => {
      return (await manager.metric('orbitkv_query_speculative_reserved_bytes')) === 0
    })
    t.is(await engine.restore(keys, found.lease), 0)
    await eventually('what was read on a guess was restored', async () => {
      const values = await manager.metrics()
      const [restored, unused, prepared] = ['restored', 'unused', 'prepared'].map(
        (outcome) => values.get(`orbitkv_warmup_${outcome}_bytes_total`) as number,
      ) as [number, number, number]
      return restored > 0 && restored + unused === prepared
    })
    // Nobody polls this one: it ends by itself.
    const left = await engine.scheduler.prepare({ requestId: 1, revision: 0, groups: asked(keys) })
    t.is(left.kind, 'prepared')
    await eventually(
      'an unpolled preparation ends',
      async () => (await engine.scheduler.inspect('')).get('preparationsOpen') === 0,
    )
    await t.throwsAsync(engine.scheduler.pollPreparation(left.kind === 'prepared' ? left.ticket : 0), {
      code: 'ticket_unknown',
    })
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial(
  'WARM brings pages to the class that goes first; a request finds them in DRAM; every byte has an outcome',
  async (t) => {
    const manager = await start(t)
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const keys = keysNamed(t.title, 6)
    await engine.publish(keys)
    await engine.toSsd()
    t.like(await engine.scheduler.warm(asked(keys)), { kind: 'warming', accepted: 6, resident: 0, skipped: 0 })
    const reclaimable = () => sample(manager, 'orbitkv_cache_resident_blocks{class="reclaimable"}')
    await eventually('six pages are reclaimable', async () => (await reclaimable()) === 6)
    t.like(await engine.scheduler.warm(asked(keys)), { kind: 'warming', accepted: 0, resident: 6 })
    const some = keys.subarray(0, 64)
    const found = await ready(engine, some)
    t.is(found.blocksDram, 2)
    t.is(await engine.restore(some, found.lease), 0)
    await engine.scheduler.dropDram()
    await eventually('every guess has an outcome', async () => {
      const values = await manager.metrics()
      const of = (outcome: string) =>
        values.get(`orbitkv_warmup_${outcome}_bytes${outcome === 'pending' ? '' : '_total'}`)
      const [prepared, restored, unused, pending] = ['prepared', 'restored', 'unused', 'pending'].map(
        (each) => of(each) ?? -1,
      )
      return pending === 0 && restored === (prepared as number) / 3 && unused === ((prepared as number) * 2) / 3
    })
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial(
  "a read that two engines share goes on when one of them gives it up: the other's bytes are exact",
  async (t) => {
    const manager = await start(t, ['--pool-size', '64mb'])
    const shape = { salt: t.title, segmentBytes: 96 * 1024 }
    const engines = [
      await TestEngine.start(manager.socketPath, shape),
      await TestEngine.start(manager.socketPath, shape),
    ]
    const [leaves, stays] = engines as [TestEngine, TestEngine]
    const keys = keysNamed(t.title, 8)
    await stays.publish(keys)
    let shared = 0
    for (let round = 1; round <= 30 && shared === 0; round++) {
      await stays.toSsd()
      const query = { requestId: 500 + round, revision: 0, allowSsd: true, groups: asked(keys) }
      const [first, second] = await Promise.all([leaves.scheduler.beginQuery(query), stays.scheduler.beginQuery(query)])
      if (first.kind === 'loading') await leaves.scheduler.release('ticket', first.ticket)
      else if (first.kind === 'ready') await leaves.scheduler.release('lease', first.lease)
      const mine = second.kind === 'loading' ? await stays.scheduler.query(query) : second
      if (mine.kind !== 'ready') return t.fail(`round ${round}: ${mine.kind}`)
      t.is(mine.boundaries[0], (keys.length / 32) * BLOCK_TOKENS)
      t.is(await stays.restore(keys, mine.lease), 0)
      await eventually('nothing is charged', async () => {
        return (await manager.metric('orbitkv_query_reserved_bytes')) === 0
      })
      shared = await manager.metric('orbitkv_query_coalesced_reads_total')
    }
    t.true(shared > 0, 'at least one round shared a read')
    for (const engine of engines) await engine.stop()
    await endsClean(t, manager)
  },
)

// --- read limits and admission -------------------------------------------------------------------------------------

test.serial(
  '--query-read-max-batches: the answer is what was read; what was not is neither hit nor miss',
  async (t) => {
    const manager = await start(t, ['--query-read-batch', '4kb', '--query-read-max-batches', '2'])
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const keys = keysNamed(t.title, 6)
    await engine.publish(keys)
    await engine.toSsd()
    const found = await ready(engine, keys)
    t.is(found.boundaries[0], 2 * BLOCK_TOKENS, 'a batch is smaller than a block: one block each')
    t.is(await engine.restore(keys.subarray(0, 64), found.lease), 0)
    // Main learns of what lanes count, and of windows of time, each in its own turn.
    await eventually(
      'the limit is counted',
      async () => (await manager.metric('orbitkv_query_unread_blocks_total')) === 4,
    )
    await eventually('hits are counted', async () => (await manager.metric('orbitkv_cache_block_hits_total')) === 2)
    const requests = 'orbitkv_hll_total_requests{window="15m"}'
    await eventually('requests are counted', async () => (await sample(manager, requests)) === 2)
    t.is(await manager.metric('orbitkv_cache_block_misses_total'), 0)
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial(
  '--ssd-write-policy reuse: a first save stays in DRAM, a second save or a query sends it to SSD',
  async (t) => {
    const manager = await start(t, ['--ssd-write-policy', 'reuse'])
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const saved = keysNamed(`${t.title} saved`, 3)
    const asks = keysNamed(`${t.title} asked`, 2)
    const written = async () => {
      await engine.rank.client.sync(true)
      let commits = -1
      await eventually('counters are shown', async () => {
        const before = commits
        commits = await manager.metric('orbitkv_ssd_write_commits_total')
        return before === commits && (await manager.metric('orbitkv_ssd_write_queue_pending')) === 0
      })
      return commits
    }
    await engine.publish(saved)
    await engine.publish(asks)
    t.is(await written(), 0)
    t.is(await sample(manager, 'orbitkv_ssd_write_admission_skips_total{reason="cold"}'), 5)
    await engine.publish(saved)
    await eventually('the second save is written', async () => (await written()) === 3)
    await engine.publish(saved)
    await eventually('a third finds it there', async () => {
      return (await sample(manager, 'orbitkv_ssd_write_admission_skips_total{reason="resident"}')) === 3
    })
    t.is(await engine.restore(asks, (await ready(engine, asks)).lease), 0)
    await eventually('what a query was given is written', async () => (await written()) === 5)
    await engine.toSsd()
    t.is(await engine.restore(saved, (await ready(engine, saved)).lease), 0)
    t.is(await engine.restore(asks, (await ready(engine, asks)).lease), 0)
    await engine.stop()
    await endsClean(t, manager)
  },
)

// --- the scrape ----------------------------------------------------------------------------------------------------

/** Families and the label sets of each that a Manager with these features and windows must show, and no others. */
function expected(features: readonly Feature[], windows: readonly string[]): Map<string, string[]> {
  const layouts = [managerLayout(windows.map((name) => ({ name }))), DRAM_WORKER_LAYOUT, HOST_RESTORE_LAYOUT]
  if (features.includes('ssd')) layouts.push(HOST_READER_LAYOUT, WRITEBACK_LAYOUT)
  if (features.includes('cufile')) layouts.push(SSD_WORKER_LAYOUT)
  const pages = layouts.map((layout) => ({ buffer: createCounterPage(layout), layout }))
  const families = familiesOf(pages, shownWith(new Set(features)))
  const table = new Map(
    families.map(({ name, type, read }) => [name, [type, ...labelSets(read().map(({ labels }) => labels))]]),
  )
  table.set('orbitkv_build_info', ['gauge', 'io,ssd'])
  if (features.includes('ssd')) table.set('orbitkv_ssd_backend_info', ['gauge', 'backend,cause,read_route,write_route'])
  return table
}

/** Sets of labels, without the limits of buckets and, for the one that says what runs, without values. */
function labelSets(labels: readonly Readonly<Record<string, string>>[]): string[] {
  const sets = labels.map(({ le: _, ...rest }) => JSON.stringify(Object.entries(rest).sort()))
  return [...new Set(sets)].sort()
}

async function scraped(manager: ManagerChild): Promise<Map<string, string[]>> {
  const { body } = await manager.get('/metrics')
  const found = new Map<string, string[]>()
  for (const [, name, type] of body.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
    const lines = [...body.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?(\\{[^}]*\\})? `, 'gm'))]
    const labels = lines.map(([, text]) =>
      Object.fromEntries(
        [...(text ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value as string]),
      ),
    )
    const sets =
      name === 'orbitkv_build_info' || name === 'orbitkv_ssd_backend_info'
        ? [
            Object.keys(labels[0] ?? {})
              .sort()
              .join(),
          ]
        : labelSets(labels)
    found.set(name as string, [type as string, ...sets])
  }
  return found
}

const SCRAPES: readonly [string, readonly string[], null | undefined, readonly Feature[], readonly string[]][] = [
  ['without an SSD tier', [], null, [], ['15m', '1h', '1d']],
  ['with an SSD tier', ['--metric-hll-windows', '90s'], undefined, ['ssd'], ['90s']],
  [
    'with every policy',
    ['--cache-protected-percent', '50', '--enable-lfu-admission', 'true', '--ssd-write-policy', 'reuse'],
    undefined,
    ['ssd', 'protection', 'lfu'],
    ['15m', '1h', '1d'],
  ],
]

for (const [name, flags, shard, features, windows] of SCRAPES) {
  test.serial(`a live scrape ${name} has the families and labels of the table, and no others`, async (t) => {
    const manager = await start(t, flags, shard as null)
    const table = expected(features, windows)
    t.deepEqual(await scraped(manager), table)
    t.is(table.has('orbitkv_cache_protected_bytes'), features.includes('protection'), 'off is absent, not zero')
    t.is(table.has('orbitkv_ssd_write_queue_pending'), features.includes('ssd'))
    await endsClean(t, manager)
  })
}

/** What the GPU storage route is watched by. */
const CUFILE_METRICS = [
  'orbitkv_ssd_cufile_read_bytes_total',
  'orbitkv_ssd_cufile_write_bytes_total',
  'orbitkv_ssd_cufile_read_seconds',
  'orbitkv_ssd_cufile_write_seconds',
  'orbitkv_ssd_cufile_inflight_batches',
  'orbitkv_ssd_gpu_write_fallbacks_total',
  'orbitkv_ssd_cufile_read_failures_total',
  'orbitkv_ssd_cufile_write_failures_total',
  'orbitkv_ssd_backend_fallbacks_total',
  'orbitkv_ssd_gpu_staging_bytes',
  'orbitkv_ssd_uring_ranks',
] as const
/** These two are of every SSD tier. */
const PIN_METRICS = ['orbitkv_ssd_read_pinned_bytes', 'orbitkv_ssd_pinned_write_skips_total'] as const

const noShim = shimMissing()
needs(noShim === null, noShim ?? '')(
  'a live scrape with the cuFile backend has its families too, and without it none of them',
  async (t) => {
    const shim = new CuFileShim(folderOf(t))
    process.env['ORBITKV_CUFILE_HOST_STAGING'] = '1'
    process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
    process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
    try {
      const table = expected(['ssd', 'cufile'], ['15m', '1h', '1d'])
      const manager = await start(t, ['--ssd-backend', 'cufile'])
      t.deepEqual(await scraped(manager), table)
      for (const name of [...CUFILE_METRICS, ...PIN_METRICS]) t.true(table.has(name), name)
      await endsClean(t, manager)
      const without = await start(t, ['--ssd-backend', 'uring'])
      const names = new Set((await scraped(without)).keys())
      for (const name of CUFILE_METRICS) t.false(names.has(name), `${name} is absent, not zero`)
      for (const name of PIN_METRICS) t.true(names.has(name), name)
      await endsClean(t, without)
    } finally {
      delete process.env['ORBITKV_CUFILE_HOST_STAGING']
    }
  },
)
