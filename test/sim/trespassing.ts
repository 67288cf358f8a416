import type { MessageOf } from '../../src/shared/layout/wire/messages.js'
import type { FaultKind } from './faults.js'
import { keysOf } from './model.js'
import type { Command } from './plan.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { expectReply } from './session.js'

/** Things no honest engine does. Each is refused with its code and changes nothing; the last costs the connection. */
export function trespass(process: EngineProcess, { a, b }: Command): void {
  const rank = process.ranks[b % process.ranks.length] as Rank
  const kinds: readonly [FaultKind, (process: EngineProcess, rank: Rank, b: number) => void][] = [
    ['slot-stale', staleSlot],
    ['page-out-of-range', farPage],
    ['lease-foreign', foreignLease],
    ['slot-stale', staleSlot],
    ['page-out-of-range', farPage],
    ['lease-foreign', foreignLease],
    ['frame-malformed', malformed],
  ]
  const [kind, commit] = kinds[a % kinds.length] as (typeof kinds)[number]
  if (process.world.plan.off.includes(kind)) return
  process.world.faults.fired(kind)
  commit(process, rank, b)
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

/** A lease of another instance, or one that never was. */
function foreignLease(process: EngineProcess, rank: Rank, b: number): void {
  const slot = process.freeSlot(rank)
  if (slot < 0) return
  const records = process.world.machine.context.leaseRecords
  const own = process.world.machine.context.instances
  const mine = [...own].find((instance) => instance.id === hex(process.instanceId))
  let lease = 1_000_000 + b
  for (const known of process.world.leases.keys()) {
    const record = records.get(known)
    if (record !== undefined && record.instance !== mine?.number) lease = known
  }
  const generation = (rank.generations[slot] as number) + 1
  const refused = new Set([...MEANWHILE, ...codes('lease_wrong_instance', 'lease_already_redeemed')])
  const message = { kind: 'restore', slot, generation, lease, fence: 0, groups: [] } as const
  rank.session.request(message, (reply) => expectReply('restore of a foreign lease', reply, [], refused))
}

function malformed(process: EngineProcess, rank: Rank, b: number): void {
  rank.session.garbage(Uint8Array.from({ length: 3 + (b % 60) }, (_, index) => (index * 37 + b) & 0xff))
  void process
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
