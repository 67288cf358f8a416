import { keysNamed, TestEngine } from '../support/engine.js'
import { claimLayouts } from '../support/layout-claims.js'
import { CUFILE_ROUTE, gpu, startManager, testOnGpu, URING_ROUTES } from './gpu.js'

const KIB = 1024

for (const route of [...URING_ROUTES, CUFILE_ROUTE]) {
  testOnGpu(
    `every byte of pages on the GPU comes back from DRAM and from SSD by ${route.name}, and no other changes`,
    async (t) => {
      const run = await startManager(t, route)
      await claimLayouts(t, run, gpu().uuid, route.readBytes)
      await run.ends()
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
