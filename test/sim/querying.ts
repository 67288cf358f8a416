import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import { keysOf, type Model } from './model.js'
import type { PageRef } from './pages.js'
import type { Command } from './plan.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { afterFence, blocksFrom, publishBlocks } from './publishing.js'
import { expectReply } from './session.js'
import type { SlotEnd } from './slots.js'
import { must } from './violation.js'
import { CHAIN_BLOCKS, chainOf, PROBE_CHAIN } from './watched-entries.js'

/** What the engine does with a query once it is answered. */
export interface Manner {
  readonly first: number
  readonly count: number
  readonly allowSsd: boolean
  readonly polls: number
  readonly pollUs: number
  /** What READY leads to; see `ready`. */
  readonly leadsTo: 'restore' | 'release' | 'expire' | 'renew' | 'late' | 'twice' | 'one-rank'
  readonly fenceUs: number
  readonly cancelUs: number
  readonly mask: number
  /** Ask once more with the same, or a higher, revision while it loads. */
  readonly again: boolean
}

const THEN: readonly Manner['leadsTo'][] = [
  'restore',
  'restore',
  'restore',
  'restore',
  'restore',
  'restore',
  'restore',
  'release',
  'expire',
  'renew',
  'late',
  'twice',
  'one-rank',
]

/** QUERY of a chain, and what follows. */
export function query(process: EngineProcess, command: Command): void {
  run(process, chainOf(command.a), mannerOf(command), () => {})
}

/** Queries that one flood asks for at once: more than a session may have open. */
const FLOOD = 40

/** A client that asks and asks: what is over its share is refused, and nobody else notices (D5, X9). */
export function flood(process: EngineProcess, command: Command): void {
  if (!process.world.fault('queries-flooded')) return
  const manner = { ...mannerOf({ ...command, verb: 'query' }), polls: 2, leadsTo: 'release' } as const
  for (let each = 0; each < FLOOD; each++) run(process, chainOf(command.a + each * 8), manner, () => {})
}

/** What the numbers of a command say. */
export function mannerOf({ verb, a, b, c }: Command): Manner {
  const first = a % 7 === 0 ? 2 : 0
  return {
    first,
    count: 1 + ((a >> 5) % (CHAIN_BLOCKS - first)),
    allowSsd: b % 11 !== 0,
    polls: b % 13 === 0 ? 1 : 40,
    pollUs: 20 + (b % 250),
    leadsTo: THEN[c % THEN.length] as Manner['leadsTo'],
    fenceUs: (c >> 4) % 6 === 0 ? 1 + (c % 500) : 0,
    cancelUs: (c >> 6) % 9 === 0 ? 1 + (c % 400) : 0,
    mask: (b >> 5) % 5 === 0 ? b >> 8 : 0xffff,
    again: verb === 'query-again',
  }
}

/** Phase two: something new goes in and comes back. `then(false)`: try again. */
export function probe(process: EngineProcess, chain: number, then: (ok: boolean) => void): void {
  const blocks = blocksFrom(process, chain, 0, process.model.plan.tokensFactor)
  if (blocks.length < process.model.groups) return then(false)
  const manner = { halves: 0, ranks: process.ranks.length, fenceUs: 0, partialOk: false, cancelUs: 0 } as const
  publishBlocks(process, blocks, manner, () => {
    const again = { ...QUIET, count: process.model.plan.tokensFactor }
    run(process, chain, again, then)
  })
}

const QUIET: Manner = {
  first: 0,
  count: 1,
  allowSsd: true,
  polls: 100,
  pollUs: 100,
  leadsTo: 'restore',
  fenceUs: 0,
  cancelUs: 0,
  mask: 0xffff,
  again: false,
}

/** One query from its request to the end of everything that it led to. `then`: did all of it come back? */
function run(process: EngineProcess, chain: number, manner: Manner, then: (ok: boolean) => void): void {
  const asked = askedOf(process, chain, manner)
  if (asked.every(({ keys }) => keys.length === 0)) return then(false)
  process.flows++
  const end = (ok: boolean) => {
    process.flows--
    then(ok)
  }
  const requestId = process.nextRequestId++
  const message = (revision: number): MessageOf<'query'> => ({
    kind: 'query',
    requestId,
    revision,
    allowSsd: manner.allowSsd,
    groups: groupsOf(asked),
  })
  untilAnswered(process, asked, manner, message, end)
}

