import test from 'ava'
import fc from 'fast-check'
import { type ManagerConfig, managerOptions, type ResolvedConfig, resolveConfig } from '../../src/control/config.js'
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
  readRoute: 'dram',
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

test('resolveConfig: the window is an eighth of the pool, from 4 MiB to 64 MiB', (t) => {
  const window = (poolBytes: number) => resolveConfig({ ...BASE, poolBytes }).windowBytes
  t.is(window(16 * MIB), 4 * MIB)
  t.is(window(256 * MIB), 32 * MIB)
  t.is(window(512 * MIB), 64 * MIB)
  t.is(window(64 * GIB), 64 * MIB)
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
    [{ ssdPaths: [], readRoute: 'uring' }, 'config_conflict', /--ssd-read-path without an SSD tier/],
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
  const config = { ...BASE, readRoute: 'uring', queryBudgetBytes: 4 * GIB } as const
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
    readRoute: fc.constantFrom('dram' as const, 'uring' as const),
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
      t.true(resolved.windowBytes <= resolved.poolBytes / 4 && resolved.windowBytes % MIB === 0)
      t.true(resolved.windowBytes > 0 && resolved.writeQueueBytes <= resolved.poolBytes)
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
  const resolved = resolveConfig({ ...BASE, readRoute: 'uring' })
  t.deepEqual(managerOptions(resolved, 42, [1000, 1001]), {
    ...MANAGER_DEFAULTS,
    epoch: 42,
    uids: [1000, 1001],
    ssd: true,
    readRoute: 'uring',
    queryBudgetBytes: 768 * MIB,
    queryInstanceBudgetBytes: 768 * MIB,
    reuseWindows: [],
    leaseUs: 30_000_000,
    ownPid: process.pid,
  })
  t.false(managerOptions(resolveConfig({ ...BASE, ssdPaths: [] }), 1, []).ssd)
})

test('resolveConfig: batches that are counted need a size, a write policy needs an SSD tier', (t) => {
  const refusal = (parts: Partial<ManagerConfig>) =>
    t.throws(() => resolveConfig({ ...BASE, ...parts }), { code: 'config_conflict' })?.message ?? ''
  t.regex(refusal({ queryReadBatchesMax: 2 }), /--query-read-batch/)
  t.regex(refusal({ ssdPaths: [], writePolicy: 'reuse' }), /--ssd-cache-path/)
  t.notThrows(() => resolveConfig({ ...BASE, queryReadBatchesMax: 2, queryReadBatchBytes: MIB }))
})
