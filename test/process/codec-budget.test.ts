import type { ExecutionContext } from 'ava'
import { Oracle } from '../../src/cli/demo/oracle.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { EXACT, keysNamed, type PageOracle, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/** What a codec does whose workspace on the device is too small for one item; over the twin of libcuda. */

const LAYERS = 6
const BLOCKS = 4
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 16, headDim: 128 } as const

const reason = noCudaTwin()
const twinTest = needs(reason === '', reason)

function oracleOf(codec: 'fp8' | 'turboquant-4'): PageOracle {
  const demo = new Oracle(codec, LAYERS)
  return {
    content: (key, _rank, layer, segment, bytes) => demo.content(key, layer, segment as 0 | 1, bytes),
    accepts: (layer, segment, published, restored) => demo.accepts(layer, segment as 0 | 1, published, restored),
  }
}

async function bed(t: ExecutionContext, codec: 'fp8' | 'turboquant-4', oracle: PageOracle) {
  const flags = ['--storage-codec', codec, '--storage-codec-budget', '4kb', '--ssd-read-path', 'uring']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: [...flags, '--ssd-backend', 'uring'] })
  const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, salt: t.title, device: twinUuid(), oracle })
  const keys = keysNamed(t.title, BLOCKS)
  const [published] = await engine.publish(keys)
  t.is(published?.accepted, BLOCKS, 'what is saved needs no workspace')
  return { manager, engine, keys }
}

twinTest(
  'fp8 with too small a budget: coded by the processor both ways, and nothing is kept on the device',
  async (t) => {
    const { manager, engine, keys } = await bed(t, 'fp8', oracleOf('fp8'))
    t.is(await manager.metric('orbitkv_storage_codec_skips_total'), 0)
    for (const tier of ['DRAM', 'SSD']) {
      if (tier === 'SSD') await engine.toSsd()
      const found = await engine.find(keys)
      if (found.kind !== 'ready') return t.fail(`${tier}: ${found.kind}`)
      t.is(await engine.restore(keys, found.lease), 0, tier)
    }
    t.true((await manager.metric('orbitkv_storage_codec_workspace_bytes')) <= 4_096)
    t.is(await manager.metric('orbitkv_storage_codec_decode_failures_total'), 0)
    t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
    await engine.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

twinTest('turboquant with too small a budget: everything is stored raw, counted, and comes back exactly', async (t) => {
  const demo = oracleOf('turboquant-4')
  const oracle: PageOracle = { content: demo.content, accepts: EXACT.accepts }
  const { manager, engine, keys } = await bed(t, 'turboquant-4', oracle)
  t.is(await manager.metric('orbitkv_storage_codec_skips_total'), BLOCKS * (LAYERS - 4) * 2)
  t.is(await manager.metric('orbitkv_storage_codec_bytes_total'), 0)
  for (const tier of ['DRAM', 'SSD']) {
    if (tier === 'SSD') await engine.toSsd()
    const found = await engine.find(keys)
    if (found.kind !== 'ready') return t.fail(`${tier}: ${found.kind}`)
    t.is(await engine.restore(keys, found.lease), 0, tier)
  }
  t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
  await engine.stop()
  await endsClean(t, manager, DRIVER_FDS_MAX)
})
