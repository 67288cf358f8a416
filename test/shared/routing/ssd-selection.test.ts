import test from 'ava'
import fc from 'fast-check'
import { SsdRouteSwitch } from '../../../src/shared/routing/ssd-route-switch.js'
import {
  type CufileFacts,
  type SsdFacts,
  type SsdRoutes,
  type SsdSelection,
  selectSsd,
} from '../../../src/shared/routing/ssd-selection.js'

type Backend = SsdFacts['settings']['backend']
type ReadPath = SsdFacts['settings']['readPath']

const EXT4 = 0xef53
const OVERLAY = 0x794c7630
const GIB = 2 ** 30

/** cuFile as a host with native GDS answers. */
const NATIVE: CufileFacts = {
  mode: 'native',
  report: { available: true, reason: 'ok', code: 0, version: 1150, compatible: false },
  registration: null,
  reservation: null,
}
/** The same in compatibility mode, as an operator configured it. */
const COMPATIBLE: CufileFacts = { ...NATIVE, mode: 'configured', report: { ...NATIVE.report, compatible: true } }
/** A host without nvidia-fs and P2PDMA. */
const NO_DRIVER: CufileFacts = {
  ...NATIVE,
  report: { available: false, reason: 'open-failed', code: 5001, version: 1150, compatible: false },
}

function facts(backend: Backend, readPath: ReadPath, more: Partial<SsdFacts> = {}): SsdFacts {
  return {
    settings: { backend, readPath, paths: 1 },
    cudaDevices: 1,
    kernelsFailure: null,
    shards: [
      { path: '/a', bytes: GIB, filesystem: EXT4 },
      { path: '/b', bytes: GIB, filesystem: 0x58465342 },
    ],
    cufile: null,
    ...more,
  }
}

/** A selection in one word: read+write, or what is asked or refused. */
function word(selection: SsdSelection): string {
  if (selection.kind === 'routes') return `${selection.readRoute}+${selection.writeRoute}`
  if (selection.kind === 'open-cufile') return `open ${selection.mode}`
  return selection.kind === 'refused' ? selection.code : selection.kind
}

/** What main does: asks, opens cuFile when it is told to, and asks again. */
function started(asked: SsdFacts, host: CufileFacts): SsdSelection {
  const first = selectSsd(asked)
  return first.kind === 'open-cufile' ? selectSsd({ ...asked, cufile: { ...host, mode: first.mode } }) : first
}

const BACKENDS = [null, 'auto', 'uring', 'cufile'] as const
const READ_PATHS = [null, 'uring', 'cufile'] as const

/** Rows: backend; columns: read path unset, uring, cufile. */
const TABLE: Readonly<Record<string, Readonly<Record<string, readonly [string, string, string]>>>> = {
  'native cuFile': {
    auto: ['cufile+cufile', 'uring+cufile', 'cufile+cufile'],
    uring: ['dram+uring', 'uring+uring', 'config_conflict'],
    cufile: ['cufile+cufile', 'uring+cufile', 'cufile+cufile'],
  },
  'compatibility mode alone': {
    auto: ['dram+uring', 'uring+uring', 'cufile_unavailable'],
    uring: ['dram+uring', 'uring+uring', 'config_conflict'],
    cufile: ['cufile+cufile', 'uring+cufile', 'cufile+cufile'],
  },
  'no cuFile': {
    auto: ['dram+uring', 'uring+uring', 'cufile_unavailable'],
    uring: ['dram+uring', 'uring+uring', 'config_conflict'],
    cufile: ['cufile_unavailable', 'cufile_unavailable', 'cufile_unavailable'],
  },
}
const HOSTS: Readonly<Record<string, CufileFacts>> = {
  'native cuFile': NATIVE,
  'compatibility mode alone': COMPATIBLE,
  'no cuFile': NO_DRIVER,
}

for (const [host, rows] of Object.entries(TABLE)) {
  test(`selection: every setting of backend and read path has a route or a named refusal, with ${host}`, (t) => {
    for (const backend of BACKENDS) {
      for (const [column, readPath] of READ_PATHS.entries()) {
        const selection = started(facts(backend, readPath), HOSTS[host] as CufileFacts)
        t.is(word(selection), rows[backend ?? 'auto']?.[column] ?? 'no row', `${backend} ${readPath}`)
      }
    }
  })
}

