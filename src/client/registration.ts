import { createHash } from 'node:crypto'
import { ProtocolError } from '../shared/base/errors.js'
import { plainDigest } from '../shared/layout/namespace.js'
import { PROTO_DEVICE_MEMORY } from '../shared/layout/wire/limits.js'
import type { MessageOf } from '../shared/layout/wire/messages.js'
import type { DeviceMemory } from './device-memory.js'
import type { EngineMemory, LocalMemory } from './engine-memory.js'
import type { Fields } from './requests.js'

/** One rank of an instance: REGISTER without what the client adds itself. */
export interface Registration
  extends Omit<Fields<MessageOf<'register'>>, 'claimedDigest' | 'allocations' | 'canaries' | 'namespaceInputs'> {
  /** Everything that makes cached bytes meaningful, by tag: model, revision, dtype, hash seed, salt. */
  readonly namespaceInputs: ReadonlyMap<string, Uint8Array>
  /** The engine's pages; regions name them by index. */
  readonly memory: readonly (EngineMemory | LocalMemory | DeviceMemory)[]
  readonly canaries?: MessageOf<'register'>['canaries']
}

export type Registered = Fields<MessageOf<'registered'>>

/**
 * REGISTER of a rank, and the descriptors that travel with it. `proto` is what was agreed on.
 * @throws ProtocolError device_unsupported: the Manager is too old for device memory
 */
export function registerMessage(
  { memory, namespaceInputs, canaries = [], ...rest }: Registration,
  proto: number,
): { readonly message: MessageOf<'register'>; readonly fds: readonly number[] } {
  if (rest.device.kind === 'cuda' && proto < PROTO_DEVICE_MEMORY) {
    throw new ProtocolError(
      'device_unsupported',
      `Cannot register device memory: the Manager speaks protocol ${proto}, ${PROTO_DEVICE_MEMORY} is needed`,
      { proto },
    )
  }
  const message = {
    kind: 'register',
    ...rest,
    namespaceInputs: [...namespaceInputs].map(([tag, value]) => ({ tag, value })),
    claimedDigest: plainDigest((bytes) => createHash('sha256').update(bytes).digest(), namespaceInputs),
    allocations: memory.map(allocationOf),
    canaries,
  } as const
  return { message, fds: memory.flatMap((each) => ('fd' in each ? [each.fd] : [])) }
}

function allocationOf(memory: Registration['memory'][number]): MessageOf<'register'>['allocations'][number] {
  const { bytes } = memory
  if ('fd' in memory) return { kind: 'host_fd', bytes }
  if ('handle' in memory) return { kind: 'cuda_ipc', handle: memory.handle, offsetBytes: memory.offsetBytes, bytes }
  return { kind: 'local_mapping', bytes, mapping: memory.mapping }
}
