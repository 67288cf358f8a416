import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { Oracle, relativeErrorMax } from '../../src/cli/demo/oracle.js'
import { OrbitError } from '../../src/client/index.js'
import type { CodecName } from '../../src/shared/codec/setting.js'
import { ENGINE_LAYOUTS, type EngineShape, EXACT, keysNamed, type PageOracle, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'

/**
 * Encoded pages on their whole way: engine, DRAM, SSD, another engine. What may come back is computed by the demo's oracle,
 * which knows nothing of the codecs here.
 */

const LOSSY = ['fp8', 'turboquant-4', 'turboquant-3'] as const satisfies readonly CodecName[]
const ROUTES = ['dram', 'uring'] as const
const BLOCKS = 6
const LAYERS = 6

/** Segments of two tokens of 8 heads of 128 values. */
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 24, headDim: 128 } as const

/** The demo's content and oracle for one codec, and its sums of errors. */
function oracleOf(codec: CodecName): PageOracle & { readonly demo: Oracle } {
  const demo = new Oracle(codec, LAYERS)
  return {
    demo,
    content: (key, _rank, layer, segment, bytes) => demo.content(key, layer, segment as 0 | 1, bytes),
    accepts: (layer, segment, published, restored) => demo.accepts(layer, segment as 0 | 1, published, restored),
  }
}

function managerWith(t: ExecutionContext, codec: CodecName, route: (typeof ROUTES)[number], folder = folderOf(t)) {
  const flags = ['--storage-codec', codec, '--devices', 'none', '--pool-size', '64mb']
  if (route === 'uring') flags.push('--ssd-read-path', 'uring')
  return ManagerChild.start(t, { folder, flags })
}

async function restored(engine: TestEngine, keys: Uint8Array): Promise<number> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return await engine.restore(keys, found.lease)
}

/** Values of orbitkv_storage_codec_bytes_total by kind. */
async function bytesOf(manager: ManagerChild): Promise<{ logical: number; stored: number }> {
  const { body } = await manager.get('/metrics')
  const kind = (name: string) =>
    Number(new RegExp(`^orbitkv_storage_codec_bytes_total\\{kind="${name}"\\} (\\S+)$`, 'm').exec(body)?.[1])
  return { logical: kind('logical'), stored: kind('stored') }
}

for (const codec of LOSSY) {
  for (const route of ROUTES) {
    test.serial(`${codec}: pages come back from DRAM and SSD within the format's error, route ${route}`, async (t) => {
      const manager = await managerWith(t, codec, route)
      for (const layout of ENGINE_LAYOUTS) {
        const oracle = oracleOf(codec)
        const shape: Partial<EngineShape> = { ...SHAPE, layout, salt: layout, oracle }
        const keys = keysNamed(`${t.title} ${layout}`, BLOCKS)
        const writer = await TestEngine.start(manager.socketPath, shape)
        const [published] = await writer.publish(keys)
        t.is(published?.accepted, BLOCKS)
        t.is(await restored(writer, keys), 0, `${layout}: from DRAM`)
        await writer.toSsd()
        t.is(await restored(writer, keys), 0, `${layout}: from SSD`)
        const reader = await TestEngine.start(manager.socketPath, shape)
        t.is(await restored(reader, keys), 0, `${layout}: to another engine`)
        const max = relativeErrorMax(codec)
        const [errorK, powerK, errorV, powerV] = oracle.demo.sums
        if (max !== null) {
          t.true(errorK > 0 && errorK <= max[0] * powerK, `${layout}: K ${errorK / powerK}`)
          t.true(errorV > 0 && errorV <= max[1] * powerV, `${layout}: V ${errorV / powerV}`)
        }
        for (const engine of [writer, reader]) await engine.stop()
      }
      const { logical, stored } = await bytesOf(manager)
      const coded = codec === 'fp8' ? LAYERS : LAYERS - 4
      t.is(logical, ENGINE_LAYOUTS.length * BLOCKS * coded * 2 * SHAPE.segmentBytes)
      const part = { fp8: 0.5, 'turboquant-4': 67 / 256, 'turboquant-3': 51 / 256 }[codec]
      t.is(stored, logical * part)
      t.is(await manager.metric('orbitkv_storage_codec_skips_total'), 0)
      t.is(await manager.metric('orbitkv_storage_codec_decode_failures_total'), 0)
      t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
      await endsClean(t, manager)
    })
  }

  test.serial(`${codec}: an encoded block takes less of pool and SSD than its bytes`, async (t) => {
    const manager = await managerWith(t, codec, 'uring')
    const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, oracle: oracleOf(codec) })
    const keys = keysNamed(t.title, BLOCKS)
    await engine.publish(keys)
    await engine.scheduler.sync(true)
    const logical = BLOCKS * engine.blockBytes
    // K and V of a layer: of 16,384 bytes each, in whole sectors.
    const codedLayer = { fp8: 16_384, 'turboquant-4': 4_608 + 4_608, 'turboquant-3': 3_584 + 3_584 }[codec]
    const coded = codec === 'fp8' ? LAYERS : LAYERS - 4
    const stored = BLOCKS * (coded * codedLayer + (LAYERS - coded) * 2 * SHAPE.segmentBytes)
    const used = () => manager.metric('orbitkv_ssd_used_bytes')
    await eventually(`${stored} bytes of the SSD are used`, async () => (await used()) === stored)
    t.true((await manager.metric('orbitkv_cache_resident_bytes')) > 0)
    t.true((await manager.metric('orbitkv_cache_resident_bytes')) < logical * 0.85)
    await engine.stop()
    await endsClean(t, manager)
  })

  test.serial(`${codec}: values that it cannot hold are stored raw, come back exactly, and are counted`, async (t) => {
    const manager = await managerWith(t, codec, 'uring')
    const demo = oracleOf(codec)
    /** Every third segment has one value that is not finite. */
    const spoiled = (layer: number, segment: number) => (layer + segment) % 3 === 0
    const oracle: PageOracle = {
      content(key, rank, layer, segment, bytes) {
        const content = demo.content(key, rank, layer, segment, bytes)
        // bfloat16: infinity.
        if (spoiled(layer, segment)) content.set([0x80, 0x7f], bytes - 2)
        return content
      },
      accepts: (layer, segment, published, found) =>
        spoiled(layer, segment)
          ? EXACT.accepts(layer, segment, published, found)
          : demo.accepts(layer, segment, published, found),
    }
    const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, oracle })
    const keys = keysNamed(t.title, BLOCKS)
    t.is((await engine.publish(keys))[0]?.accepted, BLOCKS)
    t.is(await restored(engine, keys), 0, 'from DRAM')
    await engine.toSsd()
    t.is(await restored(engine, keys), 0, 'from SSD')
    let spoiledItems = 0
    for (let layer = codec === 'fp8' ? 0 : 2; layer < (codec === 'fp8' ? LAYERS : LAYERS - 2); layer++) {
      for (const segment of [0, 1]) if (spoiled(layer, segment)) spoiledItems++
    }
    t.is(await manager.metric('orbitkv_storage_codec_skips_total'), BLOCKS * spoiledItems)
    t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
    await engine.stop()
    await endsClean(t, manager)
  })
}