test('selection: without a cache path there is nothing to select, and either flag is refused by its name', (t) => {
  for (const backend of BACKENDS) {
    for (const readPath of READ_PATHS) {
      const selection = selectSsd(facts(backend, readPath, { settings: { backend, readPath, paths: 0 }, shards: [] }))
      const flag = backend !== null ? '--ssd-backend' : '--ssd-read-path'
      if (backend === null && readPath === null) t.is(selection.kind, 'off')
      else
        t.like(selection, {
          kind: 'refused',
          code: 'config_conflict',
          message: `Cannot use ${flag} without an SSD tier: give --ssd-cache-path`,
        })
    }
  }
})

test('selection: uring never opens libcufile, auto opens it native-only, cufile as configured', (t) => {
  t.is(word(selectSsd(facts('auto', null))), 'open native')
  t.is(word(selectSsd(facts(null, 'uring'))), 'open native')
  t.is(word(selectSsd(facts('cufile', null))), 'open configured')
  for (const readPath of READ_PATHS) t.not(selectSsd(facts('uring', readPath)).kind, 'open-cufile')
})

/** Each capability that auto needs, taken away alone: what it falls back for. */
const OBSTACLES: readonly (readonly [string, Partial<SsdFacts>, RegExp])[] = [
  ['no-device', { cudaDevices: 0 }, /no CUDA device/],
  ['no-kernels', { kernelsFailure: 'libnvrtc.so.13: not found' }, /libnvrtc\.so\.13: not found/],
  ['filesystem', { shards: [{ path: '/a', bytes: GIB, filesystem: OVERLAY }] }, /0x794c7630, not ext4 or xfs/],
  ['shard-size', { shards: [{ path: '/a', bytes: 4095, filesystem: EXT4 }] }, /4095 bytes, 4096 are needed/],
  ...(
    [
      ['library', 'no-library'],
      ['library', 'no-symbol'],
      ['library', 'no-streams'],
      ['version', 'too-old'],
      ['driver', 'no-node'],
      ['driver', 'open-failed'],
      ['driver', 'parameter-refused'],
      ['compatibility', 'already-open'],
      ['compatibility', 'compatible'],
    ] as const
  ).map(
    ([cause, reason]) =>
      [
        cause,
        { cufile: { ...NATIVE, report: { ...NATIVE.report, available: false, reason } } },
        new RegExp(reason),
      ] as const,
  ),
  ['version', { cufile: { ...NATIVE, report: { ...NATIVE.report, version: 1130 } } }, /1\.13 cannot be kept/],
  [
    'compatibility',
    { cufile: { ...NATIVE, report: { ...NATIVE.report, compatible: true } } },
    /compatibility mode allowed/,
  ],
  ['compatibility', { cufile: { ...NATIVE, mode: 'configured' } }, /compatibility mode allowed/],
  ['registration', { cufile: { ...NATIVE, registration: { path: '/b', code: 5027 } } }, /shard \/b .* status 5027/],
]

for (const [i, [cause, change, says]] of OBSTACLES.entries()) {
  test(`selection: auto goes on with io_uring for all shards when one thing is missing: ${cause} (${i})`, (t) => {
    const selection = selectSsd(facts('auto', null, { cufile: NATIVE, ...change }))
    t.like(selection, {
      kind: 'routes',
      backend: 'uring',
      readRoute: 'dram',
      writeRoute: 'uring',
      fellBack: true,
      cause,
    })
    t.regex((selection as SsdRoutes).reason, says)
    const pinned = selectSsd(facts('auto', 'cufile', { cufile: NATIVE, ...change }))
    t.like(pinned, { kind: 'refused', code: 'cufile_unavailable' }, 'a pinned route is not replaced')
  })
}

test('selection: what auto needs before libcufile is looked at keeps it from being opened', (t) => {
  for (const [cause, change] of OBSTACLES) {
    if ('cufile' in change) continue
    t.is(selectSsd(facts('auto', null, change)).kind, 'routes', cause)
  }
})

test('selection: explicit cufile takes another filesystem and compatibility mode, and says which it got', (t) => {
  const other = { shards: [{ path: '/a', bytes: GIB, filesystem: OVERLAY }] }
  t.is(word(selectSsd(facts('cufile', null, other))), 'open configured')
  t.like(selectSsd(facts('cufile', null, { ...other, cufile: COMPATIBLE })), { evidence: 'compatibility-allowed' })
  const off = { ...COMPATIBLE, report: { ...COMPATIBLE.report, compatible: false } }
  t.like(selectSsd(facts('cufile', null, { ...other, cufile: off })), { evidence: 'native-only', fellBack: false })
  const unregistered = { ...COMPATIBLE, registration: { path: '/a', code: 5027 } }
  t.like(selectSsd(facts('cufile', null, { cufile: unregistered })), { code: 'cufile_unavailable' })
})

