import { ENGINE_LAYOUTS, type EngineShape, keysNamed, TestEngine } from '../support/engine.js'
import { CUFILE_ROUTE, gpu, startManager, testOnGpu, URING_ROUTES } from './gpu.js'

const KIB = 1024
const MIB = 1024 * KIB

/** Shapes whose pages are hard to move: unaligned segments, a page above a staging slot, many small layers. */
const SHAPES: readonly (readonly [string, Partial<EngineShape>, number])[] = [
  ...ENGINE_LAYOUTS.map((layout) => [`${layout}, 1,000 byte segments`, { layout }, 8] as const),
  ...ENGINE_LAYOUTS.map(
    (layout) => [`${layout}, 32 KiB segments of 8 layers`, { layout, layers: 8, segmentBytes: 32 * KIB }, 16] as const,
  ),
  ['a checkpoint of 10 MiB', { layout: 'packed', layers: 1, segmentBytes: 5 * MIB, pages: 6 }, 2],
  [
    'a checkpoint of 4 MiB and 1,000 bytes',
    { layout: 'page-first', layers: 1, segmentBytes: 2 * MIB + 500, pages: 6 },
    2,
  ],
]

for (const route of [...URING_ROUTES, CUFILE_ROUTE]) {
  testOnGpu(
    `every byte of pages on the GPU comes back from DRAM and from SSD by ${route.name}, and no other changes`,
    async (t) => {
      const { manager, risen, ends } = await startManager(t, route)
      for (const [name, shape, blocks] of SHAPES) {
        const keys = keysNamed(name, blocks)
        const first = await TestEngine.start(manager.socketPath, { ...shape, salt: name, device: gpu().uuid })
        await first.publish(keys)
        const hot = await first.find(keys)
        if (hot.kind !== 'ready') return t.fail(`${name}: not found in DRAM`)
        t.is(await first.restore(keys, hot.lease), 0, `${name}: from DRAM`)
        await first.toSsd()
        await first.stop()
        await risen(route.readBytes)

        const second = await TestEngine.start(manager.socketPath, { ...shape, salt: name, device: gpu().uuid })
        const cold = await second.find(keys)
        if (cold.kind !== 'ready') return t.fail(`${name}: not found on SSD`)
        t.is(await second.restore(keys, cold.lease), 0, `${name}: from SSD`)
        const engineBytes = second.blockBytes * blocks
        const read = await risen(route.readBytes)
        t.true(read >= engineBytes, `${name}: ${read} bytes were read for ${engineBytes}`)
        await second.stop()
      }
      await ends()
    },
  )
}

testOnGpu('engines on host and GPU are served side by side, each by the lanes of its device', async (t) => {
  const { manager, ends } = await startManager(t, URING_ROUTES[1] as (typeof URING_ROUTES)[number])
  const shape = { layers: 4, segmentBytes: 16 * KIB }
  const onHost = await TestEngine.start(manager.socketPath, shape)
  const onGpu = await TestEngine.start(manager.socketPath, { ...shape, device: gpu().uuid })
  const keys = keysNamed('both', 8)
  await onHost.publish(keys)
  await onHost.toSsd()
  // The same namespace: what the host's pages held is found by the engine on the GPU.
  const found = await onGpu.find(keys)
  if (found.kind !== 'ready') return t.fail('not found')
  t.is(await onGpu.restore(keys, found.lease), 0)
  const more = keysNamed('from the GPU', 8)
  await onGpu.publish(more)
  const back = await onHost.find(more)
  if (back.kind !== 'ready') return t.fail('not found')
  t.is(await onHost.restore(more, back.lease), 0)
  await Promise.all([onHost.stop(), onGpu.stop()])
  await ends()
})

testOnGpu('two ranks on one GPU publish and restore their own parts', async (t) => {
  const { manager, ends } = await startManager(t, URING_ROUTES[0] as (typeof URING_ROUTES)[number])
  const engine = await TestEngine.start(manager.socketPath, { tpSize: 2, device: gpu().uuid })
  const keys = keysNamed('ranks', 6)
  await engine.publish(keys)
  await engine.toSsd()
  const found = await engine.find(keys)
  if (found.kind !== 'ready') return t.fail('not found')
  t.is(await engine.restore(keys, found.lease), 0)
  await engine.stop()
  await ends()
})
