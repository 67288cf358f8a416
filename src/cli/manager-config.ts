import type { ManagerConfig } from '../control/config.js'
import type { DeviceChoice } from '../control/devices.js'
import { defaultSocketPath } from '../control/private-folder.js'
import { ConfigError } from '../shared/base/errors.js'
import type { ReuseWindow } from '../shared/cache/reuse-windows.js'
import type { CodecSetting } from '../shared/codec/setting.js'
import type { FlagValues } from './flags.js'
import { parseDuration } from './sizes.js'

/** Where HTTP listens. */
export interface HttpAddress {
  readonly host: string
  readonly port: number
}

/** Splits `host:port`; IPv6 in brackets. @throws ConfigError config_bad_value */
export function parseAddress(flag: string, text: string): HttpAddress {
  const match = /^(?:\[([0-9a-f:]+)\]|([^:]*)):(\d{1,5})$/i.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65535) {
    throw new ConfigError(
      'config_bad_value',
      `Cannot use --${flag} '${text}': host:port is expected, for example --${flag} 127.0.0.1:9655`,
      { flag, value: text },
    )
  }
  return { host: match[1] ?? match[2] ?? '', port }
}

/** Splits `15m,1h,1d`. @throws ConfigError config_bad_value for an empty, doubled or malformed window */
export function parseWindows(text: string): ReuseWindow[] {
  const windows: ReuseWindow[] = []
  for (const name of text.split(',').map((each) => each.trim())) {
    const us = parseDuration(name)
    const fits = us !== null && us >= WINDOW_US_MIN && us <= WINDOW_US_MAX
    if (!fits || windows.some((window) => window.us === us) || windows.length === WINDOWS_MAX) {
      throw new ConfigError(
        'config_bad_value',
        `Cannot use --metric-hll-windows '${text}': up to ${WINDOWS_MAX} different durations from 1s to 7d are expected, for example --metric-hll-windows 15m,1h,1d`,
        { flag: 'metric-hll-windows', value: name },
      )
    }
    windows.push({ name, us })
  }
  return windows
}

const WINDOWS_MAX = 8
const WINDOW_US_MIN = 1_000_000
const WINDOW_US_MAX = 7 * 86_400_000_000

/** Reads `all`, `none`, or a list of numbers and UUIDs. @throws ConfigError config_bad_value */
export function parseDevices(text: string): DeviceChoice {
  if (text === 'all' || text === 'none') return text
  const names = text.split(',').map((each) => each.trim())
  const bad = names.find((name) => !/^(\d{1,3}|GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i.test(name))
  if (bad === undefined && names.length <= DEVICES_MAX) return names
  throw new ConfigError(
    'config_bad_value',
    `Cannot use --devices '${text}': all, none, or up to ${DEVICES_MAX} numbers and UUIDs are expected, for example --devices 0,1`,
    { flag: 'devices', value: bad ?? text },
  )
}

/** More devices than one host has. */
const DEVICES_MAX = 32

/**
 * The Manager's configuration of a command line.
 * @throws ConfigError config_bad_value
 */
export function configOf(flags: FlagValues, uid: number, runtimeFolder: string | undefined): ManagerConfig {
  const paths = flags['ssd-cache-path']
  const allowUids = flags['allow-uid'].map((text) => {
    if (/^\d{1,10}$/.test(text)) return Number(text)
    throw new ConfigError('config_bad_value', `Cannot use --allow-uid '${text}': a user number is expected`, {
      value: text,
    })
  })
  const { port } = parseAddress('addr', flags.addr)
  return {
    io: flags['ssd-io'] === 'posix' ? 'posix' : 'uring',
    poolBytes: flags['pool-size'],
    socketPath: flags['bootstrap-socket'] ?? defaultSocketPath(port, uid, runtimeFolder),
    allowUids,
    ssdPaths: paths,
    ssdCapacityBytes: flags['ssd-cache-capacity'],
    ssdShardsPerPath: flags['ssd-cache-shards'],
    ssdBackend: flags['ssd-backend'] as ManagerConfig['ssdBackend'],
    ssdReadPath: flags['ssd-read-path'] as ManagerConfig['ssdReadPath'],
    devices: parseDevices(flags.devices),
    codec: { name: flags['storage-codec'] as CodecSetting['name'] },
    codecBudgetBytes: flags['storage-codec-budget'],
    queryBudgetBytes: flags['query-budget'],
    queryInstanceBudgetBytes: flags['query-instance-budget'],
    queryReadBatchBytes: flags['query-read-batch'],
    queryReadTimeoutUs: flags['query-read-timeout-ms'] * 1000,
    queryReadBatchesMax: flags['query-read-max-batches'],
    leaseUs: flags['lease-ttl'],
    writePolicy: flags['ssd-write-policy'] === 'reuse' ? 'reuse' : 'all',
    cacheProtectedPercent: flags['cache-protected-percent'],
    lfuAdmission: flags['enable-lfu-admission'] === 'true',
    reuseWindows: parseWindows(flags['metric-hll-windows']),
    reuseRegisterBits: flags['metric-hll-bucket-bits'],
    writeQueueBytes: flags['ssd-write-queue'],
    writeInFlightBytes: flags['ssd-write-inflight'],
    laneSpinUs: flags['lane-spin-us'],
  }
}
