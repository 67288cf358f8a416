import { openSync, readdirSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { keysNamed, type Ready, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/**
 * The cuFile route across processes, over a stand-in for the library and host memory for a GPU: what the Manager does
 * with whatever the library answers. Nothing here says anything of native GPUDirect Storage. What merges, waits, holds
 * and ends is in cufile-gates.test.ts.
 */

const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')
/** Generous: a machine may be busy with other things. */
const PATIENCE_MS = 60_000

interface Bed {
  readonly manager: ManagerChild
  readonly shim: CuFileShim
  readonly engine: TestEngine
  readonly folder: string
}

async function start(t: ExecutionContext, flags: readonly string[] = ['--ssd-backend', 'cufile']): Promise<Bed> {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_HOST_STAGING'] = '1'
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  const folder = folderOf(t)
  const manager = await ManagerChild.start(t, { folder, flags })
  const engine = await TestEngine.start(manager.socketPath, {
    layout: 'packed',
    salt: t.title,
    slotCount: 16,
    pages: 32,
  })
  return { manager, shim, engine, folder }
}

async function ready(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

/** Blocks that only the SSD has, and a lease on them. */
async function onSsd({ engine }: Bed, keys: Uint8Array): Promise<Ready> {
  await engine.publish(keys)
  await engine.scheduler.dropDram()
  return await ready(engine, keys)
}

/** Ends the engine, waits for its staging to go, and the Manager with every gauge at zero. */
async function ends(t: ExecutionContext, { manager, engine }: Bed): Promise<void> {
  await engine.stop()
  const gone = async () => (await manager.metric('orbitkv_ssd_gpu_staging_bytes')) === 0
  await eventually('staging is gone with its engine', gone, PATIENCE_MS)
  t.is(await manager.metric('orbitkv_ssd_cufile_inflight_batches'), 0)
  await endsClean(t, manager)
}

for (const layout of ['packed', 'split'] as const) {
  shimTest(`publish, drop DRAM, restore by cuFile: every byte is equal, ${layout}`, async (t) => {
    const bed = await start(t)
    const { manager, shim } = bed
    const engine = await TestEngine.start(manager.socketPath, { layout, salt: `${t.title}, another` })
    const keys = keysNamed(t.title, 8)
    await engine.publish(keys)
    t.true((await manager.metric('orbitkv_ssd_cufile_write_bytes_total')) > 0, 'blocks went by cuFile')
    t.is(await manager.metric('orbitkv_ssd_write_bytes_total'), 0, 'none went by io_uring')
    await engine.scheduler.dropDram()
    const empty = async () => (await manager.metric('orbitkv_cache_resident_blocks')) === 0
    await eventually('DRAM is empty', empty, PATIENCE_MS)
    const { lease } = await ready(engine, keys)
    t.is(await engine.restore(keys, lease), 0, 'every byte is equal')
    t.true((await manager.metric('orbitkv_ssd_cufile_read_bytes_total')) > 0)
    t.true(shim.transfers().some(({ kind }) => kind === 'read'))
    await engine.stop()
    await ends(t, bed)
  })
}

shimTest(
  'whatever a read answers, its restore fails, the route stays, and the next restore has every byte',
  async (t) => {
    const bed = await start(t)
    const { manager, shim, engine } = bed
    const keys = keysNamed(t.title, 4)
    await onSsd(bed, keys)
    let failures = 0
    for (const [told, code] of [
      ['5027', 'io_read_failed'],
      ['5030', 'io_read_failed'],
      ['-5', 'io_read_failed'],
      ['short', 'io_short'],
    ] as const) {
      const { lease } = await ready(engine, keys)
      shim.tell('read', told)
      await t.throwsAsync(engine.restore(keys, lease), { code } as object, told)
      shim.forget('read')
      const count = await manager.metric('orbitkv_ssd_cufile_read_failures_total')
      t.true(count > failures, told)
      failures = count
      t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0, `after ${told}`)
    }
    t.is(await manager.metric('orbitkv_ssd_backend_fallbacks_total'), 0, 'an explicit route never switches')
    await ends(t, bed)
  },
)

shimTest('a write that fails or comes short is saved in DRAM and never found on SSD', async (t) => {
  const bed = await start(t)
  const { manager, shim, engine } = bed
  for (const told of ['5030', '-5', 'short'] as const) {
    const keys = keysNamed(`${t.title} ${told}`, 3)
    shim.tell('write', told)
    await engine.publish(keys)
    shim.forget('write')
    t.is(await engine.hits(keys), 3, `${told}: in DRAM`)
    await engine.scheduler.dropDram()
    t.is(await engine.hits(keys), 0, `${told}: not on SSD`)
    await engine.publish(keys)
    await engine.scheduler.dropDram()
    t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0, `${told}: published again`)
  }
  t.true((await manager.metric('orbitkv_ssd_cufile_write_failures_total')) >= 3)
  await ends(t, bed)
})

shimTest('a buffer that does not register fails the operation alone', async (t) => {
  const bed = await start(t)
  const { shim, engine } = bed
  const keys = keysNamed(t.title, 2)
  shim.tell('buffer', 5016)
  await t.throwsAsync(engine.publish(keys))
  t.is(await engine.hits(keys), 0, 'its copies had no stream to go by')
  shim.forget('buffer')
  await engine.publish(keys)
  await engine.scheduler.dropDram()
  t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0)
  await ends(t, bed)
})

shimTest(
  'bytes that rot on the disk never reach a page: the restore fails, the block is a miss from then on',
  async (t) => {
    const bed = await start(t)
    const { engine, folder } = bed
    const keys = keysNamed(t.title, 1)
    const { lease } = await onSsd(bed, keys)
    const name = readdirSync(folder).find((each) => each.endsWith('shard.dat')) ?? ''
    const file = openSync(join(folder, name), 'r+')
    writeSync(file, Buffer.alloc(4096, 0xee), 0, 4096, 0)
    await t.throwsAsync(engine.restore(keys, lease), { code: 'checksum_mismatch' } as object)
    t.is(await engine.hits(keys), 0)
    await ends(t, bed)
  },
)
