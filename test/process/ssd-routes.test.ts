import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { ExecutionContext } from 'ava'
import { connect, type OrbitError } from '../../src/client/index.js'
import { FILESYSTEMS_NATIVE } from '../../src/shared/routing/ssd-selection.js'
import { DRIVER_FDS_MAX, noCudaTwin, twinUuid } from '../support/cuda-twin.js'
import { CuFileShim, type ShimFile, shimMissing } from '../support/cufile-shim.js'
import { keysNamed, memoryBytesOf, type Ready, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild, type ManagerEnd } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { createPageMemory } from '../support/page-memory.js'

/**
 * Which routes a Manager takes, says and leaves, at its command line: over twins of libcuda and libnvrtc, and a stand-in
 * for libcufile that is native unless it is told otherwise. Nothing here says anything of native GPUDirect Storage.
 */

const reason = noCudaTwin() || (shimMissing() ?? '')
const shimTest = needs(reason === '', reason)
/** What is on the disk of these tests: `auto` takes cuFile on qualified filesystems alone. */
const filesystem = statfsSync(tmpdir()).type
const unqualified = FILESYSTEMS_NATIVE.has(filesystem) ? '' : `no ext4 or xfs: 0x${filesystem.toString(16)}`
const autoTest = needs(reason === '' && unqualified === '', reason || unqualified)

interface Host {
  readonly shim: CuFileShim
  readonly folder: string
}

/** A host whose libcufile is told something from the start. */
function host(t: ExecutionContext, told: readonly (readonly [ShimFile, string | number])[] = []): Host {
  const shim = new CuFileShim(folderOf(t))
  for (const [name, value] of told) shim.tell(name, value)
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  delete process.env['ORBITKV_CUFILE_HOST_STAGING']
  return { shim, folder: folderOf(t) }
}

interface SsdHealth {
  readonly backend: string
  readonly readRoute: string
  readonly writeRoute: string
  readonly cause: string
  readonly reason: string
  readonly fellBack: boolean
  readonly now: { readonly readRoute: string; readonly writeRoute: string; readonly cause: string }
  readonly failure: { readonly code: number; readonly reason: string } | null
  readonly ranksByUring: number
}

async function healthOf(manager: ManagerChild): Promise<SsdHealth> {
  return (JSON.parse((await manager.get('/health')).body) as { readonly ssd: SsdHealth }).ssd
}

/** Labels of the one sample of orbitkv_ssd_backend_info. */
async function backendInfo(manager: ManagerChild): Promise<Record<string, string>> {
  const { body } = await manager.get('/metrics')
  const labels = /^orbitkv_ssd_backend_info\{([^}]*)\} 1$/m.exec(body)?.[1] ?? ''
  return Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value as string]))
}

function deviceShape() {
  return { layers: 2, segmentBytes: 8192, device: twinUuid(), pages: 16, slotCount: 8 }
}

async function ready(engine: TestEngine, keys: Uint8Array): Promise<Ready> {
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  return found
}

// --- the table -------------------------------------------------------------------------------------------------------

const BACKENDS = ['auto', 'uring', 'cufile'] as const
const READ_PATHS = [null, 'uring', 'cufile'] as const

/** Rows as in docs/decisions/0012: columns are --ssd-read-path unset, uring, cufile. Read and write route, or a code. */
const TABLE = {
  'native cuFile': {
    auto: ['cufile+cufile', 'uring+cufile', 'cufile+cufile'],
    uring: ['dram+uring', 'uring+uring', 'config_conflict'],
    cufile: ['cufile+cufile', 'uring+cufile', 'cufile+cufile'],
  },
  'a driver that does not open (5001)': {
    auto: ['dram+uring', 'uring+uring', 'cufile_unavailable'],
    uring: ['dram+uring', 'uring+uring', 'config_conflict'],
    cufile: ['cufile_unavailable', 'cufile_unavailable', 'cufile_unavailable'],
  },
} as const

function codeOf({ stderr }: ManagerEnd): string {
  return /\[(\w+)\]\s*$/.exec(stderr)?.[1] ?? stderr
}

