import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { PROTO_DEVICE_MEMORY } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import type { DeviceLanes } from '../lanes/device-lanes.js'
import type { MappedMemory } from '../ports.js'
import type { Session } from '../sessions/session.js'
import { hex } from './digests.js'

type RegisterRequest = MessageOf<'register'>
type Allocation = RegisterRequest['allocations'][number]
type DeviceAllocation = Extract<Allocation, { readonly kind: 'cuda_ipc' }>

/**
 * The lanes of the device that a rank says its memory lies on. All memory of a rank is of one device: its copies are
 * work of one pair of lanes.
 */
export function lanesFor(context: Context, session: Session, message: RegisterRequest): DeviceLanes | Refusal {
  const { device, allocations } = message
  if (device.kind === 'host') {
    const foreign = allocations.findIndex(({ kind }) => kind === 'cuda_ipc')
    return foreign < 0 ? (context.devices[0] as DeviceLanes) : unsupported(`allocation ${foreign} is device memory`)
  }
  if (session.proto < PROTO_DEVICE_MEMORY) {
    return unsupported(`protocol ${session.proto} was agreed on, and device memory came with ${PROTO_DEVICE_MEMORY}`)
  }
  const uuid = uuidText(device.uuid)
  const lanes = context.devices.find((each) => each.device.uuid === uuid)
  if (lanes === undefined) {
    const served = context.devices.filter((each) => each.device.uuid !== '')
    return refuse(
      'device_unknown',
      `Cannot register memory of ${uuid}: it is none of the ${served.length} CUDA devices served here; start with it visible, and in --devices`,
      {
        uuid,
        served: served
          .map((each) => each.device.uuid)
          .join(' ')
          .slice(0, 256),
      },
    )
  }
  const foreign = allocations.findIndex(({ kind }) => kind === 'host_fd')
  if (foreign >= 0) return unsupported(`allocation ${foreign} is host memory, the device is ${lanes.device.name}`)
  return lanes
}

/** A read route that the operator named is had by every rank, or the rank is refused. */
export function unreachedByPin({ options }: Context, lanes: DeviceLanes): Refusal | null {
  const { readRoute, readsPinned } = options.routes
  if (readRoute !== 'cufile' || !readsPinned || lanes.ssd !== null) return null
  return unsupported(
    `--ssd-read-path cufile reads into memory of a CUDA device, and this rank's pages are on ${lanes.device.name}; start the Manager without it, or the engine with device memory`,
  )
}

/** True for a rank that cuFile does not reach on a Manager that has it: its SSD reads and writes go by io_uring. */
export function byUring({ options }: Context, { hold }: Session): boolean {
  return options.staging.length > 0 && hold !== null && hold.lanes.ssd === null
}

function unsupported(why: string): Refusal {
  return refuse('device_unsupported', `Cannot register: ${why}`)
}

/** A UUID as tools print it: `GPU-` and five groups. */
function uuidText(uuid: Uint8Array): string {
  return hex(uuid).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, 'GPU-$1-$2-$3-$4-$5')
}

/**
 * Maps every allocation and appends its mapping to `mappings`, which the caller gives back when it refuses; returns
 * the bytes of each, which are what is really there, whatever the message claims.
 */
export function mapAll(
  context: Context,
  session: Session,
  lanes: DeviceLanes,
  message: RegisterRequest,
  fds: readonly number[],
  mappings: number[],
): number[] | Refusal {
  const twice = overlapOf(message.allocations)
  if (twice !== null) return twice
  const bytes: number[] = []
  let fdsUsed = 0
  for (const [i, allocation] of message.allocations.entries()) {
    const memory =
      allocation.kind === 'local_mapping'
        ? borrow(context, session, i, allocation.mapping)
        : allocation.kind === 'cuda_ipc'
          ? importDevice(context, session, lanes.device.uuid, i, allocation)
          : importFile(context, i, fds[fdsUsed++] as number)
    if (isRefusal(memory)) return memory
    mappings.push(memory.mapping)
    if (memory.device !== lanes.device.name) {
      return unsupported(`allocation ${i} lies on ${memory.device}, the rank says ${lanes.device.name}`)
    }
    if (memory.bytes < allocation.bytes) {
      return refuse(
        'region_out_of_bounds',
        `Cannot map allocation ${i}: ${allocation.bytes} bytes were announced, ${memory.bytes} are there`,
        { allocation: i, announced: allocation.bytes, real: memory.bytes },
      )
    }
    bytes.push(memory.bytes)
  }
  return bytes
}

/** Two allocations that are the same device memory: what is copied into one would change the other. */
function overlapOf(allocations: readonly Allocation[]): Refusal | null {
  const byHandle = new Map<string, { readonly index: number; readonly memory: DeviceAllocation }[]>()
  for (const [index, memory] of allocations.entries()) {
    if (memory.kind !== 'cuda_ipc') continue
    const handle = hex(memory.handle)
    const others = byHandle.get(handle) ?? []
    const other = others.find(
      (each) =>
        each.memory.offsetBytes < memory.offsetBytes + memory.bytes &&
        memory.offsetBytes < each.memory.offsetBytes + each.memory.bytes,
    )
    if (other !== undefined) {
      return refuse(
        'region_overlap',
        `Cannot map allocation ${index}: it overlaps allocation ${other.index} of the same handle`,
        { allocation: index, other: other.index },
      )
    }
    byHandle.set(handle, [...others, { index, memory }])
  }
  return null
}

function importFile(context: Context, allocation: number, fd: number): MappedMemory | Refusal {
  return (
    context.ports.importMemory(fd) ??
    refuse(
      'memory_not_sealed',
      `Cannot map allocation ${allocation}: it must be a memfd sealed against shrinking and growing (F_SEAL_SHRINK, F_SEAL_GROW)`,
      { allocation },
    )
  )
}

function importDevice(
  context: Context,
  session: Session,
  uuid: string,
  index: number,
  allocation: DeviceAllocation,
): MappedMemory | Refusal {
  const { ownPid } = context.options
  const no = (why: string) =>
    refuse('memory_not_importable', `Cannot map allocation ${index}: ${why}`, { allocation: index })
  if (allocation.handle.every((byte) => byte === 0)) return no('its CUDA IPC handle is all zeros')
  if (ownPid !== 0 && session.pid === ownPid) {
    return no('its handle is of this very process, where the driver opens none; name the memory by its mapping')
  }
  const { handle, offsetBytes, bytes } = allocation
  const memory = context.ports.importDeviceMemory(uuid, handle, offsetBytes, bytes)
  if ('mapping' in memory) return memory
  return refuse('memory_not_importable', `Cannot map allocation ${index}: ${memory.text}`, {
    allocation: index,
    offsetBytes,
    bytes,
    system: memory.refused,
  })
}

/** Memory that this process has mapped, for engines in this process: the kernel says which process a peer is. */
function borrow(context: Context, session: Session, allocation: number, mapping: number): MappedMemory | Refusal {
  const { ownPid } = context.options
  if (session.pid !== ownPid || ownPid === 0) {
    return refuse(
      'memory_not_local',
      `Cannot map allocation ${allocation}: process ${session.pid} names memory of the Manager's process; pass a descriptor`,
      { allocation, pid: session.pid },
    )
  }
  return (
    context.ports.borrowMapping(mapping) ??
    refuse('memory_not_local', `Cannot map allocation ${allocation}: no memory here has number ${mapping}`, {
      allocation,
      mapping,
    })
  )
}
