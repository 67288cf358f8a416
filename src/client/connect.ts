import { randomBytes } from 'node:crypto'
import type { Native } from '../binding/surface.js'
import { PROTO_MAX, PROTO_MIN } from '../shared/layout/wire/limits.js'
import { OrbitClient } from './client.js'
import type { Link } from './link.js'
import { NativeLink } from './native-link.js'
import type { Greeting, WaitOptions } from './requests.js'

export interface ConnectOptions extends Greeting, WaitOptions {
  readonly socketPath: string
  /** Users whose Manager is trusted besides our own. */
  readonly allowUids?: readonly number[]
}

/**
 * Connects to a Manager and greets it.
 * @throws Error of the system when nobody listens; ProtocolError peer_uid_refused or version_mismatch; CancelledError.
 */
export async function connectOver(native: Native, options: ConnectOptions): Promise<OrbitClient> {
  const uidsAllowed = [process.getuid?.() ?? -1, ...(options.allowUids ?? [])]
  const link = new NativeLink(native, (port) => port.connect(options.socketPath), uidsAllowed)
  return await greetOver(link, (fd) => native.closeFd(fd), options)
}

/** Greets over any link. */
export async function greetOver(
  link: Link,
  closeFd: (fd: number) => void,
  options: Greeting & WaitOptions,
): Promise<OrbitClient> {
  const client = new OrbitClient(link, closeFd)
  try {
    await client.greet(
      {
        protoMin: PROTO_MIN,
        protoMax: PROTO_MAX,
        role: options.role,
        pid: process.pid,
        bootNonce: randomBytes(6).readUIntLE(0, 6),
        engine: options.engine,
        engineVersion: options.engineVersion,
        adapterVersion: options.adapterVersion ?? '',
      },
      { signal: options.signal },
    )
  } catch (error) {
    await client.close()
    throw error
  }
  return client
}
