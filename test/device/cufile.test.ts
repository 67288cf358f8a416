import { keysNamed, spread, TestEngine } from '../support/engine.js'
import { CUFILE_ROUTE, gpu, startManager, testOnGpu } from './gpu.js'

const KIB = 1024
const PAGE_BYTES = 64 * KIB
/** One block is one extent of 64 KiB. */
const SHAPE = { layout: 'packed', layers: 1, segmentBytes: PAGE_BYTES / 2, pages: 16 } as const

const READS = 'orbitkv_ssd_cufile_reads_total'
const READ_BYTES = 'orbitkv_ssd_cufile_read_bytes_total'

/** Publishes four blocks, so that only the SSD has them, and leases them. */
async function four(socketPath: string, name: string): Promise<{ engine: TestEngine; keys: Buffer; lease: number }> {
  const engine = await TestEngine.start(socketPath, { ...SHAPE, salt: name, device: gpu().uuid })
  const keys = keysNamed(name, 4)
  await engine.publish(keys)
  await engine.toSsd()
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error('four blocks were not found')
  return { engine, keys, lease: found.lease }
}

testOnGpu('cuFile (compatibility mode): four adjacent pages of 64 KiB are one read of 256 KiB', async (t) => {
  const { manager, risen, ends } = await startManager(t, CUFILE_ROUTE)
  const { engine, keys, lease } = await four(manager.socketPath, 'adjacent')
  t.true((await manager.metric('orbitkv_ssd_cufile_write_bytes_total')) >= 4 * PAGE_BYTES, 'written from the GPU')
  t.deepEqual([await risen(READS), await risen(READ_BYTES)], [0, 0])
  t.is(await engine.restore(keys, lease), 0)
  t.deepEqual([await risen(READS), await risen(READ_BYTES)], [1, 4 * PAGE_BYTES])
  await engine.stop()
  await ends()
})

testOnGpu('cuFile (compatibility mode): alternating pages are 128 KiB in two reads, without the gap', async (t) => {
  const { manager, risen, ends } = await startManager(t, CUFILE_ROUTE)
  const { engine, lease } = await four(manager.socketPath, 'alternating')
  await Promise.all([risen(READS), risen(READ_BYTES)])
  const pages = spread(2, SHAPE.pages)
  engine.rank.poison(pages)
  engine.rank.memory.flush()
  const pairs = Uint32Array.of(0, pages[0] as number, 2, pages[1] as number)
  await engine.rank.client.restore({ lease, groups: [{ group: 0, pairs }] })
  t.deepEqual([await risen(READS), await risen(READ_BYTES)], [2, 2 * PAGE_BYTES])
  engine.rank.memory.fetch()
  const keys = keysNamed('alternating', 4)
  t.is(engine.rank.wrongSegments(keys.subarray(0, 32), pages[0] as number), 0)
  t.is(engine.rank.wrongSegments(keys.subarray(64, 96), pages[1] as number), 0)
  t.true(engine.rank.guardsIntact(pages))
  await engine.stop()
  await ends()
})

testOnGpu(
  'cuFile (compatibility mode): a group that two publications bring is sealed by DRAM and restored by cuFile',
  async (t) => {
    const { manager, risen, ends } = await startManager(t, CUFILE_ROUTE)
    const engine = await TestEngine.start(manager.socketPath, { layers: 4, segmentBytes: 16 * KIB, device: gpu().uuid })
    const keys = keysNamed('fragments', 6)
    await engine.publishLayers(engine.rank, keys, [0, 1])
    t.is(await engine.hits(keys), 0, 'half a group is not findable')
    await engine.publishLayers(engine.rank, keys, [2, 3])
    await engine.toSsd()
    t.is(await manager.metric('orbitkv_ssd_cufile_write_bytes_total'), 0, 'fragments are written by io_uring')
    const found = await engine.find(keys)
    if (found.kind !== 'ready') return t.fail('not found')
    t.is(await engine.restore(keys, found.lease), 0)
    t.true((await risen(READ_BYTES)) >= engine.blockBytes * 6)
    await engine.stop()
    await ends()
  },
)

testOnGpu(
  'cuFile (compatibility mode): --ssd-read-path uring reads by io_uring and still writes by cuFile',
  async (t) => {
    const route = { ...CUFILE_ROUTE, flags: [...CUFILE_ROUTE.flags, '--ssd-read-path', 'uring'] }
    const { manager, ends } = await startManager(t, route)
    const { engine, keys, lease } = await four(manager.socketPath, 'pinned')
    t.is(await engine.restore(keys, lease), 0)
    t.is(await manager.metric(READ_BYTES), 0)
    t.true((await manager.metric('orbitkv_ssd_cufile_write_bytes_total')) >= 4 * PAGE_BYTES)
    t.true((await manager.metric('orbitkv_ssd_restore_read_bytes_total')) >= 4 * PAGE_BYTES)
    await engine.stop()
    await ends()
  },
)
