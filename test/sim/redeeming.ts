import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import type { PageRef } from './pages.js'
import { codes, type EngineProcess, MEANWHILE, type Rank } from './process.js'
import { afterFence, blocksFrom, publishBlocks } from './publishing.js'
import type { SlotEnd } from './slots.js'
import { must } from './violation.js'
import { CHAIN_BLOCKS, PROBE_CHAIN } from './watched-entries.js'

/** How a lease is redeemed. */
export interface Redemption {
  /** After its lease has ended. */
  readonly late: boolean
  /** Every rank redeems twice. */
  readonly twice: boolean
  readonly fenceUs: number
  readonly cancelUs: number
  /** Of the blocks under the lease, those that are wanted: a bit for each source, modulo 16. */
  readonly mask: number
}

/** One block under a lease. */
export interface Held {
  readonly group: number
  readonly source: number
  readonly key: number
  readonly generation: number
}

/** RESTORE by every rank into pages of its own; ends when all of them have ended. */
export function restoreAll(
  process: EngineProcess,
  lease: number,
  held: readonly Held[],
  manner: Redemption,
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

interface Pair extends PageRef {
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
  manner: Redemption,
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
    must(
      !manner.late || reply.kind === 'error' || process.manager.time.everHeld,
      'G4',
      () => `lease ${lease} is redeemed after its time`,
    )
    if (reply.kind === 'error' && reply.code === ERROR_CODES.cufile_unavailable) {
      must(process.manager.routes.pinnedAndStopped, 'N2', () => `lease ${lease} is refused for want of a route`)
    }
    const plain = process.onGpu ? stoppable() : MEANWHILE
    process.answered(operation, reply, manner.twice ? new Set([...plain, ...allowed]) : plain)
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
