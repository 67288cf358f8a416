import { CapabilityError, ConfigError, type ErrorCode, IoError, OrbitError } from '../shared/base/errors.js'

/** What was being opened when the addon threw; `folder`: when node:fs threw. */
export type Opening = 'pool' | 'folder' | 'shard' | 'lock' | 'port' | 'socket' | 'device'

type Rule = readonly [ErrorClass: new (...args: OrbitErrorArguments) => OrbitError, code: ErrorCode]
type OrbitErrorArguments = ConstructorParameters<typeof IoError>

const UNAVAILABLE: Rule = [CapabilityError, 'uring_unavailable']
const NO_DEVICE: Rule = [CapabilityError, 'cuda_unavailable']
const REFUSED: Rule = [ConfigError, 'path_refused']
const RUNNING: Rule = [ConfigError, 'already_running']
const OTHER: Rule = [IoError, 'io_open_failed']

/** A path that leads to something that cannot be used. */
const PATHS: Readonly<Record<string, Rule>> = {
  ELOOP: REFUSED,
  EEXIST: REFUSED,
  EISDIR: REFUSED,
  ENOTDIR: REFUSED,
  ENAMETOOLONG: REFUSED,
  EACCES: REFUSED,
  EPERM: REFUSED,
  EROFS: REFUSED,
}

/** What each errno means for each thing; what is not listed is io_open_failed. */
const RULES: Readonly<Record<Opening, Readonly<Record<string, Rule>>>> = {
  pool: { ENOMEM: [ConfigError, 'config_pool_too_large'] },
  folder: PATHS,
  shard: { ...PATHS, EOPNOTSUPP: [CapabilityError, 'direct_io_unsupported'] },
  lock: { ...PATHS, EAGAIN: RUNNING, EINVAL: REFUSED },
  port: {
    EPERM: UNAVAILABLE,
    EACCES: UNAVAILABLE,
    ENOSYS: UNAVAILABLE,
    EINVAL: UNAVAILABLE,
    ENOMEM: UNAVAILABLE,
    EMFILE: UNAVAILABLE,
    ENFILE: UNAVAILABLE,
  },
  device: { ENODEV: NO_DEVICE, ENOMEM: NO_DEVICE, EIO: NO_DEVICE, EINVAL: NO_DEVICE },
  socket: { EADDRINUSE: RUNNING, EEXIST: REFUSED, ENAMETOOLONG: REFUSED, EACCES: REFUSED },
}

/**
 * Our error for what the addon threw while it opened something: the class says what the caller does next. The cause,
 * with the system's `code` and `errno`, goes along. What the addon did not throw for the system's sake is a bug and
 * comes back as it is.
 */
export function openingError(opening: Opening, thrown: unknown): unknown {
  if (!(thrown instanceof Error) || thrown instanceof OrbitError) return thrown
  const { code, errno } = thrown as Error & { readonly code?: unknown; readonly errno?: unknown }
  if (typeof code !== 'string' || typeof errno !== 'number') return thrown
  const [ErrorClass, orbitCode] = RULES[opening][code] ?? OTHER
  const message = opening === 'folder' ? `Cannot use a folder: ${thrown.message}` : thrown.message
  return new ErrorClass(orbitCode, message, { errno, system: code }, thrown)
}

/** Runs `open` and throws what openingError() makes of an error. */
export function opening<T>(what: Opening, open: () => T): T {
  try {
    return open()
  } catch (thrown) {
    throw openingError(what, thrown)
  }
}
