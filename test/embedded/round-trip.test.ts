import test from 'ava'
import type { EngineOptions } from '../../src/index.js'
import { compute, keysOf, metricOf, SMALL, saveToSsd, wrongBlocks } from '../support/engine-content.js'
import { open, testWithSsd } from '../support/runtime-bed.js'

const BYTES = SMALL.layers * 2 * SMALL.pages * SMALL.segmentBytes
const MEMORIES: Readonly<Record<string, () => NonNullable<EngineOptions['memory']>>> = {
  'native memory': () => 'native',
  'a SharedArrayBuffer': () => new SharedArrayBuffer(BYTES),
  'part of a SharedArrayBuffer': () => new Uint8Array(new SharedArrayBuffer(3 * BYTES), 100, BYTES + 7),
}
const pages = Array.from({ length: SMALL.pages }, (_, page) => page)

for (const [name, memory] of Object.entries(MEMORIES)) {
  for (const readRoute of ['dram', 'uring'] as const) {
    testWithSsd(`OrbitKV: pages in ${name} come back from SSD by route ${readRoute}, byte for byte`, async (t) => {
      const kv = await open(t, { readRoute })
      const engine = await kv.register({ ...SMALL, memory: memory() })
      const keys = keysOf('round trip', SMALL.pages)
      await saveToSsd(kv, engine, keys)
      t.is(wrongBlocks(engine, pages).length, SMALL.pages, 'nothing is right by chance')

      const found = await engine.query(keys)
      t.deepEqual([found.kind, found.blocks, found.blocksSsd], ['hit', SMALL.pages, SMALL.pages])
      const reversed = [...pages].reverse()
      const { bytes } = await engine.restore(found, reversed)
      t.is(bytes, BYTES)
      t.deepEqual(wrongBlocks(engine, reversed), [])
      t.is(kv.health().readRoute, readRoute)
      // Where the reads of this route are counted, and that the other route counted none.
      t.is(await metricOf(kv, 'orbitkv_ssd_restore_read_bytes_total'), readRoute === 'uring' ? BYTES : 0)
      t.is(await metricOf(kv, 'orbitkv_ssd_fill_bytes_total'), readRoute === 'dram' ? BYTES : 0)

      const { unfinished, leaks } = await kv.close()
      t.deepEqual([unfinished, leaks], [0, {}])
      t.deepEqual(wrongBlocks(engine, reversed), [], 'pages stay readable after the end')
      t.is(kv.health().status, 'closed')
    })
  }
}

for (const layout of ['split', 'adjacent', 'page-first'] as const) {
  for (const segments of [1, 2] as const) {
    test.serial(`OrbitKV: ${layout} pages of ${segments} segments go to DRAM and come back`, async (t) => {
      const kv = await open(t, { ssd: undefined as never })
      const engine = await kv.register({ ...SMALL, segmentBytes: 1000, layout, segments })
      compute(engine, pages)
      await engine.publish(keysOf(layout, SMALL.pages), pages)
      engine.bytes.fill(0xa5)
      const found = await engine.query(keysOf(layout, SMALL.pages))
      t.deepEqual([found.blocksDram, found.blocksSsd], [SMALL.pages, 0])
      await engine.restore(found, pages)
      t.deepEqual(wrongBlocks(engine, pages), [])
    })
  }
}

test.serial('Engine: a shorter restore fills what it names and nothing else', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register(SMALL)
  compute(engine, pages)
  const keys = keysOf('short', SMALL.pages)
  await engine.publish(keys, pages)
  engine.bytes.fill(0xa5)
  await engine.restore(await engine.query(keys), [3, 9])
  const filled = pages.filter((page) => engine.segments(page).some((segment) => segment.some((byte) => byte !== 0xa5)))
  t.deepEqual(filled, [3, 9])
})

