import { NONE } from '../../shared/directory/directory.js'
import { KEY_BYTES } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import { askedTokens, type BlockRange, type GroupPresence, neededAt } from '../../shared/planning/recovery.js'
import type { Seal } from '../register/instances.js'
import type { PageStorage } from '../storage/page-storage.js'

/** Blocks of one group that a query asked for, by position of their key in the query. */
export interface FoundGroup extends GroupPresence {
  readonly group: number
  /** Stored bytes of each block, where all are equally long; else of all blocks before each position, then of all. */
  readonly bytes: number | Float64Array
  /** Keys that were asked for; more than `present` has when the rest is of no use behind a gap. */
  readonly asked: number
  /** -1 where nothing was published. */
  readonly entries: Int32Array
  /** Which generation the entry was: an entry that nobody holds may be another block's by now. */
  readonly generations: Float64Array
  /** Turns 0 when a block cannot be read, or has gone. */
  readonly present: Uint8Array
  /** 1 where the block was in DRAM when the query came. */
  readonly foundInDram: Uint8Array
}

/** All groups of a query, in the order in which it names them. Groups that it does not name are not looked at. */
export type FoundBlocks = readonly FoundGroup[]

/** Looks up every key of a query. Holds nothing. */
export function findBlocks(
  storage: PageStorage,
  seal: Seal,
  message: { readonly groups: MessageOf<'query'>['groups']; readonly allowSsd: boolean },
): FoundBlocks {
  return message.groups.map(({ group, firstBlock, keys }) => {
    // The shape of the query was checked: the group exists.
    const geometry = seal.geometry.groups[group] as Seal['geometry']['groups'][number]
    const { kind, blockTokens, windowTokens } = geometry
    const asked = keys.length / KEY_BYTES
    const found = new Int32Array(asked)
    const classId = seal.classes[group] as number
    storage.lookup(classId, keys, asked, found)
    const usable = (entry: number) => entry !== NONE && (message.allowSsd || storage.inDram(entry))
    // Behind a gap no boundary of full attention is legal.
    const gap = kind === 'full-attention' ? found.findIndex((entry) => !usable(entry)) : NONE
    const entries = gap === NONE ? found : found.slice(0, gap)
    return {
      group,
      kind,
      blockTokens,
      windowTokens,
      bytes: storage.blockBytes(classId) ?? runningBytes(storage, entries),
      firstBlock,
      asked,
      entries,
      generations: Float64Array.from(entries, (entry) => (entry === NONE ? NONE : storage.generationOf(entry))),
      present: Uint8Array.from(entries, (entry) => (usable(entry) ? 1 : 0)),
      foundInDram: Uint8Array.from(entries, (entry) => (entry !== NONE && storage.inDram(entry) ? 1 : 0)),
    }
  })
}

function runningBytes(storage: PageStorage, entries: Int32Array): Float64Array {
  const before = new Float64Array(entries.length + 1)
  for (const [at, entry] of entries.entries()) {
    before[at + 1] = (before[at] as number) + (entry === NONE ? 0 : storage.extentBytes(entry))
  }
  return before
}

/** Stored bytes of some blocks of a group. */
export function bytesOf({ bytes }: FoundGroup, { first, end }: BlockRange): number {
  if (typeof bytes === 'number') return bytes * (end - first)
  return (bytes[end] as number) - (bytes[first] as number)
}

/** The entry cannot be used: every boundary that needs it is gone. */
export function failBlock(found: FoundBlocks, entry: number): void {
  for (const { entries, present } of found) {
    for (let at = 0; at < entries.length; at++) if (entries[at] === entry) present[at] = 0
  }
}

/** Positions of a group that the request would need at the largest boundary it asks about. */
export function requestedRange(group: FoundGroup): BlockRange {
  const whole = { ...group, present: new Uint8Array(group.asked) }
  return neededAt(whole, askedTokens(whole)) ?? { first: 0, end: 0 }
}
