import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import type { MessageOf } from '../../src/shared/layout/wire/messages.js'
import { keysOf } from './model.js'
import type { PageRef } from './pages.js'
import type { Command } from './plan.js'
import { type EngineProcess, MEANWHILE, type Rank } from './process.js'
import type { SlotEnd } from './slots.js'
import { must } from './violation.js'
import { CHAIN_BLOCKS, chainOf } from './watched-entries.js'

/** One block to publish: the same page on every rank. */
export interface Block extends PageRef {
  readonly key: number
}

/** How one publication is carried out. */
interface Manner {
  /** 0: whole. 1: two halves of the layers, apart. 2: the first half alone. */
  readonly halves: 0 | 1 | 2
  /** Ranks that publish at all; the others never do. */
  readonly ranks: number
  /** Microseconds until the pages hold their content; 0: they do already. */
  readonly fenceUs: number
  readonly partialOk: boolean
  readonly cancelUs: number
}

/** PUBLISH of some blocks of a chain, by all ranks, whole or in parts, with or without a fence. */
export function publish(process: EngineProcess, { verb, a, b, c }: Command): void {
  // Mostly from the start: only a prefix is ever found.
  const first = a % 5 < 3 ? 0 : (a >> 2) % CHAIN_BLOCKS
  const count = 1 + ((a >> 5) % (CHAIN_BLOCKS - first))
  const inParts = verb === 'publish-part'
  const blocks = blocksFrom(process, chainOf(a), first, count)
  if (blocks.length === 0) return
  publishBlocks(
    process,
    blocks,
    {
      halves: inParts ? ((((b % 3) + 1) as 1 | 2 | 3) === 3 ? 0 : (((b % 2) + 1) as 1 | 2)) : 0,
      ranks: inParts && c % 4 === 0 ? 1 : process.ranks.length,
      fenceUs: c % 5 === 0 ? 1 + (c % 400) : 0,
      partialOk: b % 2 === 0,
      cancelUs: b % 9 === 0 ? 1 + (b % 300) : 0,
    },
    () => {},
  )
}

/** Blocks of all groups that `count` blocks of group 0 from `first` on are, each with a free page. */
export function blocksFrom(process: EngineProcess, chain: number, first: number, count: number): Block[] {
  const { model } = process
  const blocks: Block[] = []
  for (let group = 0; group < model.groups; group++) {
    const from = model.blocksOf(group, first)
    const wanted = model.blocksOf(group, first + count) - from
    const pages = process.freePages(group, wanted)
    for (const [index, page] of pages.entries()) {
      blocks.push({ group, page, key: chain * CHAIN_BLOCKS + from + index })
    }
  }
  return blocks
}

/** Publishes blocks; `then` learns whether every operation of it ended DONE. */
export function publishBlocks(
  process: EngineProcess,
  blocks: readonly Block[],
  manner: Manner,
  then: (ok: boolean) => void,
): void {
  const version = process.nextVersion++
  process.flows++
  let left = 0
  let ok = true
  const ended = (end: SlotEnd | null) => {
    if (end?.state !== SLOT_STATE.done) ok = false
    left--
    if (left > 0) return
    process.flows--
    then(ok)
  }
  for (const rank of process.ranks.slice(0, manner.ranks)) {
    if (manner.fenceUs === 0) for (const block of blocks) rank.pages.write(block, block.key, version)
    for (const half of halvesOf(process, manner.halves)) {
      const slot = process.freeSlot(rank)
      if (slot < 0) continue
      left++
      send(process, rank, slot, blocks, half, manner, version, ended)
    }
  }
  if (left > 0) return
  process.flows--
  then(false)
}

/** Regions of each part of a publication: null for all of them. */
function halvesOf(process: EngineProcess, halves: 0 | 1 | 2): (readonly number[] | null)[] {
  const { plan } = process.model
  if (halves === 0 || plan.layout === 'page-first' || plan.layers < 2) return [null]
  const all = Array.from({ length: plan.layers }, (_, region) => region)
  const cut = Math.ceil(plan.layers / 2)
  return halves === 1 ? [all.slice(0, cut), all.slice(cut)] : [all.slice(0, cut)]
}

function send(
  process: EngineProcess,
  rank: Rank,
  slot: number,
  blocks: readonly Block[],
  regions: readonly number[] | null,
  manner: Manner,
  version: number,
  ended: (end: SlotEnd | null) => void,
): void {
  const { world, model } = process
  const fence = manner.fenceUs === 0 ? 0 : 1
  const groups: MessageOf<'publish'>['groups'][number][] = []
  const taken: Block[] = []
  for (let group = 0; group < model.groups; group++) {
    const own = regions?.filter((region) => model.regions[region]?.group === group) ?? null
    const of = blocks.filter((block) => block.group === group)
    if (of.length === 0 || own?.length === 0) continue
    taken.push(...of)
    groups.push({
      group,
      layers: own === null ? null : Uint32Array.from(own),
      items: { keys: keysOf(of.map(({ key }) => key)), pages: Uint32Array.from(of, ({ page }) => page) },
    })
  }
  const operation = process.begin(rank, slot, 'publish', taken, regions, fence, (end) => {
    if (end !== null) checkEnd(process, end)
    ended(end)
  })
  const { generation } = operation
  if (fence > 0) {
    afterFence(process, manner.fenceUs, () => {
      if (!process.alive) return
      // The producer's kernel ends: only now do the pages hold what is being published.
      if (rank.operations[slot] === operation) for (const block of taken) rank.pages.write(block, block.key, version)
      if (rank.generations[slot] === generation) process.manager.slots.raiseFence(rank.slots, slot, fence)
    })
  }
  rank.session.request({ kind: 'publish', slot, generation, fence, partialOk: manner.partialOk, groups }, (reply) =>
    process.answered(operation, reply, MEANWHILE),
  )
  if (manner.cancelUs > 0) {
    world.clock.after(manner.cancelUs, () => {
      if (process.up && rank.operations[slot] === operation) process.cancel(operation)
    })
  }
}

/** Fences are raised when the producer's kernel ends, or, when a fault withholds them, not before faults stop. */
export function afterFence(process: EngineProcess, fenceUs: number, raise: () => void): void {
  const { world } = process
  if (fenceUs % 16 === 7 && world.fault('fence-withheld')) world.whenCalm(raise)
  else world.clock.after(fenceUs, raise)
}

function checkEnd(process: EngineProcess, end: SlotEnd): void {
  const fits =
    (end.state === SLOT_STATE.done && end.errorCode === 0) ||
    (end.state === SLOT_STATE.cancelled && end.errorCode === ERROR_CODES.cancelled) ||
    (end.state === SLOT_STATE.failed && end.errorCode !== 0)
  must(fits, 'C5', () => `a publication ends in state ${end.state} with code ${end.errorCode}`)
  if (end.state === SLOT_STATE.done) process.world.publishesDone++
}