test('selection: space that cannot be reserved refuses the start, under auto too, and names shard and size', (t) => {
  const reservation = { path: '/b', bytes: GIB, reason: 'errno 28' }
  for (const backend of ['auto', 'cufile'] as const) {
    for (const readPath of READ_PATHS) {
      const selection = selectSsd(facts(backend, readPath, { cufile: { ...NATIVE, reservation } }))
      t.like(selection, { kind: 'refused', code: 'capacity_disk', values: reservation })
    }
  }
})

const selections = fc.record({
  settings: fc.record({
    backend: fc.constantFrom(...BACKENDS),
    readPath: fc.constantFrom(...READ_PATHS),
    paths: fc.constantFrom(0, 1, 2),
  }),
  cudaDevices: fc.constantFrom(0, 1, 8),
  kernelsFailure: fc.constantFrom(null, 'missing'),
  shards: fc.array(
    fc.record({
      path: fc.constant('/a'),
      bytes: fc.constantFrom(0, 4096, GIB),
      filesystem: fc.constantFrom(EXT4, OVERLAY),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  cufile: fc.option(
    fc.record({
      mode: fc.constantFrom('native' as const, 'configured' as const),
      report: fc.record({
        available: fc.boolean(),
        reason: fc.constantFrom('no-library' as const, 'open-failed' as const, 'too-old' as const),
        code: fc.constantFrom(0, 5001),
        version: fc.constantFrom(0, 1130, 1150),
        compatible: fc.boolean(),
      }),
      registration: fc.option(fc.constant({ path: '/a', code: 5027 })),
      reservation: fc.option(fc.constant({ path: '/a', bytes: 1, reason: 'errno 28' })),
    }),
  ),
})

test('selection: for all facts, an explicit setting is had or refused, never replaced', (t) => {
  fc.assert(
    fc.property(selections, (drawn) => {
      const { backend, readPath } = drawn.settings
      const selection = selectSsd(drawn)
      if (selection.kind === 'open-cufile') {
        if (backend === 'uring' || drawn.cufile !== null) throw new Error('cuFile is opened once, and never for uring')
        return
      }
      if (selection.kind !== 'routes') return
      if (readPath !== null && selection.readRoute !== readPath) throw new Error('the pinned read route was replaced')
      if (backend !== null && backend !== 'auto' && selection.backend !== backend) throw new Error('replaced')
      if (selection.backend === 'uring' && selection.readRoute === 'cufile') throw new Error('cuFile is not open')
      if ((selection.backend === 'cufile') !== (selection.writeRoute === 'cufile')) throw new Error('write policy')
      if (selection.backend === 'cufile' && drawn.cufile?.report.available !== true) throw new Error('not open')
      if (selection.backend === 'cufile' && drawn.cufile?.reservation !== null) throw new Error('not reserved')
      const promises = drawn.cufile?.report.compatible === false
      if (selection.evidence === 'native-only' && !promises) throw new Error('compatibility called native')
      if (backend !== 'cufile' && selection.backend === 'cufile' && !promises)
        throw new Error('auto took compatibility')
    }),
    { numRuns: 5000 },
  )
  t.pass()
})

function routes(backend: Backend, readPath: ReadPath, host: CufileFacts): SsdRouteSwitch {
  const selection = started(facts(backend, readPath), host)
  if (selection.kind !== 'routes') throw new Error(word(selection))
  return new SsdRouteSwitch(selection)
}

test('route switch: a failure under auto sends new work by io_uring until restart, and is told once', (t) => {
  const auto = routes('auto', null, NATIVE)
  t.deepEqual([auto.readRoute, auto.writeRoute, auto.stopped], ['cufile', 'cufile', false])
  t.true(auto.failed())
  t.deepEqual([auto.readRoute, auto.writeRoute, auto.stopped], ['dram', 'uring', true])
  t.false(auto.failed(), 'counted once')
})

test('route switch: pinned reads are never switched: under auto they end, under cufile they try again', (t) => {
  const pinned = routes('auto', 'cufile', NATIVE)
  t.true(pinned.failed())
  t.deepEqual([pinned.readRoute, pinned.writeRoute], ['unavailable', 'uring'])
  const uring = routes('auto', 'uring', NATIVE)
  t.true(uring.failed())
  t.deepEqual([uring.readRoute, uring.writeRoute], ['uring', 'uring'])
  const explicit = routes('cufile', null, COMPATIBLE)
  t.false(explicit.failed())
  t.deepEqual([explicit.readRoute, explicit.writeRoute], ['cufile', 'cufile'])
  const off = routes('uring', null, NATIVE)
  t.false(off.failed())
  t.deepEqual([off.readRoute, off.writeRoute], ['dram', 'uring'])
})