/** The groups of a request as they travel. */
export function groupsOf(asked: Asked): MessageOf<'query'>['groups'] {
  return asked.map(({ group, firstBlock, keys }) => ({ group, firstBlock, keys: keysOf(keys) }))
}

/** The keys of a request: consecutive blocks of a chain, for every group. */
export function askedOf({ model }: EngineProcess, chain: number, manner: Manner): Asked {
  const asked: { group: number; firstBlock: number; keys: number[] }[] = []
  for (let group = 0; group < model.groups; group++) {
    const firstBlock = Math.ceil((manner.first * model.blockTokens(0)) / model.blockTokens(group))
    const end = model.blocksOf(group, manner.first + manner.count)
    const keys = Array.from({ length: Math.max(0, end - firstBlock) }, (_, i) => chain * CHAIN_BLOCKS + firstBlock + i)
    asked.push({ group, firstBlock, keys })
  }
  return asked
}

/** Sends a query, or a claim, and polls it until its answer; then goes on as the manner says. */
export function untilAnswered(
  process: EngineProcess,
  asked: Asked,
  manner: Manner,
  message: (revision: number) => MessageOf<'query' | 'claim'>,
  end: (ok: boolean) => void,
): void {
  const { world } = process
  const session = process.speaker()
  let polls = 0
  let again = manner.again
  // A preparation may have ended before its claim came.
  let claims = message(0).kind === 'claim'
  const answer = (reply: WireReply) => {
    const allowed = claims ? new Set([...MEANWHILE, ...codes('ticket_unknown')]) : MEANWHILE
    claims = false
    expectReply('query', reply, ['ready', 'loading', 'miss', 'busy'], allowed)
    if (reply.kind === 'ready') return ready(process, reply, asked, manner, end)
    if (reply.kind === 'busy') world.faults.fired('budget-busy')
    if (reply.kind !== 'loading') return end(false)
    if (again) {
      again = false
      return session.request(message(polls % 2), answer)
    }
    if (polls++ >= manner.polls) {
      if (manner.pollUs % 2 === 0) return end(false)
      session.request({ kind: 'release', what: 'ticket', id: reply.ticket }, (released) => {
        expectReply('release', released, ['ack'], MEANWHILE)
        end(false)
      })
      return
    }
    world.clock.after(manner.pollUs, () => {
      if (process.up) process.deliver(() => session.request({ kind: 'query_poll', ticket: reply.ticket }, answer))
      else end(false)
    })
  }
  session.request(message(0), answer)
}

export type Asked = readonly { readonly group: number; readonly firstBlock: number; readonly keys: readonly number[] }[]

/** One block under a lease. */
interface Held {
  readonly group: number
  readonly source: number
  readonly key: number
  readonly generation: number
}

/** A lease is held: what it covers is checked against what the world saw, then redeemed or given up. */
function ready(
  process: EngineProcess,
  reply: MessageOf<'ready'>,
  asked: Asked,
  manner: Manner,
  end: (ok: boolean) => void,
): void {
  const { world, model } = process
  const { lease } = reply
  const tokens = reply.boundaries[reply.boundaries.length - 1] as number
  const generations = process.manager.leases.get(lease)
  must(generations !== undefined, 'V3', () => `lease ${lease} was never granted`)
  const held: Held[] = []
  for (const { group, firstBlock, keys } of asked) {
    const { firstSource, generations: known } = generations?.get(group) ?? { firstSource: 0, generations: [] }
    const blocks = model.needed(group, tokens, firstBlock)
    const sources = known.map((_, index) => firstSource + index)
    must(
      blocks !== null && blocks.map((block) => block - firstBlock).join() === sources.join(),
      'V3',
      () => `READY at ${tokens} tokens needs blocks ${blocks} of group ${group}, the lease holds sources ${sources}`,
    )
    for (const [index, generation] of known.entries()) {
      const source = firstSource + index
      const key = keys[source] as number
      process.manager.truth.mustBeSealed(generation, key, group)
      held.push({ group, source, key, generation })
    }
  }
  checkBoundaries(model, reply, asked, held)
  must(
    held.length === reply.blocksDram + reply.blocksSsd && held.length > 0,
    'V3',
    () => `READY counts ${reply.blocksDram} + ${reply.blocksSsd} blocks, the lease holds ${held.length}`,
  )
  const session = process.speaker()
  const release = (ok: boolean) =>
    session.request({ kind: 'release', what: 'lease', id: lease }, (released) => {
      expectReply('release', released, ['ack'], MEANWHILE)
      end(ok)
    })
  const lateUs = world.plan.sizes.leaseUs + 50
  switch (manner.leadsTo) {
    case 'release':
      return release(false)
    case 'expire':
      return end(false)
    case 'renew':
      session.request({ kind: 'renew', lease, extendMs: 3 }, (renewed) => {
        expectReply('renew', renewed, ['renewed'], MEANWHILE)
        if (renewed.kind === 'renewed' && process.up) restoreAll(process, lease, held, manner, process.ranks, end)
        else end(false)
      })
      return
    case 'late':
      world.clock.after(lateUs, () => {
        if (!process.up) return end(false)
        world.faults.fired('lease-expired')
        process.deliver(() => restoreAll(process, lease, held, { ...manner, leadsTo: 'late' }, process.ranks, end))
      })
      return
    case 'twice':
      world.faults.fired('redeemed-twice')
      return restoreAll(process, lease, held, manner, [...process.ranks, ...process.ranks], end)
    case 'one-rank':
      return restoreAll(process, lease, held, manner, process.ranks.slice(0, 1), (ok) => {
        if (process.up) release(ok)
        else end(false)
      })
    case 'restore':
      return restoreAll(process, lease, held, manner, process.ranks, end)
  }
}