test.serial(
  'a model whose heads are not registered is stored raw under TurboQuant and comes back exactly',
  async (t) => {
    const manager = await managerWith(t, 'turboquant-4', 'uring')
    const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, headDim: 0, oracle: EXACT })
    const keys = keysNamed(t.title, BLOCKS)
    await engine.publish(keys)
    t.is(await restored(engine, keys), 0)
    await engine.toSsd()
    t.is(await restored(engine, keys), 0)
    t.deepEqual(await bytesOf(manager), { logical: 0, stored: 0 })
    await engine.stop()
    await endsClean(t, manager)
  },
)

for (const route of ROUTES) {
  test.serial(
    `rotten encoded bytes are never decoded: a miss of that block, and publishing repairs it, route ${route}`,
    async (t) => {
      const folder = folderOf(t)
      const manager = await managerWith(t, 'fp8', route, folder)
      const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, oracle: oracleOf('fp8') })
      const keys = keysNamed(t.title, BLOCKS)
      await engine.publish(keys)
      await engine.toSsd()
      flipAll(join(folder, 'shard.dat'))
      const found = await engine.find(keys)
      if (found.kind === 'ready') {
        const error = await t.throwsAsync(engine.restore(keys, found.lease))
        t.true(error instanceof OrbitError && error.code === 'checksum_mismatch', String(error))
        await engine.settled()
      }
      await eventually('every block is a miss', async () => {
        const hits = await engine.hits(keys)
        if (hits > 0) await restored(engine, keys).catch(() => {})
        return hits === 0
      })
      t.is((await engine.publish(keys))[0]?.accepted, BLOCKS, 'what was hidden is published again')
      await engine.toSsd()
      t.is(await restored(engine, keys), 0)
      await engine.stop()
      await endsClean(t, manager)
    },
  )
}

/** Flips one bit in every 4 KiB of a shard that are not zero. */
function flipAll(path: string): void {
  const shard = openSync(path, 'r+')
  const page = Buffer.alloc(4_096)
  for (let at = 0; at < fstatSync(shard).size; at += page.length) {
    readSync(shard, page, 0, page.length, at)
    const place = page.findIndex((byte) => byte !== 0)
    if (place < 0) continue
    writeSync(shard, Uint8Array.of((page[place] as number) ^ 1), 0, 1, at + place)
  }
  closeSync(shard)
}
