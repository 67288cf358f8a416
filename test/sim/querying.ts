import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import { keysOf, type Model } from './model.js'
import type { Command } from './plan.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { blocksFrom, publishBlocks } from './publishing.js'
import { type Held, restoreAll } from './redeeming.js'
import { expectReply } from './session.js'
import { must } from './violation.js'
import { CHAIN_BLOCKS, chainOf } from './watched-entries.js'

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
  const { leadsTo, fenceUs, cancelUs, mask } = manner
  const redemption = { late: leadsTo === 'late', twice: leadsTo === 'twice', fenceUs, cancelUs, mask }
  const redeem = (ranks: readonly Rank[], then: (ok: boolean) => void) =>
    restoreAll(process, lease, held, redemption, ranks, then)
  switch (leadsTo) {
    case 'release':
      return release(false)
    case 'expire':
      return end(false)
    case 'renew':
      session.request({ kind: 'renew', lease, extendMs: 3 }, (renewed) => {
        expectReply('renew', renewed, ['renewed'], MEANWHILE)
        if (renewed.kind === 'renewed' && process.up) redeem(process.ranks, end)
        else end(false)
      })
      return
    case 'late':
      world.clock.after(lateUs, () => {
        if (!process.up) return end(false)
        world.faults.fired('lease-expired')
        process.deliver(() => redeem(process.ranks, end))
      })
      return
    case 'twice':
      world.faults.fired('redeemed-twice')
      return redeem([...process.ranks, ...process.ranks], end)
    case 'one-rank':
      return redeem(process.ranks.slice(0, 1), (ok) => {
        if (process.up) release(ok)
        else end(false)
      })
    case 'restore':
      return redeem(process.ranks, end)
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
