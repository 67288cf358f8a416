import { readFileSync } from 'node:fs'
import { ConfigError } from '../shared/base/errors.js'

/**
 * Descriptors that a Manager must be allowed: about 60 of its own (threads, rings, shards), two a session, and up to 64
 * that come with one REGISTER before they are mapped and closed.
 */
export const DESCRIPTORS_MIN = 256

/** How many descriptors this process may open; Infinity when the kernel does not say. */
function descriptorLimit(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** @throws ConfigError config_descriptors: later, accepting an engine or a lane's start would fail half-way. */
export function checkDescriptorLimit(limit = descriptorLimit()): void {
  if (limit >= DESCRIPTORS_MIN) return
  throw new ConfigError(
    'config_descriptors',
    `Cannot serve with ${limit} open files: at least ${DESCRIPTORS_MIN} are needed; raise LimitNOFILE or ulimit -n`,
    { limit, needed: DESCRIPTORS_MIN },
  )
}
