import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SsdRoutes } from '../../src/shared/routing/ssd-selection.js'
import { ManagerChild } from '../support/manager-child.js'
import { COMPATIBLE, CUFILE_ROUTE, diskFolder, startManager, testOnGpu } from './gpu.js'

interface Health {
  readonly ssd: SsdRoutes
  readonly cuda: { readonly served: readonly { readonly uuid: string }[] }
}

async function healthOf(manager: ManagerChild): Promise<Health> {
  return JSON.parse((await manager.get('/health')).body) as Health
}

function loaded(manager: ManagerChild, library: string): boolean {
  return readFileSync(`/proc/${manager.pid}/maps`, 'utf8').includes(library)
}

testOnGpu(
  'selection: auto takes native cuFile where the driver has it, else io_uring with the true reason',
  async (t) => {
    const { manager, ends } = await startManager(t, { flags: ['--ssd-backend', 'auto'], launcher: [] })
    const { ssd, cuda } = await healthOf(manager)
    t.log(`auto selected ${ssd.backend}: ${ssd.cause}, ${ssd.reason}`)
    t.true(cuda.served.length >= 1)
    if (ssd.backend === 'cufile') {
      t.like(ssd, { readRoute: 'cufile', writeRoute: 'cufile', evidence: 'native-only', cause: 'native' })
    } else {
      t.like(ssd, { readRoute: 'dram', writeRoute: 'uring', fellBack: true, evidence: null })
      t.true(
        ['no-kernels', 'filesystem', 'library', 'version', 'driver', 'compatibility', 'registration'].includes(
          ssd.cause,
        ),
      )
      t.false(
        (await manager.metrics()).has('orbitkv_ssd_cufile_read_bytes_total'),
        'a route that is off has no metrics',
      )
    }
    await ends()
  },
)

testOnGpu('selection: compatibility variables do not make auto take cuFile', async (t) => {
  const { manager, ends } = await startManager(t, { flags: ['--ssd-backend', 'auto'], launcher: COMPATIBLE })
  const { ssd } = await healthOf(manager)
  if (ssd.backend === 'cufile') t.is(ssd.evidence, 'native-only')
  else t.true(ssd.fellBack)
  await ends()
})

testOnGpu('selection: uring never opens libcufile', async (t) => {
  const { manager, ends } = await startManager(t, { flags: ['--ssd-backend', 'uring'], launcher: COMPATIBLE })
  t.false(loaded(manager, 'libcufile'))
  t.true(loaded(manager, 'libcuda'))
  await ends()
})

testOnGpu('selection: explicit cufile starts in compatibility mode where it is allowed, and says so', async (t) => {
  const { manager, ends } = await startManager(t, CUFILE_ROUTE)
  const { ssd } = await healthOf(manager)
  t.like(ssd, { backend: 'cufile', readRoute: 'cufile', writeRoute: 'cufile', evidence: 'compatibility-allowed' })
  t.true(loaded(manager, 'libcufile'))
  t.true(manager.lines.some(({ msg }) => msg?.includes('no evidence of native GDS') === true))
  await ends()
})

testOnGpu(
  'selection: a read path pinned to cufile refuses to start under auto where cuFile is not native',
  async (t) => {
    const probe = await startManager(t, { flags: ['--ssd-backend', 'auto'], launcher: [] })
    const { ssd } = await healthOf(probe.manager)
    await probe.ends()
    if (ssd.backend === 'cufile') {
      t.pass('cuFile is native here')
      return
    }
    const folder = diskFolder(t)
    const flags = ['--ssd-backend', 'auto', '--ssd-read-path', 'cufile', '--devices', 'all']
    const end = await ManagerChild.refused(t, { folder, flags, shard: join(folder, 'shard.dat') })
    t.is(end.exitCode, 1)
    t.regex(end.stderr, /--ssd-read-path cufile: .*\[cufile_unavailable\]/)
  },
)

testOnGpu(
  'selection: a shard that does not fit the disk refuses the start by its name, and gives its space back',
  async (t) => {
    const folder = diskFolder(t)
    const shard = join(folder, 'shard.dat')
    const flags = ['--ssd-backend', 'cufile', '--devices', 'all', '--ssd-cache-capacity', '900tb']
    const end = await ManagerChild.refused(t, { folder, flags, shard, launcher: COMPATIBLE })
    t.is(end.exitCode, 1)
    t.regex(end.stderr, /\[(capacity_disk|io_open_failed)\]/)
  },
)
