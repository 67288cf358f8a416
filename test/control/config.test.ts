import test from 'ava'
import fc from 'fast-check'
import {
  type ManagerConfig,
  managerOptions,
  type ResolvedConfig,
  resolveConfig,
  windowBytesOf,
} from '../../src/control/config.js'
import { HOST_DEVICE } from '../../src/manager/lanes/served-device.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import { ConfigError, type ErrorCode } from '../../src/shared/base/errors.js'
import { GIB, MIB, SECTOR_BYTES } from '../../src/shared/base/units.js'

const BASE: ManagerConfig = {
  io: 'uring',
  poolBytes: GIB,
  socketPath: null,
  allowUids: [],
  ssdPaths: ['/data/cache.bin'],
  ssdCapacityBytes: 8 * GIB,
  ssdShardsPerPath: 1,
  ssdBackend: null,
  ssdReadPath: null,
  devices: 'none',
  codec: { name: 'none' },
  codecBudgetBytes: 64 * MIB,
  queryBudgetBytes: null,
  queryInstanceBudgetBytes: null,
  queryReadBatchBytes: 0,
  queryReadTimeoutUs: 0,
  queryReadBatchesMax: 0,
  writePolicy: 'all',
  cacheProtectedPercent: 0,
  lfuAdmission: false,
  reuseWindows: [],
  reuseRegisterBits: 16,
  laneSpinUs: null,
  leaseUs: 30_000_000,
  writeQueueBytes: null,
  writeInFlightBytes: 16 * MIB,
}

test('resolveConfig: unset budgets follow the pool: three quarters for queries, a quarter for writes', (t) => {
  const { queryBudgetBytes, queryInstanceBudgetBytes, writeQueueBytes, shardBytes } = resolveConfig(BASE)
  t.is(queryBudgetBytes, 768 * MIB)
  t.is(queryInstanceBudgetBytes, 768 * MIB)
  t.is(writeQueueBytes, 256 * MIB)
  t.is(shardBytes, 8 * GIB)
})

test('resolveConfig: what was given is kept', (t) => {
  const given = { queryBudgetBytes: 300 * MIB, queryInstanceBudgetBytes: 100 * MIB, writeQueueBytes: 8 * MIB }
  t.like(resolveConfig({ ...BASE, ...given }), given)
})

test('windowBytesOf: an eighth of the pool for all devices, from 4 MiB to 64 MiB each', (t) => {
  const window = (poolBytes: number) => windowBytesOf(poolBytes, 1)
  t.is(window(16 * MIB), 4 * MIB)
  t.is(window(256 * MIB), 32 * MIB)
  t.is(window(512 * MIB), 64 * MIB)
  t.is(window(64 * GIB), 64 * MIB)
  t.is(windowBytesOf(512 * MIB, 2), 32 * MIB)
  t.is(windowBytesOf(64 * GIB, 9), 64 * MIB)
  t.is(windowBytesOf(72 * MIB, 9), 4 * MIB)
  const error = t.throws(() => windowBytesOf(64 * MIB, 9), { instanceOf: ConfigError })
  t.regex(error?.message ?? '', /9 devices.*raise --pool-size or name fewer --devices/)
})

test('resolveConfig: the capacity is cut evenly over paths and shards and down to a sector', (t) => {
  const cut = (capacity: number, paths: number, shards: number) =>
    resolveConfig({
      ...BASE,
      ssdPaths: Array.from({ length: paths }, (_, i) => `/data/${i}`),
      ssdCapacityBytes: capacity,
      ssdShardsPerPath: shards,
    }).shardBytes
  t.is(cut(8 * GIB, 2, 2), 2 * GIB)
  t.is(cut(3 * MIB + 700, 3, 1), MIB)
  t.is(cut(3 * MIB + 2048, 3, 1), MIB + SECTOR_BYTES)
})

test('resolveConfig: what cannot work is refused with both numbers and the remedy', (t) => {
  const refused: readonly (readonly [Partial<ManagerConfig>, ErrorCode, RegExp])[] = [
    [{ ssdCapacityBytes: 3 * MIB, ssdShardsPerPath: 4 }, 'config_bad_value', /3145728 bytes into 4 shards/],
    [{ ssdPaths: [], ssdReadPath: 'uring' }, 'config_conflict', /--ssd-read-path without an SSD tier/],
    [{ ssdPaths: [], ssdBackend: 'auto' }, 'config_conflict', /--ssd-backend without an SSD tier/],
    [
      { ssdBackend: 'uring', ssdReadPath: 'cufile' },
      'config_conflict',
      /--ssd-read-path cufile with --ssd-backend uring/,
    ],
    [{ queryBudgetBytes: GIB + 1 }, 'config_conflict', /1073741825 bytes for queries in a pool of 1073741824/],
    [{ queryInstanceBudgetBytes: GIB }, 'config_conflict', /1073741824 bytes of a query budget of 805306368/],
    [{ writeQueueBytes: 2 * GIB }, 'config_conflict', /2147483648 bytes of a pool of 1073741824 for writes/],
  ]
  for (const [change, code, says] of refused) {
    const error = t.throws(() => resolveConfig({ ...BASE, ...change }), { instanceOf: ConfigError })
    t.is(error?.code, code)
    t.regex(error?.message ?? '', says)
  }
})

