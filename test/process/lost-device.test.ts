import type { ExecutionContext } from 'ava'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { CuFileShim } from '../support/cufile-shim.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { cudaFaultsOfChildren } from '../support/shims.js'

/** A device that meets a sticky error under a Manager, over twins of the driver and of libcufile. */

const reason = noCudaTwin()
const testOverTwin = needs(reason === '', reason)

/** Exit code of a process that a part of it has ended. */
const EXIT_BROKEN = 70

function shape() {
  return { layers: 4, segmentBytes: 5_000, device: twinUuid() }
}

/** A Manager whose first kernel meets `fault`. */
async function startWith(
  t: ExecutionContext,
  fault: string,
  folder: string,
  flags: readonly string[],
): Promise<ManagerChild> {
  cudaFaultsOfChildren(fault)
  const manager = ManagerChild.launch(t, { folder, flags })
  cudaFaultsOfChildren('')
  await manager.serving()
  return manager
}

for (const [lane, flags] of [
  ['dram-worker-cuda0', ['--ssd-backend', 'uring']],
  ['ssd-worker-cuda0', ['--ssd-backend', 'cufile']],
] as const) {
  testOverTwin(
    `a sticky error in ${lane} ends the Manager with the driver's words; the next one serves the same engine shape clean`,
    async (t) => {
      const shim = new CuFileShim(folderOf(t))
      process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
      process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
      const folder = folderOf(t)
      const keys = keysNamed(t.title, 8)
      const lost = await startWith(t, 'sticky=700', folder, flags)
      const before = await TestEngine.start(lost.socketPath, shape())
      await t.throwsAsync(before.publish(keys), undefined, 'nobody is told that it is saved')
      const end = await lost.ended
      t.is(end.exitCode, EXIT_BROKEN, `${end.stdout}${end.stderr}`)
      const report = lost.lines.find(({ msg }) => msg === 'a lane ended: the process ends with it')
      t.is(report?.['lane'], lane)
      t.regex(JSON.stringify(report), /Cannot go on with CUDA device 0: .*CUDA_ERROR_ILLEGAL_ADDRESS \(700\)/)
      await before.stop().catch(() => {})

      const manager = await ManagerChild.start(t, { folder, flags })
      const after = await TestEngine.start(manager.socketPath, shape())
      await after.publish(keys)
      await after.toSsd()
      const found = await after.find(keys)
      if (found.kind !== 'ready') return t.fail('what was published is found')
      t.is(await after.restore(keys, found.lease), 0)
      await after.stop()
      await endsClean(t, manager, DRIVER_FDS_MAX)
    },
  )
}
