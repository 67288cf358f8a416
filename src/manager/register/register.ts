import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { GRANULE_BYTES_MAX, SECTOR_BYTES } from '../../shared/base/units.js'
import { buildRank } from '../../shared/layout/geometry.js'
import { plainDigest } from '../../shared/layout/namespace.js'
import type { GroupSpec, RankGeometry, RankSpec, RegionSpec } from '../../shared/layout/regions.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import type { DeviceLanes } from '../lanes/device-lanes.js'
import type { SlotTable } from '../ports.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { Session } from '../sessions/session.js'
import { checkCanaries } from './canary.js'
import { hex, sameBytes } from './digests.js'
import type { Instance } from './instances.js'
import { byUring, lanesFor, mapAll, unreachedByPin } from './memory.js'
import { sealIfComplete } from './sealing.js'

type RegisterRequest = MessageOf<'register'>

/** What has been acquired while a rank is checked; given back as a whole when it is refused. */
interface Acquired {
  readonly mappings: number[]
  slotTable: SlotTable | null
}

const ZERO_DIGEST = new Uint8Array(32)

/**
 * REGISTER: one rank of an instance joins with its memory. Everything is checked against the real allocations before
 * anything is kept; a refused rank leaves nothing behind. The last rank seals the instance.
 */
export function register(
  context: Context,
  session: Session,
  request: number,
  message: RegisterRequest,
  fds: readonly number[],
): void {
  const acquired: Acquired = { mappings: [], slotTable: null }
  const refusal = join(context, session, message, fds, acquired)
  for (const fd of fds) context.ports.closeFd(fd)
  if (refusal !== null) {
    giveBack(context, acquired)
    return replyRefusal(context, session, request, refusal)
  }
  const instance = context.instances.get(session.instance)
  const table = session.hold?.slotTable
  if (instance === undefined || table === undefined) return
  reply(
    context,
    session,
    request,
    {
      kind: 'registered',
      session: session.number,
      sessionGeneration: session.number,
      sealed: instance.seal !== null,
      ranksPresent: instance.ranks.size,
      storageNamespace: instance.seal?.namespace ?? ZERO_DIGEST,
      granuleBytesMax: GRANULE_BYTES_MAX,
      slots: session.slots.length,
    },
    [table.clientFd, table.managerFd, table.eventFd],
  )
}

function join(
  context: Context,
  session: Session,
  message: RegisterRequest,
  fds: readonly number[],
  acquired: Acquired,
): Refusal | null {
  const refusal = checkPlace(context, session, message)
  if (refusal !== null) return refusal
  const inputs = new Map(message.namespaceInputs.map(({ tag, value }) => [tag, value.slice()]))
  const digest = plainDigest(context.ports.sha256, inputs)
  if (!sameBytes(digest, message.claimedDigest)) {
    return refuse('namespace_mismatch', 'Cannot register: the namespace digest is not that of the inputs sent')
  }
  const instance = findOrCreate(context, message, inputs, digest)
  if (isRefusal(instance)) return instance
  const rank = message.tpRank + message.ppRank * message.tpSize
  if (instance.ranks.has(rank)) {
    return refuse('rank_taken', `Cannot register tp ${message.tpRank} pp ${message.ppRank}: the rank is taken`, {
      rank,
    })
  }
  const groups = groupsOf(message)
  if (isRefusal(groups)) return groups
  const lanes = lanesFor(context, session, message)
  if (isRefusal(lanes)) return lanes
  const unreached = unreachedByPin(context, lanes)
  if (unreached !== null) return unreached
  const allocationBytes = mapAll(context, session, lanes, message, fds, acquired.mappings)
  if (isRefusal(allocationBytes)) return allocationBytes
  const geometry = buildRank(rankSpec(context, lanes, message, groups, allocationBytes))
  if (isRefusal(geometry)) return geometry
  const canary = checkCanaries(context.ports, message, acquired.mappings)
  if (canary !== null) return canary
  acquired.slotTable = context.ports.createSlots(message.slotCount)
  if (acquired.slotTable === null) {
    return refuse(
      'capacity_slots',
      `Cannot make ${message.slotCount} completion slots: no memory or descriptors left`,
      {
        slots: message.slotCount,
      },
    )
  }
  return enter(
    context,
    session,
    instance,
    rank,
    geometry,
    lanes,
    acquired.mappings,
    acquired.slotTable,
    message.slotCount,
    message.regions,
  )
}

function checkPlace(context: Context, session: Session, message: RegisterRequest): Refusal | null {
  const { options } = context
  if (context.draining) return refuse('draining', 'Cannot register: the Manager is draining')
  if (session.phase !== 'greeted' || session.role !== 'worker') {
    return refuse('instance_conflict', 'Cannot register in this session: it has an instance, or spoke as a scheduler')
  }
  const { tpRank, tpSize, ppRank, ppSize, worldSize, slotCount } = message
  if (tpRank >= tpSize || ppRank >= ppSize || worldSize !== tpSize * ppSize) {
    return refuse('geometry_invalid', 'Cannot register: ranks must lie inside tp and pp, and world size be tp * pp', {
      tpRank,
      tpSize,
      ppRank,
      ppSize,
      worldSize,
    })
  }
  const ids = new Set(message.groups.map(({ id }) => id))
  if (ids.size !== message.groups.length || message.groups.some(({ id }) => id >= ids.size)) {
    return refuse('geometry_invalid', 'Cannot register: group ids must be 0 to n - 1, each once', {
      groups: message.groups.length,
    })
  }
  if (slotCount < 1 || slotCount > options.slotsPerSessionMax) {
    return refuse(
      'slot_out_of_range',
      `Cannot make ${slotCount} slots: 1 to ${options.slotsPerSessionMax} are allowed`,
      {
        slots: slotCount,
      },
    )
  }
  return null
}

