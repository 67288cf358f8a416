import { plainDigest } from '../../src/shared/layout/namespace.js'
import { IPC_HANDLE_BYTES, PROTO_DEVICE_MEMORY } from '../../src/shared/layout/wire/limits.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import type { Opened } from './descriptors.js'
import { EngineMemory } from './descriptors.js'
import type { CONTROL_FAULTS } from './faults.js'
import { GPU_UUID, OUR_UID } from './limits.js'
import { sha256 } from './manager-ports.js'
import type { Model } from './model.js'
import { RankPages } from './pages.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { ClientSession, expectReply } from './session.js'
import { must } from './violation.js'

type ControlFault = (typeof CONTROL_FAULTS)[number]

/** The code with which each fault of a registration is refused; the others are none of the Manager's business. */
const REFUSED_BY: Partial<Record<ControlFault, Parameters<typeof codes>[0]>> = {
  'memory-unsealed': 'memory_not_sealed',
  'memory-short': 'region_out_of_bounds',
  'template-refused': 'region_out_of_bounds',
  'digest-wrong': 'namespace_mismatch',
  'world-size-wrong': 'geometry_invalid',
  'slots-exhausted': 'capacity_slots',
  'canary-wrong': 'canary_mismatch',
}

/** What the same faults are to device memory: the driver opens no such handle. */
const REFUSED_ON_GPU: typeof REFUSED_BY = {
  ...REFUSED_BY,
  'memory-unsealed': 'memory_not_importable',
  'memory-short': 'memory_not_importable',
}

/** What any registration may meet: others leave, or have the place. */
const HONEST = ['draining', 'session_closed', 'instance_conflict', 'capacity_sessions', 'rank_taken'] as const

/** Connects and registers every rank of a process, one of them with the fault that strikes it. */
export function register(process: EngineProcess): void {
  const { world, manager, model, engine } = process
  const strike = world.control.strike()
  const fault = strike?.kind ?? null
  // A process that is started again at once, under the name that the dead one had: the Manager may not have noticed.
  if (fault === 'engine-reborn') process.identify(engine.incarnations - 1)
  for (let rank = 0; rank < model.plan.ranks; rank++) {
    const struck = rank === 0 ? fault : null
    const session = new ClientSession(manager, process, struck === 'uid-foreign' ? OUR_UID + 1 : OUR_UID)
    session.model = model
    session.slotsExhausted = struck === 'slots-exhausted'
    // Templates are made when the last rank comes.
    if (fault === 'template-refused') session.templatesLeft = (strike?.amount ?? 0) % (model.plan.ranks * model.groups)
    const pages = new RankPages(`memory ${process.pid}/${rank}`, model, rank)
    const of = { number: rank, session, pages, slots: 0, generations: [], taken: [], operations: [] }
    process.ranks.push(of)
    const enter = () => registerRank(process, of, fault, struck)
    const late = fault === 'rank-late' && rank === model.plan.ranks - 1
    const then = late
      ? () => world.clock.after(2_000 + (strike?.amount ?? 0) * 80, () => process.deliver(enter))
      : enter
    greet(process, session, 'worker', then)
  }
}

function greet(process: EngineProcess, session: ClientSession, role: 'worker' | 'scheduler', then: () => void): void {
  session.request(helloOf(process.pid, role, process.onGpu ? PROTO_DEVICE_MEMORY : 1), (reply) => {
    expectReply('hello', reply, ['welcome'], codes('draining', 'capacity_sessions', 'peer_uid_refused'))
    if (reply.kind === 'welcome') then()
  })
}

export function helloOf(pid: number, role: 'worker' | 'scheduler', protoMax = 1): MessageOf<'hello'> {
  return {
    kind: 'hello',
    protoMin: 1,
    protoMax,
    role,
    pid,
    bootNonce: pid,
    engine: 'sim',
    engineVersion: '1',
    adapterVersion: '1',
  }
}

/** `fault`: of the process; `struck`: when it is this rank that carries it. */
function registerRank(
  process: EngineProcess,
  rank: Rank,
  fault: ControlFault | null,
  struck: ControlFault | null,
): void {
  const sealed = struck !== 'memory-unsealed'
  const short = struck === 'memory-short'
  const memory = short ? new EngineMemory(`${rank.pages.memory.name} cut`, 64) : rank.pages.memory
  const refusedBy = process.onGpu ? REFUSED_ON_GPU : REFUSED_BY
  const expected = fault === null ? undefined : refusedBy[fault]
  if (process.unreached) process.world.faults.fired('rank-unreached')
  const refusals = codes(
    ...HONEST,
    ...(process.unreached ? (['device_unsupported'] as const) : []),
    ...(expected === undefined ? [] : [expected]),
  )
  const registered = (reply: WireReply, opened: readonly Opened[]) => {
    expectReply('register', reply, ['registered'], refusals)
    const mayEnter = struck === null || refusedBy[struck] === undefined || struck === 'template-refused'
    must(reply.kind !== 'registered' || mayEnter, 'X3', () => `${struck} was let in`)
    must(reply.kind !== 'registered' || !process.unreached, 'N2', () => 'a rank that its read route does not reach')
    if (reply.kind !== 'registered') return process.die()
    entered(process, rank, reply, opened)
  }
  if (process.onGpu && sealed) process.manager.exported.set(hex(handleOf(process, rank)), memory)
  const opened: readonly Opened[] = process.onGpu ? [] : [{ kind: 'memory', memory, sealed }]
  rank.session.request(messageOf(process, rank, struck), registered, opened)
}

