/**
 * The TypeScript client of a Manager process, published as orbitkv/client.
 *
 *   const memory = createEngineMemory(64 * 1024 * 1024)
 *   const client = await connect({ socketPath, role: 'worker', engine: 'mine', engineVersion: '1.0' })
 *   await client.register({ instanceId, memory: [memory], regions: [...], ... })
 *   const found = await client.query({ requestId: 1, revision: 0, allowSsd: true, groups: [{ group: 0, firstBlock: 0, keys }] })
 *   if (found.kind === 'ready') await client.restore({ lease: found.lease, groups: [{ group: 0, pairs }] })
 *   await client.close()
 */

import { loadNative } from '../binding/load.js'
import type { OrbitClient } from './client.js'
import { type ConnectOptions, connectOver } from './connect.js'
import { createDeviceMemoryOver, type OwnDeviceMemory } from './device-memory.js'
import { createEngineMemoryOver, type EngineMemory } from './engine-memory.js'

export {
  CancelledError,
  CapabilityError,
  CapacityError,
  ClosedError,
  ConfigError,
  CorruptionError,
  type ErrorCode,
  IoError,
  OrbitError,
  ProtocolError,
} from '../shared/base/errors.js'
export type { OrbitClient } from './client.js'
export type { ConnectOptions } from './connect.js'
export type { DeviceMemory, OwnDeviceMemory } from './device-memory.js'
export type { EngineMemory } from './engine-memory.js'
export type { OperationResult } from './operations.js'
export type { Registered, Registration } from './registration.js'
export type {
  Attached,
  ClaimRequest,
  Greeting,
  PrepareAnswer,
  PrepareRequest,
  PublishRequest,
  PublishResult,
  QueryAnswer,
  QueryRequest,
  QueryResult,
  RestoreRequest,
  TransferOptions,
  WaitOptions,
  WarmAnswer,
} from './requests.js'

/**
 * Connects to a Manager and greets it.
 * @throws Error of the system (ENOENT, ECONNREFUSED, EACCES) when nobody listens; ProtocolError peer_uid_refused or
 * version_mismatch; CapabilityError native_addon_missing; CancelledError.
 */
export async function connect(options: ConnectOptions): Promise<OrbitClient> {
  return await connectOver(loadNative(), options)
}

/** Creates engine pages in shared memory: `bytes` bytes of zeros. @throws Error of the system, CapabilityError. */
export function createEngineMemory(bytes: number): EngineMemory {
  return createEngineMemoryOver(loadNative(), bytes)
}

/**
 * Allocates engine pages on a CUDA device (`GPU-…` as tools print its UUID), for engines without a framework that does.
 * @throws Error of the driver, CapabilityError.
 */
export function createDeviceMemory(uuid: string, bytes: number): OwnDeviceMemory {
  return createDeviceMemoryOver(loadNative(), uuid, bytes)
}
