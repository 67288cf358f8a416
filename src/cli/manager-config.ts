import type { ManagerConfig } from '../control/config.js'
import { defaultSocketPath } from '../control/private-folder.js'
import { ConfigError } from '../shared/base/errors.js'
import type { FlagValues } from './flags.js'

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

function notBuilt(flag: string, value: string, instead: string): never {
  throw new ConfigError(
    'config_not_built',
    `Cannot use --${flag} ${value}: this version does not have it; ${instead}`,
    {
      flag,
      value,
    },
  )
}

/**
 * The Manager's configuration of a command line.
 * @throws ConfigError config_not_built, config_conflict or config_bad_value
 */
export function configOf(flags: FlagValues, uid: number, runtimeFolder: string | undefined): ManagerConfig {
  if (flags['ssd-backend'] === 'cufile') notBuilt('ssd-backend', 'cufile', 'use auto or uring')
  if (flags['ssd-read-path'] === 'cufile') notBuilt('ssd-read-path', 'cufile', 'use uring or leave it unset')
  if (flags['ssd-write-policy'] === 'reuse') notBuilt('ssd-write-policy', 'reuse', 'use all')
  const paths = flags['ssd-cache-path']
  if (paths.length === 0 && flags['ssd-backend'] !== 'auto') {
    throw new ConfigError('config_conflict', 'Cannot use --ssd-backend without an SSD tier: give --ssd-cache-path')
  }
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
    readRoute: flags['ssd-read-path'] === 'uring' ? 'uring' : 'dram',
    queryBudgetBytes: flags['query-budget'],
    queryInstanceBudgetBytes: flags['query-instance-budget'],
    leaseUs: flags['lease-ttl'],
    writeQueueBytes: flags['ssd-write-queue'],
    writeInFlightBytes: flags['ssd-write-inflight'],
  }
}