/** The driver's name of a rank's memory. */
function handleOf({ pid }: EngineProcess, { number }: Rank): Uint8Array {
  const handle = new Uint8Array(IPC_HANDLE_BYTES)
  new DataView(handle.buffer).setUint32(0, pid)
  handle[4] = 1 + number
  return handle
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

const namespaceInputs = (model: Model) =>
  new Map([['model', Uint8Array.of(model.number, model.plan.layers, model.plan.pages & 1)]])

function messageOf(process: EngineProcess, rank: Rank, fault: ControlFault | null): MessageOf<'register'> {
  const { model } = process
  const inputs = namespaceInputs(model)
  const region = model.regions[0] as Model['regions'][number]
  const last = region.offsetBytes + (region.pageCount - 1) * region.pageStrideBytes
  const canary = (offset: number) => {
    const bytes = new Uint8Array(64)
    bytes.set(rank.pages.memory.bytes.subarray(offset, offset + Math.min(64, region.segmentBytes)))
    return bytes
  }
  const firstPage = canary(region.offsetBytes)
  if (fault === 'canary-wrong') firstPage[3] = (firstPage[3] as number) ^ 1
  const claimedDigest = plainDigest(sha256, inputs)
  if (fault === 'digest-wrong') claimedDigest[9] = (claimedDigest[9] as number) ^ 1
  return {
    kind: 'register',
    instanceId: process.instanceId,
    namespaceInputs: [...inputs].map(([tag, value]) => ({ tag, value })),
    claimedDigest,
    tpRank: rank.number,
    tpSize: model.plan.ranks,
    ppRank: 0,
    ppSize: 1,
    worldSize: model.plan.ranks + (fault === 'world-size-wrong' ? 1 : 0),
    pageFirst: model.plan.layout === 'page-first',
    device: process.onGpu ? { kind: 'cuda', uuid: GPU_UUID } : { kind: 'host', uuid: new Uint8Array(16) },
    allocations: process.onGpu
      ? [{ kind: 'cuda_ipc', handle: handleOf(process, rank), offsetBytes: 0, bytes: model.bytes }]
      : [{ kind: 'host_fd', bytes: model.bytes }],
    groups: Array.from({ length: model.groups }, (_, id) => {
      const { kind, blockTokens, windowTokens } = model.spec(id)
      return { id, kind, blockTokens, window: windowTokens }
    }),
    regions: model.regions.map((each) => ({ ...each, kvRole: each.kvRole as 'packed' | 'k' | 'v' })),
    canaries: [{ region: 0, firstPage, lastPage: canary(last) }],
    slotCount: process.world.plan.sizes.slots,
  }
}

/** One rank is in; the last one brings the scheduler, or the process up. */
function entered(process: EngineProcess, rank: Rank, reply: MessageOf<'registered'>, opened: readonly Opened[]): void {
  must(opened.length === 3, 'X2', () => `registered brings ${opened.length} descriptors`)
  const table = opened[0]
  must(table?.kind === 'slots', 'X2', () => 'the first descriptor of registered is not a slot table')
  if (table?.kind !== 'slots') return
  rank.slots = table.slots
  for (let slot = 0; slot < reply.slots; slot++) {
    rank.generations.push(0)
    rank.taken.push(0)
    rank.operations.push(null)
  }
  process.watchSlots(rank)
  process.registered++
  if (process.registered < process.ranks.length) return
  if (!process.engine.plan.scheduler) {
    process.state = 'up'
    return
  }
  const scheduler = new ClientSession(process.manager, process, OUR_UID)
  process.scheduler = scheduler
  greet(process, scheduler, 'scheduler', () => {
    scheduler.request({ kind: 'attach', instanceId: process.instanceId }, (attached) => {
      expectReply('attach', attached, ['attached'], MEANWHILE)
      if (attached.kind !== 'attached') return process.die()
      must(attached.sealed, 'X1', () => 'all ranks have registered and the instance is not sealed')
      process.state = 'up'
    })
  })
}