/** Every boundary is one that somebody can resume at; those of the lease need nothing that it does not hold. */
function checkBoundaries(model: Model, reply: MessageOf<'ready'>, asked: Asked, held: readonly Held[]): void {
  const last = reply.boundaries[reply.boundaries.length - 1] as number
  for (const [list, served] of [
    [reply.boundaries, true],
    [reply.otherBoundaries, false],
  ] as const) {
    let before = 0
    for (const tokens of list) {
      must(
        tokens > before && tokens <= last,
        'V3',
        () => `boundary ${tokens} comes after ${before}, the last is ${last}`,
      )
      before = tokens
      let outside = 0
      for (const { group, firstBlock, keys } of asked) {
        const blocks = model.needed(group, tokens, firstBlock)
        const possible = blocks?.every((block) => block - firstBlock < keys.length) ?? false
        must(possible, 'V3', () => `group ${group} never resumes at ${tokens}`)
        const missing = (blocks ?? []).filter(
          (block) => !held.some((each) => each.group === group && each.source === block - firstBlock),
        )
        outside += missing.length
      }
      must(served === (outside === 0), 'V3', () => `boundary ${tokens} needs ${outside} blocks outside its lease`)
    }
  }
}

/** RESTORE by every rank into pages of its own; ends when all of them have ended. */
function restoreAll(
  process: EngineProcess,
  lease: number,
  held: readonly Held[],
  manner: Manner,
  ranks: readonly Rank[],
  end: (ok: boolean) => void,
): void {
  const pairs = choosePages(process, held, manner.mask)
  let left = 0
  let ok = true
  const ended = (one: boolean) => {
    if (!one) ok = false
    left--
    if (left === 0) end(ok)
  }
  const starts: (() => void)[] = []
  for (const rank of ranks) {
    starts.push(() => restoreOne(process, lease, pairs, manner, rank, ended))
  }
  left = starts.length
  for (const start of starts) start()
  if (process.onGpu && process.world.plan.gpu.drops) publishBeside(process, lease)
}

/** Chains of what is published beside restores: no query asks for them. */
const BESIDE_CHAIN = PROBE_CHAIN + 29
const BESIDE_CHAINS = 32

/** One new block, so that a write waits while a restore reads. */
function publishBeside(process: EngineProcess, lease: number): void {
  const chain = BESIDE_CHAIN + (lease % BESIDE_CHAINS)
  const blocks = blocksFrom(process, chain, Math.floor(lease / BESIDE_CHAINS) % CHAIN_BLOCKS, 1)
  if (blocks.length === 0) return
  const manner = { halves: 0, ranks: process.ranks.length, fenceUs: 0, partialOk: true, cancelUs: 0 } as const
  publishBlocks(process, blocks, manner, () => {})
}

export interface Pair extends PageRef {
  readonly source: number
  readonly key: number
  readonly generation: number
}

