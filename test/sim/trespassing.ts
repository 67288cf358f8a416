import type { MessageOf } from '../../src/shared/layout/wire/messages.js'
import type { FaultKind } from './faults.js'
import type { ManagerProcess } from './manager-process.js'
import { keysOf } from './model.js'
import type { Command } from './plan.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { expectReply } from './session.js'
import { crowd, notGreeted, oversized, surplusDescriptor, truncated, wrongVersion, wrongWay } from './strangers.js'

type Trespass = (process: EngineProcess, rank: Rank, b: number) => void

/** By a connection of its own, so that only that one pays for it. */
const apart =
  (commit: (manager: ManagerProcess, b: number) => void): Trespass =>
  (process, _, b) =>
    commit(process.manager, b)

/** Things no honest engine does. Each is refused with its code and changes nothing; the last costs the connection. */
const TRESPASSES: readonly (readonly [FaultKind, Trespass])[] = [
  ['slot-stale', staleSlot],
  ['slot-out-of-range', farSlot],
  ['page-out-of-range', farPage],
  ['lease-foreign', foreignLease],
  ['lease-of-old-epoch', oldLease],
  ['ticket-foreign', foreignTicket],
  ['frame-truncated', apart(truncated)],
  ['frame-oversized', apart(oversized)],
  ['frame-wrong-way', apart(wrongWay)],
  ['version-wrong', apart(wrongVersion)],
  ['not-greeted', apart(notGreeted)],
  ['descriptor-surplus', apart(surplusDescriptor)],
  ['sessions-flooded', apart(crowd)],
  ['slot-stale', staleSlot],
  ['lease-foreign', foreignLease],
  ['frame-malformed', malformed],
]

export function trespass(process: EngineProcess, { a, b }: Command): void {
  const [kind, commit] = TRESPASSES[a % TRESPASSES.length] as (typeof TRESPASSES)[number]
  if (kind === 'lease-of-old-epoch' && process.world.oldLease === 0) return
  if (process.world.fault(kind)) commit(process, process.ranks[b % process.ranks.length] as Rank, b)
}

function onePage(slot: number, generation: number, page: number): MessageOf<'publish'> {
  const items = { keys: keysOf([0]), pages: Uint32Array.of(page) }
  return { kind: 'publish', slot, generation, fence: 0, partialOk: true, groups: [{ group: 0, layers: null, items }] }
}

/** A generation that the slot has seen. */
function staleSlot(process: EngineProcess, rank: Rank, b: number): void {
  const slot = b % rank.taken.length
  const generation = rank.taken[slot] as number
  if (generation === 0) return
  const refused = codes('slot_stale_generation', 'slot_busy', 'draining', 'session_closed', 'instance_unknown')
  rank.session.request(onePage(slot, generation, 0), (reply) => expectReply('stale publish', reply, [], refused))
  void process
}

function farPage(process: EngineProcess, rank: Rank): void {
  const slot = process.freeSlot(rank)
  if (slot < 0) return
  const refused = codes('page_out_of_range', 'slot_busy', 'draining', 'session_closed', 'instance_unknown')
  const generation = (rank.generations[slot] as number) + 1
  const message = onePage(slot, generation, process.model.plan.pages)
  rank.session.request(message, (reply) => expectReply('publish of page out of range', reply, [], refused))
}

/** A slot that the session does not have. */
function farSlot(process: EngineProcess, rank: Rank, b: number): void {
  const refused = codes('slot_out_of_range', 'draining', 'session_closed', 'instance_unknown')
  const message = onePage(process.world.plan.sizes.slots + (b % 64), 1, 0)
  rank.session.request(message, (reply) => expectReply('publish in a slot out of range', reply, [], refused))
}

/** A ticket that nobody has, or that another session has. */
function foreignTicket(process: EngineProcess, rank: Rank, b: number): void {
  const refused = codes('ticket_unknown', 'draining', 'session_closed', 'instance_unknown', 'instance_not_sealed')
  const others = process.manager.machine.context.sessions
  let ticket = 1_000_000 + b
  for (const session of others)
    if (session.pid !== process.pid) for (const each of session.queries.values()) ticket = each
  rank.session.request({ kind: 'query_poll', ticket }, (reply) =>
    expectReply('poll of a foreign ticket', reply, [], refused),
  )
}

/** A lease of a Manager that is gone: the new one has never heard of it (G4, K3). */
function oldLease(process: EngineProcess, rank: Rank): void {
  redeem(process, rank, process.world.oldLease, new Set([...MEANWHILE, ...codes('lease_unknown')]))
}

/** A lease of another instance, or one that never was. */
function foreignLease(process: EngineProcess, rank: Rank, b: number): void {
  const records = process.manager.machine.context.leaseRecords
  const own = process.manager.machine.context.instances
  const mine = [...own].find((instance) => instance.id === hex(process.instanceId))
  let lease = 1_000_000 + b
  for (const known of process.manager.leases.keys()) {
    const record = records.get(known)
    if (record !== undefined && record.instance !== mine?.number) lease = known
  }
  redeem(process, rank, lease, new Set([...MEANWHILE, ...codes('lease_wrong_instance', 'lease_already_redeemed')]))
}

function redeem(process: EngineProcess, rank: Rank, lease: number, refused: ReadonlySet<number>): void {
  const slot = process.freeSlot(rank)
  if (slot < 0) return
  const generation = (rank.generations[slot] as number) + 1
  const message = { kind: 'restore', slot, generation, lease, fence: 0, groups: [] } as const
  rank.session.request(message, (reply) => expectReply(`restore of lease ${lease}`, reply, [], refused))
}

function malformed(process: EngineProcess, rank: Rank, b: number): void {
  rank.session.garbage(Uint8Array.from({ length: 3 + (b % 60) }, (_, index) => (index * 37 + b) & 0xff))
  void process
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