test.serial('Engine: what nobody published is a miss; what was found can be given back, also twice', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register(SMALL)
  const miss = await engine.query(keysOf('unknown', 3))
  t.deepEqual([miss.kind, miss.blocks, miss.lease], ['miss', 0, null])
  await miss.release()
  compute(engine, [0])
  await engine.publish(keysOf('known', 1), [0])
  const found = await engine.query(keysOf('known', 1))
  t.is((await kv.stats())['leases'], 1)
  await found.release()
  await found.release()
  t.is((await kv.stats())['leases'], 0)
  const error = await t.throwsAsync(engine.restore(found, [0]))
  t.is((error as { code?: string }).code, 'lease_unknown')
})

test.serial('Engine: bad arguments are refused before anything is sent', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  for (const shape of [{ pages: 0 }, { layers: 0 }, { layers: [] }, { segmentBytes: 0.5 }, { segmentBytes: 2 ** 52 }]) {
    await t.throwsAsync(kv.register({ ...SMALL, ...shape }), { instanceOf: RangeError })
  }
  await t.throwsAsync(kv.register({ ...SMALL, memory: new Uint8Array(BYTES) }), { instanceOf: TypeError })
  await t.throwsAsync(kv.register({ ...SMALL, memory: new SharedArrayBuffer(BYTES - 1) }), { instanceOf: RangeError })
  const engine = await kv.register(SMALL)
  await t.throwsAsync(engine.publish(new Uint8Array(33), [0]), { instanceOf: RangeError })
  await t.throwsAsync(engine.query(new Uint8Array(31)), { instanceOf: RangeError })
  t.throws(() => engine.segment(2, 0), { instanceOf: RangeError })
  t.throws(() => engine.segment(0, SMALL.pages), { instanceOf: RangeError })
  t.throws(() => engine.segment(0, 0, 2), { instanceOf: RangeError })
  await t.throwsAsync(engine.restore(await engine.query(keysOf('none', 1)), [0]), { instanceOf: RangeError })
  const taken = await t.throwsAsync(engine.publish(keysOf('outside', 1), [SMALL.pages]))
  t.is((taken as { code?: string }).code, 'page_out_of_range')
  t.is((await kv.stats())['sessions'], 2, 'what was refused left no session behind')
})

test.serial(
  'OrbitKV: ranks of one instance answer once all have registered, and restore their own parts',
  async (t) => {
    const kv = await open(t, { ssd: undefined as never })
    const instance = new Uint8Array(16).fill(7)
    const ranks = await Promise.all(
      [0, 1].map((tpRank) => kv.register({ ...SMALL, rank: { instance, tpRank, tpSize: 2 } })),
    )
    const keys = keysOf('ranks', 4)
    const four = [0, 1, 2, 3]
    for (const [i, engine] of ranks.entries()) {
      compute(engine, four)
      engine.segment(0, 0).fill(i + 1)
      await engine.publish(keys, four)
      engine.bytes.fill(0xa5)
    }
    const found = await ranks[0]?.query(keys)
    t.is(found?.blocks, 4)
    for (const [i, engine] of ranks.entries()) {
      if (found !== undefined) await engine.restore(found, four)
      t.deepEqual(wrongBlocks(engine, four), [0], 'block 0 has what this rank wrote over it')
      t.true(engine.segment(0, 0).every((byte) => byte === i + 1))
    }
  },
)

test.serial('OrbitKV: engines of another model, namespace or geometry never see the pages', async (t) => {
  const kv = await open(t, { ssd: undefined as never })
  const engine = await kv.register({ ...SMALL, namespace: { salt: 'a' } })
  compute(engine, [0])
  await engine.publish(keysOf('namespace', 1), [0])
  const find = async (options: Partial<EngineOptions>) => {
    const other = await kv.register({ ...SMALL, namespace: { salt: 'a' }, ...options })
    return (await other.query(keysOf('namespace', 1))).kind
  }
  t.is(await find({}), 'hit')
  t.is(await find({ namespace: { salt: 'b' } }), 'miss')
  t.is(await find({ model: 'other' }), 'miss')
  t.is(await find({ segmentBytes: 8192 }), 'miss')
  t.is(await find({ dtype: 'float16' }), 'miss')
})
