import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { Between } from '../support/between.js'
import { declareCodedGates } from '../support/coded-gates.js'
import { DRIVER_FDS_MAX, twinUuid } from '../support/cuda-twin.js'
import { declareCufileGates } from '../support/cufile-gates.js'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import type { GateBed } from '../support/gate-bed.js'
import { gateManager } from '../support/gate-manager.js'
import { claimLayouts } from '../support/layout-claims.js'
import { ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { shim, useCudaShims } from '../support/shims.js'

/**
 * The gates of the cuFile route on a machine without a GPU: device memory, streams, kernels and cuFile are stand-ins, all
 * that is ours is what ships. test/device declares the same gates over the real ones. Nothing here is evidence of native
 * GPUDirect Storage.
 */

const missing = shimMissing()
/** Before the addon's first look for a driver; a Manager that is started inherits it. */
if (missing === null) useCudaShims()

/** The stand-in for cuFile, which every Manager of this test is told of. */
function libcufile(t: ExecutionContext): string {
  const { library, folder } = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_SHIM'] = folder
  return library
}

const bed: GateBed = {
  name: 'cuFile over stand-ins',
  patienceMs: 180_000,
  device: twinUuid,
  between: (t) => new Between(folderOf(t), { libcuda: shim('libcuda'), libcufile: libcufile(t) }),
  shards(t, count, capacity) {
    const folder = join(folderOf(t), 'shards')
    mkdirSync(folder)
    return ['--ssd-cache-path', folder, '--ssd-cache-shards', String(count), '--ssd-cache-capacity', capacity]
  },
  async start(t, flags = [], between) {
    const environment = between?.environment ?? [`ORBITKV_CUFILE_LIBRARY=${libcufile(t)}`]
    const manager = await ManagerChild.start(t, {
      folder: folderOf(t),
      flags: ['--ssd-backend', 'cufile', ...flags],
      launcher: ['env', ...environment],
      ...(flags.includes('--ssd-cache-path') ? { shard: null } : {}),
    })
    return gateManager(t, manager, DRIVER_FDS_MAX)
  },
}

const overStandIns = needs(missing === null, missing ?? '')
declareCufileGates(overStandIns, bed)
declareCodedGates(overStandIns, bed)

overStandIns(
  `${bed.name}: every byte comes back, of unaligned segments and checkpoints above a slot too`,
  async (t) => {
    const run = await bed.start(t, ['--pool-size', '256mb', '--ssd-cache-capacity', '256mb'])
    await claimLayouts(t, run, bed.device(), 'orbitkv_ssd_cufile_read_bytes_total')
    await run.ends()
  },
)
