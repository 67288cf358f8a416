import { Oracle } from '../../src/cli/demo/oracle.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { keysNamed, type PageOracle, TestEngine } from '../support/engine.js'
import { EngineChild } from '../support/engine-child.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/** What a codec holds on a device, from the first coding to the last rank's leaving; over the twin of libcuda. */

const LAYERS = 6
const BLOCKS = 4
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 16, headDim: 128 } as const
const HELD = 'orbitkv_storage_codec_workspace_bytes'
const RESERVED = 'orbitkv_storage_codec_reserved_bytes'

const reason = noCudaTwin()
const twinTest = needs(reason === '', reason)

const demo = new Oracle('fp8', LAYERS)
const oracle: PageOracle = {
  content: (key, _rank, layer, segment, bytes) => demo.content(key, layer, segment as 0 | 1, bytes),
  accepts: (layer, segment, published, restored) => demo.accepts(layer, segment as 0 | 1, published, restored),
}

twinTest(
  'what a codec holds is given back when the last engine on the device leaves, and had anew by the next',
  async (t) => {
    const flags = ['--storage-codec', 'fp8', '--ssd-backend', 'uring']
    const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
    const keys = keysNamed(t.title, BLOCKS)
    const start = () => TestEngine.start(manager.socketPath, { ...SHAPE, salt: t.title, device: twinUuid(), oracle })
    const restore = async (engine: TestEngine): Promise<void> => {
      const found = await engine.find(keys)
      if (found.kind !== 'ready') return t.fail(found.kind)
      t.is(await engine.restore(keys, found.lease), 0)
    }
    const first = await start()
    t.is(await manager.metric(HELD), 0)
    t.is((await first.publish(keys))[0]?.accepted, BLOCKS)
    await restore(first)
    const second = await start()
    await restore(second)
    t.true((await manager.metric(HELD)) > 0)
    await first.stop()
    t.true((await manager.metric(HELD)) > 0, 'another engine has pages there')
    t.is(await manager.metric(RESERVED), 0)
    await second.stop()
    t.is(await manager.metric(HELD), 0)

    const third = await start()
    await third.toSsd()
    await restore(third)
    t.true((await manager.metric(HELD)) > 0)
    await third.stop()
    t.is(await manager.metric(HELD), 0)
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

twinTest('an engine that is killed leaves no workspace behind', async (t) => {
  const flags = ['--storage-codec', 'fp8', '--ssd-backend', 'uring']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
  const doomed = await EngineChild.start(t, manager.socketPath, { ...SHAPE, device: twinUuid() })
  t.is(await doomed.ask('publish', 'kept', BLOCKS), BLOCKS)
  t.true((await manager.metric(HELD)) > 0)
  await doomed.kill()
  await eventually('nothing is held', async () => (await manager.metric(HELD)) === 0)
  await endsClean(t, manager, DRIVER_FDS_MAX)
})