for (const [name, rows] of Object.entries(TABLE)) {
  for (const backend of BACKENDS) {
    const cellTest = backend === 'auto' ? autoTest : shimTest
    cellTest(
      `--ssd-backend ${backend} on a host with ${name}: each read path is a route or a named refusal`,
      async (t) => {
        for (const [column, readPath] of READ_PATHS.entries()) {
          const { shim, folder } = host(t, name === 'native cuFile' ? [] : [['open', 5001]])
          const flags = ['--ssd-backend', backend, ...(readPath === null ? [] : ['--ssd-read-path', readPath])]
          const expected = rows[backend][column] as string
          if (!expected.includes('+')) {
            const end = await ManagerChild.refused(t, { folder, flags })
            t.is(end.exitCode, 1)
            t.is(codeOf(end), expected, flags.join(' '))
          } else {
            const manager = await ManagerChild.start(t, { folder, flags })
            const { readRoute, writeRoute, fellBack } = await healthOf(manager)
            t.is(`${readRoute}+${writeRoute}`, expected, flags.join(' '))
            t.is(fellBack, backend === 'auto' && writeRoute === 'uring', 'what auto could not have is said')
            const cufile = (await manager.metrics()).has('orbitkv_ssd_cufile_reads_total')
            t.is(cufile, writeRoute === 'cufile', 'metrics of the route are there with it, and absent without')
            if (!cufile)
              t.deepEqual(
                [...(await manager.metrics()).keys()].filter((each) => each.includes('cufile')),
                [],
              )
            await endsClean(t, manager, DRIVER_FDS_MAX)
          }
          t.is(shim.loaded, backend !== 'uring', `${flags.join(' ')}: uring never opens libcufile`)
        }
      },
    )
  }
}

shimTest(
  'a flag of the SSD tier without --ssd-cache-path is refused, whatever the host has, and opens nothing',
  async (t) => {
    for (const flag of [
      ...BACKENDS.map((each) => ['--ssd-backend', each]),
      ['--ssd-read-path', 'uring'],
      ['--ssd-read-path', 'cufile'],
    ]) {
      const { shim, folder } = host(t)
      const end = await ManagerChild.refused(t, { folder, flags: flag, shard: null })
      t.is(codeOf(end), 'config_conflict', flag.join(' '))
      t.regex(end.stderr, new RegExp(`${flag[0]} .*--ssd-cache-path`))
      t.false(shim.loaded)
    }
  },
)

// --- failures while it runs --------------------------------------------------------------------------------------------

const STOPPED = 'cuFile failed: new SSD work goes by io_uring until restart, named cuFile reads are misses'

/** Extents and staging of what failed. The gauges of a scrape may be some milliseconds old. */
async function allGoneBack(manager: ManagerChild): Promise<void> {
  for (const name of ['orbitkv_ssd_used_bytes', 'orbitkv_ssd_gpu_staging_bytes']) {
    await eventually(`${name} is zero`, async () => (await manager.metric(name)) === 0)
  }
}

/** What the library is told, and the code that the Manager is then said to have met. */
const FAILURES = [
  ['read', '5027', -5027],
  ['read', '-5', -5],
  ['read', 'short', -5],
  ['write', '5001', -5001],
  ['write', 'short', -5],
] as const

for (const [call, told, code] of FAILURES) {
  autoTest(
    `auto: a ${call} that ends with ${told} stops new cuFile work for good, counted once, said in log, health and metric`,
    async (t) => {
      const { shim, folder } = host(t)
      const manager = await ManagerChild.start(t, { folder })
      t.like(await healthOf(manager), { readRoute: 'cufile', writeRoute: 'cufile', cause: 'native', failure: null })
      const engine = await TestEngine.start(manager.socketPath, deviceShape())
      const before = keysNamed(`${t.title}, before`, 3)
      await engine.publish(before)
      await engine.toSsd()
      const written = await manager.metric('orbitkv_ssd_cufile_write_bytes_total')
      t.true(written > 0, 'writes went by cuFile')

      // Two leases of what only the SSD has; the first restore meets the failure.
      const { lease } = await ready(engine, before)
      const { lease: second } = await ready(engine, before)
      shim.tell(call, told)
      if (call === 'read') await t.throwsAsync(engine.restore(before, lease), undefined, 'it keeps its error')
      else await engine.publish(keysNamed(`${t.title}, failing`, 1))
      await eventually('new work is stopped', async () => (await healthOf(manager)).failure !== null)
      // It fails still: whatever would be sent to it would fail as well.
      t.like((await healthOf(manager)).failure, { code })
      t.like((await healthOf(manager)).now, { readRoute: 'dram', writeRoute: 'uring', cause: 'failed' })
      t.like(await backendInfo(manager), {
        backend: 'uring',
        read_route: 'dram',
        write_route: 'uring',
        cause: 'failed',
      })
      t.like(await manager.next(STOPPED), { level: 50, code })

      const transfers = shim.transfers().length
      t.is(await engine.restore(before, second), 0, 'a lease that is older goes by io_uring')
      const after = keysNamed(`${t.title}, after`, 3)
      await engine.publish(after)
      await engine.toSsd()
      t.is(await engine.restore(after, (await ready(engine, after)).lease), 0)
      t.is(await engine.restore(before, (await ready(engine, before)).lease), 0)
      t.is(shim.transfers().length, transfers, 'nothing goes by cuFile any more')
      t.is(await manager.metric('orbitkv_ssd_backend_fallbacks_total'), 1, 'the transition is counted, once')
      t.is(manager.lines.filter(({ msg }) => msg === STOPPED).length, 1, 'and said once')
      t.true((await manager.metric('orbitkv_ssd_write_bytes_total')) > 0, 'writes go by io_uring')
      await engine.stop()
      await endsClean(t, manager, DRIVER_FDS_MAX)
    },
  )
}