test('resolveConfig: the explicit route may lease more than DRAM holds, because leases keep bytes on the SSD', (t) => {
  const config = { ...BASE, ssdReadPath: 'uring', queryBudgetBytes: 4 * GIB } as const
  t.is(resolveConfig(config).queryBudgetBytes, 4 * GIB)
})

test('resolveConfig: whatever it accepts, the parts fit the pool and the shards fit the capacity', (t) => {
  const bytes = (max: number) => fc.integer({ min: MIB, max })
  const drawn = fc.record({
    poolBytes: fc.integer({ min: 16 * MIB, max: 4 * GIB }),
    ssdCapacityBytes: bytes(16 * GIB),
    ssdShardsPerPath: fc.integer({ min: 1, max: 64 }),
    paths: fc.integer({ min: 0, max: 4 }),
    queryBudgetBytes: fc.option(bytes(4 * GIB)),
    queryInstanceBudgetBytes: fc.option(bytes(4 * GIB)),
    writeQueueBytes: fc.option(bytes(4 * GIB)),
    ssdReadPath: fc.constantFrom(null, 'uring' as const),
  })
  let accepted = 0
  fc.assert(
    fc.property(drawn, ({ paths, ...rest }) => {
      const ssdPaths = Array.from({ length: paths }, (_, i) => `/data/${i}`)
      let resolved: ResolvedConfig
      try {
        resolved = resolveConfig({ ...BASE, ...rest, ssdPaths })
      } catch (error) {
        t.true(error instanceof ConfigError)
        return
      }
      accepted++
      t.true(resolved.poolBytes <= rest.poolBytes && resolved.poolBytes % MIB === 0)
      const windowBytes = windowBytesOf(resolved.poolBytes, 1)
      t.true(windowBytes <= resolved.poolBytes / 4 && windowBytes % MIB === 0)
      t.true(windowBytes > 0 && resolved.writeQueueBytes <= resolved.poolBytes)
      t.true(resolved.queryInstanceBudgetBytes <= resolved.queryBudgetBytes)
      if (paths > 0) {
        t.true(resolved.shardBytes * paths * rest.ssdShardsPerPath <= rest.ssdCapacityBytes)
        t.is(resolved.shardBytes % SECTOR_BYTES, 0)
      }
    }),
    { numRuns: 1_000 },
  )
  t.true(accepted > 100, `only ${accepted} of 1000 drawn configurations were accepted`)
})

test('managerOptions: the process adds what it knows to the common defaults', (t) => {
  const resolved = resolveConfig({ ...BASE, ssdReadPath: 'uring' })
  const routes = { ...MANAGER_DEFAULTS.routes, readRoute: 'uring' } as const
  const devices = [HOST_DEVICE, { name: 'cuda:0', uuid: 'GPU-0' }] as const
  t.deepEqual(managerOptions(resolved, devices, routes, 42, [1000, 1001]), {
    ...MANAGER_DEFAULTS,
    epoch: 42,
    uids: [1000, 1001],
    ssd: true,
    routes,
    devices,
    queryBudgetBytes: 768 * MIB,
    queryInstanceBudgetBytes: 768 * MIB,
    reuseWindows: [],
    leaseUs: 30_000_000,
    ownPid: process.pid,
  })
  const coded = resolveConfig({ ...BASE, codec: { name: 'fp8' } })
  t.deepEqual(managerOptions(coded, [HOST_DEVICE], null, 1, []).codec, { name: 'fp8' })
  t.false(managerOptions(resolveConfig({ ...BASE, ssdPaths: [] }), [HOST_DEVICE], null, 1, []).ssd)
})

test('resolveConfig: a codec that no flag could name is refused, and a budget out of range', (t) => {
  const refusal = (parts: Partial<ManagerConfig>) =>
    t.throws(() => resolveConfig({ ...BASE, ...parts }), { instanceOf: ConfigError, code: 'config_bad_value' })
  t.regex(refusal({ codec: { name: 'fp4' } as never })?.message ?? '', /'fp4': one of none, ans, fp8, turboquant-4/)
  for (const codecBudgetBytes of [0, 4095, 4 * GIB + 1, Number.NaN, 1.5e9 + 0.5]) {
    t.regex(refusal({ codecBudgetBytes })?.message ?? '', /4096 to 4294967296/)
  }
  t.like(resolveConfig({ ...BASE, codec: { name: 'fp8' }, codecBudgetBytes: 4096 }), { codec: { name: 'fp8' } })
})

test('resolveConfig: cuFile with reads by io_uring writes under a codec, too', (t) => {
  const asked = { ssdBackend: 'cufile', ssdReadPath: 'uring' } as const
  for (const name of ['none', 'fp8', 'turboquant-3'] as const) {
    t.notThrows(() => resolveConfig({ ...BASE, ...asked, codec: { name } }))
  }
})

test('resolveConfig: batches that are counted need a size, a write policy needs an SSD tier', (t) => {
  const refusal = (parts: Partial<ManagerConfig>) =>
    t.throws(() => resolveConfig({ ...BASE, ...parts }), { code: 'config_conflict' })?.message ?? ''
  t.regex(refusal({ queryReadBatchesMax: 2 }), /--query-read-batch/)
  t.regex(refusal({ ssdPaths: [], writePolicy: 'reuse' }), /--ssd-cache-path/)
  t.notThrows(() => resolveConfig({ ...BASE, queryReadBatchesMax: 2, queryReadBatchBytes: MIB }))
})
