import type { ExecutionContext } from 'ava'
import { oracleOf } from '../support/coded-gates.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/**
 * Encoded pages over the cuFile route: written from where a device made them, read into staging, checked and decoded there. Over a
 * stand-in for the library, with host memory for a GPU and with the twin of libcuda. Nothing here says anything of
 * native GPUDirect Storage.
 */

const LAYERS = 6
const BLOCKS = 6
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 24, headDim: 128 } as const

interface Routes {
  readonly readRoute: string
  readonly writeRoute: string
}

const reason = shimMissing() ?? ''
const shimTest = needs(reason === '', reason)
const twinReason = reason || noCudaTwin()
const twinTest = needs(twinReason === '', twinReason)

type Codec = 'fp8' | 'turboquant-4' | 'turboquant-3'

/** A Manager over the stand-ins that stores by a codec, with the cuFile backend. */
async function started(t: ExecutionContext, codec: Codec, gpu: boolean, more: readonly string[] = []) {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  if (gpu) delete process.env['ORBITKV_CUFILE_HOST_STAGING']
  else process.env['ORBITKV_CUFILE_HOST_STAGING'] = '1'
  const flags = ['--ssd-backend', 'cufile', '--storage-codec', codec, '--devices', gpu ? 'all' : 'none', ...more]
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: [...flags, '--pool-size', '64mb'] })
  const { ssd } = JSON.parse((await manager.get('/health')).body) as { readonly ssd: Routes }
  t.is(ssd.writeRoute, 'cufile')
  return { shim, manager, readRoute: ssd.readRoute }
}

/** Blocks of one engine go to the SSD and into the pages of another. */
async function travels(t: ExecutionContext, codec: Codec, manager: ManagerChild, device: string) {
  const oracle = oracleOf(codec)
  const shape = { ...SHAPE, salt: t.title, device, oracle }
  const engine = await TestEngine.start(manager.socketPath, shape)
  const keys = keysNamed(t.title, BLOCKS)
  await engine.publish(keys)
  await engine.toSsd()
  await engine.stop()
  // What was held for a write is nobody's once its engine has gone.
  t.is(await manager.metric('orbitkv_ssd_cufile_held_codings'), 0)
  t.is(await manager.metric('orbitkv_storage_codec_reserved_bytes'), 0)

  const other = await TestEngine.start(manager.socketPath, shape)
  const found = await other.find(keys)
  if (found.kind !== 'ready') return t.fail(found.kind)
  t.is(found.blocksSsd, BLOCKS)
  t.is(await other.restore(keys, found.lease), 0)
  t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
  t.is(await manager.metric('orbitkv_storage_codec_decode_failures_total'), 0)
  await other.stop()
  const gone = async () => (await manager.metric('orbitkv_ssd_gpu_staging_bytes')) === 0
  await eventually('staging is gone with its engine', gone)
}

/** On a device every block goes from where its codings were made: nothing by io_uring, everything in full. */
async function writtenByCufile(t: ExecutionContext, manager: ManagerChild): Promise<void> {
  t.true((await manager.metric('orbitkv_ssd_cufile_writes_total')) > 0)
  t.is(await manager.metric('orbitkv_ssd_cufile_objects_written_total'), BLOCKS)
  t.is(await manager.metric('orbitkv_ssd_encoded_write_fallbacks_total'), 0)
  t.is(await manager.metric('orbitkv_ssd_gpu_write_fallbacks_total'), 0)
}

for (const codec of ['fp8', 'turboquant-4', 'turboquant-3'] as const) {
  shimTest(
    `${codec}: in host memory nothing holds codings: written from DRAM, read by cuFile and decoded from staging`,
    async (t) => {
      const { manager, readRoute } = await started(t, codec, false)
      t.is(readRoute, 'cufile')
      await travels(t, codec, manager, '')
      t.is(await manager.metric('orbitkv_ssd_cufile_writes_total'), 0)
      t.true((await manager.metric('orbitkv_ssd_encoded_write_fallbacks_total')) > 0, 'and it is counted')
      t.true((await manager.metric('orbitkv_ssd_cufile_reads_total')) > 0)
      await endsClean(t, manager)
    },
  )
  twinTest(
    `${codec}: encoded blocks are written by cuFile from the device, read by it and decoded from staging`,
    async (t) => {
      const { manager, readRoute } = await started(t, codec, true)
      t.is(readRoute, 'cufile')
      await travels(t, codec, manager, twinUuid())
      await writtenByCufile(t, manager)
      t.true((await manager.metric('orbitkv_ssd_cufile_reads_total')) > 0)
      await endsClean(t, manager, DRIVER_FDS_MAX)
    },
  )
  twinTest(`${codec}: what cuFile wrote of codings is read by io_uring, too`, async (t) => {
    const { manager, readRoute } = await started(t, codec, true, ['--ssd-read-path', 'uring'])
    t.is(readRoute, 'uring')
    await travels(t, codec, manager, twinUuid())
    await writtenByCufile(t, manager)
    t.is(await manager.metric('orbitkv_ssd_cufile_reads_total'), 0)
    await endsClean(t, manager, DRIVER_FDS_MAX)
  })
}

twinTest('a budget that leaves a staging slot no room to decode: everything is raw, and cuFile reads it', async (t) => {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  delete process.env['ORBITKV_CUFILE_HOST_STAGING']
  const flags = ['--ssd-backend', 'cufile', '--storage-codec', 'fp8', '--storage-codec-budget', '32kb']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: [...flags, '--pool-size', '64mb'] })
  const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, salt: t.title, device: twinUuid() })
  const keys = keysNamed(t.title, BLOCKS)
  await engine.publish(keys)
  t.is(await manager.metric('orbitkv_storage_codec_bytes_total'), 0)
  t.true((await manager.metric('orbitkv_storage_codec_skips_total')) > 0)
  await engine.toSsd()
  const found = await engine.find(keys)
  if (found.kind !== 'ready') return t.fail(found.kind)
  t.is(await engine.restore(keys, found.lease), 0)
  t.true((await manager.metric('orbitkv_ssd_cufile_reads_total')) > 0, 'cuFile reads')
  t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
  await engine.stop()
  await endsClean(t, manager, DRIVER_FDS_MAX)
})
