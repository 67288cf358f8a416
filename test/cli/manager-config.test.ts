import test from 'ava'
import { parseFlags } from '../../src/cli/flags.js'
import { configOf, parseAddress } from '../../src/cli/manager-config.js'
import type { ManagerConfig } from '../../src/control/config.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import { ConfigError, type ErrorCode } from '../../src/shared/base/errors.js'
import { GIB, MIB } from '../../src/shared/base/units.js'

function config(...argv: string[]): ManagerConfig {
  return configOf(parseFlags(argv), 1000, '/run/user/1000')
}

const SSD = ['--ssd-cache-path', '/data/cache.bin']

test('manager-config: what the flags say, in bytes and microseconds', (t) => {
  t.deepEqual(config(), {
    io: 'uring',
    poolBytes: 30 * GIB,
    socketPath: '/run/user/1000/orbitkv/50055.sock',
    allowUids: [],
    ssdPaths: [],
    ssdCapacityBytes: 512 * GIB,
    ssdShardsPerPath: 1,
    ssdBackend: null,
    ssdReadPath: null,
    devices: 'all',
    codec: { name: 'none' },
    codecBudgetBytes: 64 * MIB,
    queryBudgetBytes: null,
    queryInstanceBudgetBytes: null,
    queryReadBatchBytes: 0,
    queryReadTimeoutUs: 0,
    queryReadBatchesMax: 0,
    leaseUs: 30_000_000,
    writePolicy: 'all',
    cacheProtectedPercent: 0,
    lfuAdmission: false,
    reuseWindows: MANAGER_DEFAULTS.reuseWindows,
    reuseRegisterBits: 16,
    laneSpinUs: null,
    writeQueueBytes: null,
    writeInFlightBytes: 16 * MIB,
  })
})

test('manager-config: the port of --addr names the socket, --bootstrap-socket replaces it', (t) => {
  t.is(config('--addr', '127.0.0.1:6000').socketPath, '/run/user/1000/orbitkv/6000.sock')
  t.is(config('--bootstrap-socket', '/run/a.sock').socketPath, '/run/a.sock')
  t.is(configOf(parseFlags([]), 7, undefined).socketPath, '/tmp/orbitkv-7/50055.sock')
  t.is(configOf(parseFlags([]), 7, '').socketPath, '/tmp/orbitkv-7/50055.sock')
})

test('manager-config: the explicit route and posix I/O are chosen by name alone', (t) => {
  t.like(config(...SSD), { ssdBackend: null, ssdReadPath: null })
  t.is(config(...SSD, '--ssd-read-path', 'uring').ssdReadPath, 'uring')
  t.is(config(...SSD, '--ssd-backend', 'cufile').ssdBackend, 'cufile')
  t.is(config(...SSD).io, 'uring')
  t.is(config(...SSD, '--ssd-io', 'posix').io, 'posix')
})

test('manager-config: what no flag can mean is refused, not ignored', (t) => {
  const refused: readonly (readonly [string[], ErrorCode, RegExp])[] = [
    [['--metric-hll-windows', '1h,60m'], 'config_bad_value', /'1h,60m': up to 8 different durations/],
    [['--metric-hll-windows', '1h,,1d'], 'config_bad_value', /different durations/],
    [['--metric-hll-windows', '1ms'], 'config_bad_value', /from 1s to 7d/],
    [['--devices', '0,,1'], 'config_bad_value', /'0,,1': all, none, or up to 32 numbers and UUIDs/],
    [['--devices', 'GPU-1'], 'config_bad_value', /numbers and UUIDs/],
    [['--allow-uid', 'alice'], 'config_bad_value', /'alice': a user number/],
    [['--addr', 'localhost'], 'config_bad_value', /'localhost': host:port/],
  ]
  for (const [argv, code, says] of refused) {
    const error = t.throws(() => config(...argv), { instanceOf: ConfigError }, argv.join(' '))
    t.is(error?.code, code)
    t.regex(error?.message ?? '', says)
  }
})

test('manager-config: what cache and queries are told comes from their flags', (t) => {
  const told = config(
    ...[...SSD, '--ssd-write-policy', 'reuse', '--cache-protected-percent', '80', '--enable-lfu-admission', 'true'],
    ...['--query-read-batch', '32mb', '--query-read-timeout-ms', '250', '--query-read-max-batches', '4'],
    ...['--metric-hll-windows', '90s, 2h', '--metric-hll-bucket-bits', '12'],
  )
  t.is(told.writePolicy, 'reuse')
  t.is(told.cacheProtectedPercent, 80)
  t.true(told.lfuAdmission)
  t.deepEqual([told.queryReadBatchBytes, told.queryReadTimeoutUs, told.queryReadBatchesMax], [32 * MIB, 250_000, 4])
  t.deepEqual(told.reuseWindows, [
    { name: '90s', us: 90_000_000 },
    { name: '2h', us: 7_200_000_000 },
  ])
  t.is(told.reuseRegisterBits, 12)
})

test('manager-config: the storage codec and its budget are chosen by name alone', (t) => {
  for (const name of ['none', 'ans', 'fp8', 'turboquant-4', 'turboquant-3'] as const) {
    t.deepEqual(config('--storage-codec', name).codec, { name })
  }
  t.is(config('--storage-codec-budget', '8mb').codecBudgetBytes, 8 * MIB)
})

test('manager-config: devices are all, none, or a list of numbers and UUIDs', (t) => {
  t.is(config('--devices', 'none').devices, 'none')
  t.deepEqual(config('--devices', '0, 3').devices, ['0', '3'])
  const uuid = 'GPU-0123abcd-0123-0123-0123-0123456789ab'
  t.deepEqual(config('--devices', uuid).devices, [uuid])
})

test('manager-config: user numbers are kept in order', (t) => {
  t.deepEqual(config('--allow-uid', '1001', '--allow-uid', '0').allowUids, [1001, 0])
})

test('parseAddress: host and port, IPv6 in brackets, any host when it is empty', (t) => {
  t.deepEqual(parseAddress('http-addr', '127.0.0.1:9655'), { host: '127.0.0.1', port: 9655 })
  t.deepEqual(parseAddress('http-addr', '[::1]:0'), { host: '::1', port: 0 })
  t.deepEqual(parseAddress('http-addr', ':9655'), { host: '', port: 9655 })
  for (const text of ['9655', '::1:9655', 'a:b', 'host:', 'host:65536', '[::1]', 'host:99999999', '']) {
    t.throws(() => parseAddress('http-addr', text), { instanceOf: ConfigError }, text)
  }
})