function findOrCreate(
  context: Context,
  message: RegisterRequest,
  inputs: ReadonlyMap<string, Uint8Array>,
  digest: Uint8Array,
): Instance | Refusal {
  const id = hex(message.instanceId)
  const found = context.instances.get(id)
  if (found === undefined) {
    if (context.instances.count >= context.options.instancesMax) {
      return refuse('capacity_sessions', `Cannot take another instance: ${context.instances.count} are open`, {
        instances: context.instances.count,
      })
    }
    return {
      id,
      number: context.instances.nextNumber(),
      worldSize: message.worldSize,
      tpSize: message.tpSize,
      ppSize: message.ppSize,
      pageFirst: message.pageFirst,
      plainInputs: inputs,
      plainDigest: digest,
      ranks: new Map(),
      sessions: new Set(),
      budget: context.queryBudget.instance(context.options.queryInstanceBudgetBytes),
      phase: 'open',
      seal: null,
    }
  }
  if (found.phase !== 'open') {
    return refuse('instance_conflict', `Cannot join instance ${id}: it is ${found.phase}`, { instance: id })
  }
  const same =
    found.worldSize === message.worldSize && found.tpSize === message.tpSize && found.pageFirst === message.pageFirst
  if (!same) return refuse('instance_conflict', `Cannot join instance ${id}: its ranks say otherwise`, { instance: id })
  if (!sameBytes(found.plainDigest, digest)) {
    return refuse('namespace_mismatch', `Cannot join instance ${id}: its ranks have another namespace`, {
      instance: id,
    })
  }
  return found
}

/** Groups by id: ids are 0 … n - 1, each once, in any order. */
function groupsOf({ groups }: RegisterRequest): GroupSpec[] | Refusal {
  const specs: GroupSpec[] = []
  for (const { id, kind, blockTokens, window } of groups) {
    if (id >= groups.length || specs[id] !== undefined) {
      return refuse(
        'geometry_invalid',
        `Cannot register group ${id}: the ids of ${groups.length} groups are 0 to ${groups.length - 1}, each once`,
        { group: id, groups: groups.length },
      )
    }
    specs[id] = { kind, blockTokens, windowTokens: window }
  }
  return specs
}

function rankSpec(
  { options }: Context,
  lanes: DeviceLanes,
  message: RegisterRequest,
  groups: readonly GroupSpec[],
  allocationBytes: readonly number[],
): RankSpec {
  return {
    tpRank: message.tpRank,
    ppRank: message.ppRank,
    regions: message.regions,
    allocationBytes,
    allocationOffsetBytes: message.allocations.map((each) => (each.kind === 'cuda_ipc' ? each.offsetBytes : 0)),
    groups,
    pageFirst: message.pageFirst,
    codec: options.codec,
    device: lanes.device.name === 'host' ? 'host' : 'cuda',
    paddingBytes: SECTOR_BYTES,
  }
}

/** The rank is in; when it was the last, the instance seals or the rank is out again. */
function enter(
  context: Context,
  session: Session,
  instance: Instance,
  rank: number,
  geometry: RankGeometry,
  lanes: DeviceLanes,
  mappings: readonly number[],
  slotTable: SlotTable,
  slotCount: number,
  regions: readonly RegionSpec[],
): Refusal | null {
  instance.ranks.set(rank, { session, geometry, mappings })
  session.hold = {
    rank,
    lanes,
    mappings,
    templates: [],
    slotTable,
    regions: regions.map(({ layer, group }) => ({ layer, group })),
  }
  const refusal = sealIfComplete(context, instance)
  if (refusal !== null) {
    instance.ranks.delete(rank)
    session.hold = null
    return refusal
  }
  if (context.instances.get(instance.id) === undefined) context.instances.add(instance)
  instance.sessions.add(session)
  session.instance = instance.id
  session.phase = 'bound'
  for (let i = 0; i < slotCount; i++) session.slots.push({ generation: 0, operation: null })
  if (byUring(context, session)) context.out.push({ kind: 'control', reply: { kind: 'rank-by-uring' } })
  return null
}

function giveBack(context: Context, acquired: Acquired): void {
  if (acquired.slotTable !== null) {
    const { slots, clientFd, managerFd, eventFd } = acquired.slotTable
    for (const fd of [clientFd, managerFd, eventFd]) context.ports.closeFd(fd)
    context.ports.releaseSlots(slots)
  }
  for (const mapping of acquired.mappings) context.ports.releaseMapping(mapping)
}
