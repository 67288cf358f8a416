import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { Oracle } from '../../src/cli/demo/oracle.js'
import { OrbitError } from '../../src/client/index.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { shimMissing } from '../support/cufile-shim.js'
import { EXACT, keysNamed, type PageOracle, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { nvcompShim } from '../support/nvcomp-shim.js'

/**
 * ANS on the whole way of pages, over a twin of the CUDA driver and a stand-in for nvCOMP with a code of its own: real
 * processes and lanes, no GPU. test/device has ANS itself.
 */

const reason = noCudaTwin() || (shimMissing() ?? '')
const testOverTwin = needs(reason === '', reason)

const BLOCKS = 6
const LAYERS = 3
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 24, headDim: 128 } as const
const ITEMS = BLOCKS * LAYERS * 2
const LOGICAL_BYTES = ITEMS * SHAPE.segmentBytes

/** Its Managers are children of this process, and find it by the environment. */
const shim = nvcompShim(mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-nvcomp-')))
process.env['ORBITKV_NVCOMP_LIBRARY'] = shim.library

/** Pages of 16-bit floats, which an entropy code makes shorter, and which come back exactly. */
const FLOATS: PageOracle = {
  content: (key, _rank, layer, segment, bytes) =>
    new Oracle('ans', LAYERS).content(key, layer, segment as 0 | 1, bytes),
  accepts: EXACT.accepts,
}

function start(t: ExecutionContext, flags: readonly string[] = []): Promise<ManagerChild> {
  const all = ['--storage-codec', 'ans', '--devices', 'all', '--pool-size', '64mb', ...flags]
  return ManagerChild.start(t, { folder: folderOf(t), flags: all })
}

const engineOn = (manager: ManagerChild, oracle: PageOracle): Promise<TestEngine> =>
  TestEngine.start(manager.socketPath, { ...SHAPE, oracle, device: twinUuid() })

async function restored(engine: TestEngine, keys: Uint8Array): Promise<number> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return await engine.restore(keys, found.lease)
}

async function bytesOf(manager: ManagerChild, kind: 'logical' | 'stored'): Promise<number> {
  const { body } = await manager.get('/metrics')
  return Number(new RegExp(`^orbitkv_storage_codec_bytes_total\\{kind="${kind}"\\} (\\S+)$`, 'm').exec(body)?.[1])
}

for (const [name, flags] of [
  ['into DRAM', []],
  ['during the restore', ['--ssd-read-path', 'uring']],
] as const) {
  testOverTwin(`ans: pages come back byte for byte from DRAM and SSD, read ${name}`, async (t) => {
    const manager = await start(t, flags)
    const keys = keysNamed(t.title, BLOCKS)
    const writer = await engineOn(manager, FLOATS)
    t.is((await writer.publish(keys))[0]?.accepted, BLOCKS)
    t.is(await restored(writer, keys), 0, 'from DRAM')
    await writer.toSsd()
    t.is(await restored(writer, keys), 0, 'from SSD')
    const reader = await engineOn(manager, FLOATS)
    t.is(await restored(reader, keys), 0, 'to another engine')
    for (const engine of [writer, reader]) await engine.stop()
    t.is(await bytesOf(manager, 'logical'), LOGICAL_BYTES)
    const stored = await bytesOf(manager, 'stored')
    t.true(stored > LOGICAL_BYTES / 2 && stored < (LOGICAL_BYTES * 7) / 8, `${stored} bytes`)
    t.is(await manager.metric('orbitkv_storage_codec_skips_total'), 0)
    t.is(await manager.metric('orbitkv_storage_codec_decode_failures_total'), 0)
    t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
    t.deepEqual(shim.takeViolations(), [])
    await endsClean(t, manager, DRIVER_FDS_MAX)
  })
}

testOverTwin('ans: pages that nothing makes shorter are stored as they are, and counted', async (t) => {
  const manager = await start(t, ['--ssd-read-path', 'uring'])
  const keys = keysNamed(t.title, BLOCKS)
  const engine = await engineOn(manager, EXACT)
  t.is((await engine.publish(keys))[0]?.accepted, BLOCKS)
  t.is(await restored(engine, keys), 0, 'from DRAM')
  await engine.toSsd()
  t.is(await restored(engine, keys), 0, 'from SSD')
  await engine.stop()
  t.is(await manager.metric('orbitkv_storage_codec_skips_total'), ITEMS)
  t.deepEqual(shim.takeViolations(), [])
  await endsClean(t, manager, DRIVER_FDS_MAX)
})

testOverTwin('ans: an item that nvCOMP refuses is stored as it is beside those that are coded', async (t) => {
  const manager = await start(t)
  const keys = keysNamed(t.title, BLOCKS)
  const engine = await engineOn(manager, FLOATS)
  shim.tell('chunk', '0 19')
  t.teardown(() => shim.forget('chunk'))
  t.is((await engine.publish(keys))[0]?.accepted, BLOCKS)
  await engine.toSsd()
  shim.forget('chunk')
  t.is(await restored(engine, keys), 0)
  await engine.stop()
  t.true((await manager.metric('orbitkv_storage_codec_skips_total')) > 0)
  t.true((await bytesOf(manager, 'stored')) > 0)
  await endsClean(t, manager, DRIVER_FDS_MAX)
})

testOverTwin('ans: what is no coding any more is a miss, and publishing repairs it', async (t) => {
  const manager = await start(t)
  const keys = keysNamed(t.title, BLOCKS)
  const engine = await engineOn(manager, FLOATS)
  await engine.publish(keys)
  const found = await engine.find(keys)
  if (found.kind !== 'ready') return t.fail('what was published is found')
  shim.tell('chunk', '0 12')
  t.teardown(() => shim.forget('chunk'))
  const error = await t.throwsAsync(engine.restore(keys, found.lease))
  shim.forget('chunk')
  t.true(error instanceof OrbitError && error.code === 'codec_damaged', String(error))
  await engine.settled()
  const hits = await engine.hits(keys)
  t.true(hits < BLOCKS, `${hits} blocks are left`)
  t.true((await manager.metric('orbitkv_storage_codec_decode_failures_total')) > 0)
  await engine.publish(keys)
  t.is(await restored(engine, keys), 0)
  await engine.stop()
  await endsClean(t, manager, DRIVER_FDS_MAX)
})
