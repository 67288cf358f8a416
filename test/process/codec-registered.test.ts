import test from 'ava'
import { connect } from '../../src/client/index.js'
import { ProtocolError } from '../../src/shared/base/errors.js'
import { memoryBytesOf, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { createPageMemory } from '../support/page-memory.js'

/** What a Manager says of an engine that registered under a codec: in its log, and to who inspects it. */

const SEALED = /^an instance sealed: layers that the codec takes/
/** Eight tokens of eight heads of 64 values. */
const PAGES = { layers: 6, segmentBytes: 8192, pages: 4, headDim: 64 } as const

test.serial('a sealed instance: log and INSPECT say how many layers are coded and why others are not', async (t) => {
  const flags = ['--storage-codec', 'turboquant-3', '--devices', 'none']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
  const engine = await TestEngine.start(manager.socketPath, PAGES)
  const numbers = await engine.scheduler.inspect('')
  t.is(numbers.get('codecLayersCoded'), 2)
  t.is(numbers.get('codecLayersRaw.protected'), 4)
  const unknown = await TestEngine.start(manager.socketPath, { ...PAGES, headDim: 0 })
  const both = await unknown.scheduler.inspect('')
  t.is(both.get('codecLayersCoded'), 2)
  t.is(both.get('codecLayersRaw.head-layout'), 6)
  await engine.stop()
  await unknown.stop()
  await endsClean(t, manager)
  const said = manager.lines.filter(({ msg }) => SEALED.test(msg ?? ''))
  t.deepEqual(
    said.map(({ level, codec, layersCoded, layersRaw }) => [level, codec, layersCoded, layersRaw]),
    [
      [30, 'turboquant-3', 2, { protected: 4 }],
      [40, 'turboquant-3', 0, { 'head-layout': 6 }],
    ],
  )
})

test.serial('heads that contradict the pages are refused with the remedy, and the Manager goes on', async (t) => {
  const flags = ['--storage-codec', 'turboquant-4', '--devices', 'none']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
  const shape = { ...SHAPE, ...PAGES, segmentBytes: 8192 + 512 }
  const memory = createPageMemory('', memoryBytesOf(shape))
  const greeting = { socketPath: manager.socketPath, allowUids: [], engine: 'test', engineVersion: '1' }
  const client = await connect({ ...greeting, role: 'worker' })
  const wrong = client.register(registrationOf(shape, 0, memory, new Uint8Array(16).fill(1)))
  const error = await t.throwsAsync(wrong, { instanceOf: ProtocolError })
  await client.close()
  memory.close()
  t.is(error?.code, 'geometry_invalid')
  t.regex(error?.message ?? '', /8 heads of 64 values take 1024 bytes a token.*head_dim 0/)
  const engine = await TestEngine.start(manager.socketPath, PAGES)
  await engine.stop()
  await endsClean(t, manager)
})
