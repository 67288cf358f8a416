import type { ExecutionContext } from 'ava'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/**
 * The cuFile route across processes, over a stand-in for the library and host memory for a GPU: what the Manager does
 * with staging, whatever it is made of.
 */

const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')

interface Bed {
  readonly manager: ManagerChild
  readonly shim: CuFileShim
}

async function start(t: ExecutionContext, flags: readonly string[] = ['--ssd-backend', 'cufile']): Promise<Bed> {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_TEST_HOST_STAGING'] = '1'
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
  return { manager, shim }
}

for (const layout of ['packed', 'split'] as const) {
  shimTest(`publish, drop DRAM, restore by cuFile: every byte is equal, ${layout}`, async (t) => {
    const { manager, shim } = await start(t)
    const engine = await TestEngine.start(manager.socketPath, { layout, salt: t.title })
    const keys = keysNamed(t.title, 8)
    await engine.publish(keys)
    t.true((await manager.metric('orbitkv_ssd_cufile_write_bytes_total')) > 0, 'blocks went by cuFile')
    t.is(await manager.metric('orbitkv_ssd_write_bytes_total'), 0, 'none went by io_uring')
    await engine.scheduler.dropDram()
    t.is(await manager.metric('orbitkv_cache_resident_blocks'), 0)
    const found = await engine.find(keys)
    t.is(found.kind, 'ready')
    if (found.kind !== 'ready') return
    t.is(await engine.restore(keys, found.lease), 0, 'every byte is equal')
    t.true((await manager.metric('orbitkv_ssd_cufile_read_bytes_total')) > 0)
    t.true(shim.transfers().some(({ kind }) => kind === 'read'))
    await engine.stop()
    await eventually(
      'staging is gone with its engine',
      async () => (await manager.metric('orbitkv_ssd_gpu_staging_bytes')) === 0,
    )
    await endsClean(t, manager)
  })
}