autoTest(
  'auto: what was submitted when another job fails keeps its pages and extents, and ends as it would have',
  async (t) => {
    const { shim, folder } = host(t)
    const manager = await ManagerChild.start(t, { folder })
    const reading = await TestEngine.start(manager.socketPath, { ...deviceShape(), salt: 'reading' })
    const writing = await TestEngine.start(manager.socketPath, { ...deviceShape(), salt: 'writing' })
    const old = keysNamed(`${t.title}, old`, 2)
    await reading.publish(old)
    await reading.toSsd()
    const { lease } = await ready(reading, old)
    shim.tell('write', 'hold')
    const keys = keysNamed(`${t.title}, held`, 2)
    const { rank } = writing
    for (const at of [0, 1]) rank.compute(keys.subarray(32 * at, 32 * at + 32), at)
    rank.memory.flush()
    let ended = false
    const held = rank.client
      .publish({ groups: [{ group: 0, layers: null, items: { keys, pages: Uint32Array.of(0, 1) } }] })
      .then(() => {
        ended = true
      })
    await eventually('a write is held', async () => (await manager.metric('orbitkv_ssd_cufile_inflight_writes')) === 1)
    shim.tell('read', '5027')
    await t.throwsAsync(reading.restore(old, lease))
    await eventually('new work is stopped', async () => (await healthOf(manager)).failure !== null)
    t.false(ended, 'its pages are in use')
    t.is(await manager.metric('orbitkv_ssd_cufile_inflight_writes'), 1, 'its slot is, too')
    const commits = await manager.metric('orbitkv_ssd_write_commits_total')
    shim.forget('write')
    await held
    t.is((await manager.metric('orbitkv_ssd_write_commits_total')) - commits, 2, 'its blocks are on the SSD')
    await writing.scheduler.dropDram()
    t.is(await writing.restore(keys, (await ready(writing, keys)).lease), 0, 'every byte of them')
    await reading.stop()
    await writing.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

autoTest(
  'auto with --ssd-read-path cufile: after a failure SSD blocks are misses, old leases refused, DRAM and hints serve',
  async (t) => {
    const { shim, folder } = host(t)
    const manager = await ManagerChild.start(t, { folder, flags: ['--ssd-read-path', 'cufile'] })
    const engine = await TestEngine.start(manager.socketPath, deviceShape())
    const keys = keysNamed(t.title, 3)
    await engine.publish(keys)
    await engine.toSsd()
    const { lease } = await ready(engine, keys)
    const { lease: second } = await ready(engine, keys)
    shim.tell('read', '5027')
    await t.throwsAsync(engine.restore(keys, lease), { code: 'io_read_failed' } as object)
    await eventually('new work is stopped', async () => (await healthOf(manager)).failure !== null)
    t.like((await healthOf(manager)).now, { readRoute: 'unavailable', writeRoute: 'uring' })
    await t.throwsAsync(engine.restore(keys, second), { code: 'cufile_unavailable' } as object)
    t.is(await engine.hits(keys), 0, 'no other route replaces it')
    // A hint still brings blocks to DRAM, by io_uring: the named route is one of demand reads.
    await engine.scheduler.warm([{ group: 0, firstBlock: 0, keys }])
    await eventually('the hint has landed', async () => (await engine.hits(keys)) === 3)
    t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0)
    t.is(await manager.metric('orbitkv_ssd_backend_fallbacks_total'), 1)
    await engine.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

autoTest(
  'auto: a staging buffer that does not register fails its operation, stops new cuFile work, and is given back',
  async (t) => {
    const { folder } = host(t, [['buffer', 5016]])
    const manager = await ManagerChild.start(t, { folder })
    const engine = await TestEngine.start(manager.socketPath, deviceShape())
    const keys = keysNamed(t.title, 2)
    await t.throwsAsync(engine.publish(keys), { code: 'io_open_failed' } as object)
    await eventually('new work is stopped', async () => (await healthOf(manager)).failure !== null)
    await allGoneBack(manager)
    t.is(await engine.hits(keys), 0)
    await engine.publish(keys)
    await engine.toSsd()
    t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0, 'the next goes by io_uring')
    await engine.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

shimTest(
  'cufile: a staging buffer that does not register fails publish and restore by name; the retry opens the worker anew',
  async (t) => {
    const { shim, folder } = host(t)
    const manager = await ManagerChild.start(t, { folder, flags: ['--ssd-backend', 'cufile'] })
    const keys = keysNamed(t.title, 2)
    shim.tell('buffer', 5016)
    const first = await TestEngine.start(manager.socketPath, { ...deviceShape(), salt: t.title })
    await t.throwsAsync(first.publish(keys), { code: 'io_open_failed' } as object)
    t.is(await first.hits(keys), 0, 'nothing of it is findable')
    await allGoneBack(manager)
    shim.forget('buffer')
    await first.publish(keys)
    await first.toSsd()
    await first.stop()
    // The staging of an engine that was started again is its own: its first job is a restore.
    shim.tell('buffer', 5016)
    const second = await TestEngine.start(manager.socketPath, { ...deviceShape(), salt: t.title })
    const { lease } = await ready(second, keys)
    await t.throwsAsync(second.restore(keys, lease), { code: 'io_open_failed' } as object)
    shim.forget('buffer')
    t.is(await second.restore(keys, (await ready(second, keys)).lease), 0)
    t.is(await manager.metric('orbitkv_ssd_backend_fallbacks_total'), 0, 'an explicit route never switches')
    t.is((await healthOf(manager)).failure, null)
    await second.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

// --- whom cuFile reaches -----------------------------------------------------------------------------------------------

shimTest(
  '--ssd-backend cufile: a rank in host memory goes by io_uring, and that is in log, health and metric',
  async (t) => {
    const { shim, folder } = host(t)
    const manager = await ManagerChild.start(t, { folder, flags: ['--ssd-backend', 'cufile'] })
    t.is(await manager.metric('orbitkv_ssd_uring_ranks'), 0)
    const engine = await TestEngine.start(manager.socketPath, { ...SHAPE, salt: t.title })
    const said = await manager.next(
      'a rank registered that cuFile does not reach: its SSD reads and writes go by io_uring',
    )
    t.is(said.level, 40)
    await eventually('it is counted', async () => (await manager.metric('orbitkv_ssd_uring_ranks')) === 1)
    t.is((await healthOf(manager)).ranksByUring, 1)
    const keys = keysNamed(t.title, 3)
    await engine.publish(keys)
    await engine.toSsd()
    const found = await engine.find(keys)
    if (found.kind !== 'ready') return t.fail(found.kind)
    t.is(found.blocksSsd, 3)
    t.true((await manager.metric('orbitkv_ssd_fill_bytes_total')) > 0, 'it is read into DRAM, as with io_uring alone')
    t.is(await engine.restore(keys, found.lease), 0)
    t.deepEqual(shim.transfers(), [])
    await engine.stop()
    await endsClean(t, manager, DRIVER_FDS_MAX)
  },
)

shimTest('--ssd-read-path cufile: a rank in host memory is refused by name, one on the device is served', async (t) => {
  const { folder } = host(t)
  const flags = ['--ssd-backend', 'cufile', '--ssd-read-path', 'cufile']
  const manager = await ManagerChild.start(t, { folder, flags })
  const memory = createPageMemory('', memoryBytesOf(SHAPE))
  const client = await connect({ socketPath: manager.socketPath, role: 'worker', engine: 't', engineVersion: '1' })
  const refused = client.register(registrationOf(SHAPE, 0, memory, new Uint8Array(16)))
  const error = await t.throwsAsync<OrbitError>(refused)
  t.is(error?.code, 'device_unsupported')
  t.regex(error?.message ?? '', /--ssd-read-path cufile .* host/)
  await client.close()
  memory.close()
  const engine = await TestEngine.start(manager.socketPath, deviceShape())
  const keys = keysNamed(t.title, 2)
  await engine.publish(keys)
  await engine.toSsd()
  t.is(await engine.restore(keys, (await ready(engine, keys)).lease), 0)
  t.true((await manager.metric('orbitkv_ssd_cufile_read_bytes_total')) > 0)
  await engine.stop()
  await endsClean(t, manager, DRIVER_FDS_MAX)
})
