import { randomBytes } from 'node:crypto'
import test from 'ava'
import { connect, type ErrorCode, type OrbitError, type Registration } from '../../src/client/index.js'
import { keysNamed, memoryBytesOf, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { EngineChild } from '../support/engine-child.js'
import { eventually } from '../support/manager-child.js'
import { createPageMemory } from '../support/page-memory.js'
import { gpu, NO_GPU, startManager, testOnGpu, URING_ROUTES } from './gpu.js'

const [DRAM] = URING_ROUTES as [(typeof URING_ROUTES)[number]]

test('the machine either has a device, or these tests say why they are skipped', (t) => {
  t.is(
    NO_GPU === '',
    (() => {
      try {
        return gpu().uuid.startsWith('GPU-')
      } catch {
        return false
      }
    })(),
  )
})

testOnGpu(
  'REGISTER: what is wrong with device memory is refused by name, and the session can still register',
  async (t) => {
    const { manager, ends } = await startManager(t, DRAM)
    const shape = { ...SHAPE, device: gpu().uuid }
    const memory = createPageMemory(shape.device, memoryBytesOf(shape))
    memory.view.fill(7)
    memory.flush()
    const good = registrationOf(shape, 0, memory, randomBytes(16))
    const [mine] = good.memory as [{ handle: Uint8Array; offsetBytes: number; bytes: number }]
    const right = { region: 0, firstPage: new Uint8Array(64).fill(7), lastPage: new Uint8Array(64).fill(7) }
    const cases: readonly (readonly [string, ErrorCode, Partial<Registration>])[] = [
      ['another UUID', 'device_unknown', { device: { kind: 'cuda', uuid: randomBytes(16) } }],
      ['device memory of a host rank', 'device_unsupported', { device: { kind: 'host', uuid: new Uint8Array(16) } }],
      ['a handle of random bytes', 'memory_not_importable', { memory: [{ ...mine, handle: randomBytes(64) }] }],
      ['a handle of zeros', 'memory_not_importable', { memory: [{ ...mine, handle: new Uint8Array(64) }] }],
      ['bytes outside the allocation', 'memory_not_importable', { memory: [{ ...mine, offsetBytes: 1 << 40 }] }],
      ['one allocation twice', 'region_overlap', { memory: [mine, mine] }],
      ['a canary that differs', 'canary_mismatch', { canaries: [{ ...right, lastPage: randomBytes(64) }] }],
    ]
    const client = await connect({ socketPath: manager.socketPath, role: 'worker', engine: 't', engineVersion: '1' })
    for (const [what, code, change] of cases) {
      const error = await t.throwsAsync<OrbitError>(client.register({ ...good, ...change }), undefined, what)
      t.is(error?.code, code, `${what}: ${error?.message}`)
    }
    await client.register({ ...good, canaries: [right] })
    await client.close()
    memory.close()
    await ends()
  },
)

testOnGpu(
  'an engine that is killed with its pages mapped and a copy waiting leaves nothing, and the next one is served',
  async (t) => {
    const { manager, ends } = await startManager(t, DRAM)
    const shape = { layers: 8, segmentBytes: 64 * 1024, device: gpu().uuid }
    const doomed = await EngineChild.start(t, manager.socketPath, shape)
    t.is(await doomed.ask('publish', 'kept', 8), 8)
    t.is(await doomed.ask('to-ssd', '', 0), 0)
    await doomed.ask('fenced-restore', 'kept', 8)
    await doomed.kill()
    await eventually('its sessions are gone', async () => (await manager.metric('orbitkv_sessions')) === 0, 60_000)
    const next = await TestEngine.start(manager.socketPath, shape)
    const keys = keysNamed('kept', 8)
    const found = await next.find(keys)
    if (found.kind !== 'ready') return t.fail('what was published is kept')
    t.is(await next.restore(keys, found.lease), 0)
    await next.stop()
    await ends()
  },
)

testOnGpu('engines that are killed while they publish and restore never leave a wrong byte', async (t) => {
  const { manager, ends } = await startManager(t, DRAM)
  const shape = { layers: 4, segmentBytes: 32 * 1024, device: gpu().uuid }
  for (let round = 0; round < 4; round++) {
    const doomed = await EngineChild.start(t, manager.socketPath, shape)
    await doomed.ask('work', 'work', 6)
    const before = await manager.metric('orbitkv_publishes_total')
    await eventually(
      'it works',
      async () => (await manager.metric('orbitkv_publishes_total')) > before + 2 || round > 0,
      60_000,
    )
    await doomed.kill()
  }
  const last = await TestEngine.start(manager.socketPath, shape)
  for (let i = 0; i < 8; i++) {
    const keys = keysNamed(`work ${i}`, 6)
    const found = await last.find(keys)
    if (found.kind === 'ready')
      t.is(await last.restore(keys.subarray(0, 2 * (found.boundaries.at(-1) ?? 0)), found.lease), 0)
  }
  await last.stop()
  await ends()
})
