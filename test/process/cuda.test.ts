import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { connect, type OrbitError } from '../../src/client/index.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { keysNamed, memoryBytesOf, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { createPageMemory } from '../support/page-memory.js'

/**
 * The whole system with engine pages on a device, over a twin of the CUDA driver in which device memory is shared
 * memory: what goes between processes is real, the device is not. test/device has the same claims on a GPU.
 */

const reason = noCudaTwin()
const testOverTwin = needs(reason === '', reason)

for (const [name, flags] of [
  ['into DRAM', []],
  ['during the restore', ['--ssd-read-path', 'uring']],
] as const) {
  testOverTwin(
    `pages on a CUDA device come back byte for byte to an engine that was started again, read ${name}`,
    async (t) => {
      const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
      const shape = { layers: 4, segmentBytes: 5_000, device: twinUuid() }
      const keys = keysNamed(name, 8)
      const first = await TestEngine.start(manager.socketPath, shape)
      await first.publish(keys)
      await first.toSsd()
      await first.stop()
      const second = await TestEngine.start(manager.socketPath, shape)
      const found = await second.find(keys)
      if (found.kind !== 'ready') return t.fail('what was published is found')
      t.is(found.blocksSsd, 8)
      t.is(await second.restore(keys, found.lease), 0)
      await second.stop()
      await endsClean(t, manager, DRIVER_FDS_MAX)
    },
  )
}

testOverTwin(
  'a Manager that serves no device refuses its memory by name, and auto says why it has io_uring',
  async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: ['--devices', 'none'] })
    const { ssd } = JSON.parse((await manager.get('/health')).body) as { ssd: { cause: string; fellBack: boolean } }
    t.like(ssd, { cause: 'no-device', fellBack: true })
    const shape = { ...SHAPE, device: twinUuid() }
    const memory = createPageMemory(shape.device, memoryBytesOf(shape))
    const client = await connect({ socketPath: manager.socketPath, role: 'worker', engine: 't', engineVersion: '1' })
    const refused = client.register(registrationOf(shape, 0, memory, new Uint8Array(16)))
    t.is((await t.throwsAsync<OrbitError>(refused))?.code, 'device_unknown')
    await client.close()
    memory.close()
    await endsClean(t, manager)
  },
)

testOverTwin('a device that is named and not there refuses the start', async (t) => {
  const end = await ManagerChild.refused(t, { folder: folderOf(t), flags: ['--devices', '7'], shard: null })
  t.is(end.exitCode, 1)
  t.regex(end.stderr, /CUDA device 7: the driver lists 1.*\[cuda_unavailable\]/)
})

test('the twin of the driver is there, or the tests above say why they are skipped', (t) => {
  t.is(reason === '', loadNative().cudaProbe().devices.length > 0)
})