function choosePages(process: EngineProcess, held: readonly Held[], mask: number): Pair[] {
  const pairs: Pair[] = []
  for (let group = 0; group < process.model.groups; group++) {
    const wanted = held.filter((each) => each.group === group && ((mask >> (each.source % 16)) & 1) === 1)
    for (const [index, page] of process.freePages(group, wanted.length).entries()) {
      const { source, key, generation } = wanted[index] as Held
      pairs.push({ group, page, source, key, generation })
    }
  }
  return pairs
}

/** On a device whose read route may stop. */
const stoppable = (): ReadonlySet<number> => new Set([...MEANWHILE, ...codes('cufile_unavailable')])

/** One rank redeems. */
function restoreOne(
  process: EngineProcess,
  lease: number,
  wanted: readonly Pair[],
  manner: Manner,
  rank: Rank,
  ended: (ok: boolean) => void,
): void {
  const { world, model } = process
  const slot = process.freeSlot(rank)
  if (slot < 0) return ended(false)
  // A second redemption of the same rank finds its pages taken: it asks for nothing, and is refused all the same.
  const pairs = wanted.filter(({ group, page }) => rank.pages.free(group, page))
  const fence = manner.fenceUs === 0 ? 0 : 1
  const operation = process.begin(rank, slot, 'restore', pairs, null, fence, (end) => {
    if (end !== null) checkEnd(process, rank, pairs, end)
    ended(end?.state === SLOT_STATE.done)
  })
  const { generation } = operation
  if (fence === 0) for (const pair of pairs) rank.pages.expose(pair)
  else {
    afterFence(process, manner.fenceUs, () => {
      if (!process.alive || rank.generations[slot] !== generation) return
      if (rank.operations[slot] === operation) {
        // Until this moment the pages were the engine's: nothing may have been written.
        rank.pages.check()
        for (const pair of pairs) rank.pages.expose(pair)
      }
      process.manager.slots.raiseFence(rank.slots, slot, fence)
    })
  }
  const groups = Array.from({ length: model.groups }, (_, group) => ({
    group,
    pairs: Uint32Array.from(pairs.filter((pair) => pair.group === group).flatMap(({ source, page }) => [source, page])),
  })).filter((each) => each.pairs.length > 0)
  const allowed = new Set([...MEANWHILE, ...codes('lease_already_redeemed')])
  rank.session.request({ kind: 'restore', slot, generation, lease, fence, groups }, (reply) => {
    const late = manner.leadsTo === 'late'
    must(
      !late || reply.kind === 'error' || process.manager.time.everHeld,
      'G4',
      () => `lease ${lease} is redeemed after its time`,
    )
    if (reply.kind === 'error' && reply.code === ERROR_CODES.cufile_unavailable) {
      must(process.manager.routes.pinnedAndStopped, 'N2', () => `lease ${lease} is refused for want of a route`)
    }
    const plain = process.onGpu ? stoppable() : MEANWHILE
    process.answered(operation, reply, manner.leadsTo === 'twice' ? new Set([...plain, ...allowed]) : plain)
  })
  if (manner.cancelUs > 0) {
    world.clock.after(manner.cancelUs, () => {
      if (process.up && rank.operations[slot] === operation) process.cancel(operation)
    })
  }
}

function checkEnd(process: EngineProcess, rank: Rank, pairs: readonly Pair[], end: SlotEnd): void {
  const { world, model } = process
  const fits =
    (end.state === SLOT_STATE.done && end.errorCode === 0) ||
    (end.state === SLOT_STATE.cancelled && end.errorCode === ERROR_CODES.cancelled) ||
    (end.state === SLOT_STATE.failed && end.errorCode !== 0)
  must(fits, 'C5', () => `a restore ends in state ${end.state} with code ${end.errorCode}`)
  if (end.state !== SLOT_STATE.done) return
  const bytes = pairs.reduce((sum, { group }) => sum + model.pageBytes(group), 0)
  must(end.bytes === bytes, 'N5', () => `a restore of ${bytes} bytes says ${end.bytes}`)
  for (const pair of pairs) {
    rank.pages.verify(pair, pair.key, (segment) => process.manager.truth.version(pair.generation, rank.number, segment))
  }
  world.restoresVerified++
  world.blocksVerified += pairs.length
}
