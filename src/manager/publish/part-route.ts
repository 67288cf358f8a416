import { isCoded } from '../../shared/codec/coding.js'
import { CODEC_PART_DESCRIPTORS } from '../../shared/codec/lane-series.js'
import { isCoding } from '../../shared/codec/setting.js'
import type { Context } from '../context.js'
import type { RankHold } from '../sessions/session.js'
import { comesWhole, type PlacedBlock } from './direct.js'
import type { PublishItem } from './parts.js'

/** Of the codec's workspace, what the codings of several blocks may fill: the rest is for what lies around them. */
const WORKSPACE_SHARE = 3 / 4

interface WholeBlock {
  readonly copies: number
  /** Of these, codings, and the bytes that they are expected to take. */
  readonly codes: number
  readonly bytes: number
}

/**
 * Which way the blocks of one part go: all by DRAM, or all to the SSD as well, from engine pages or from where their codings
 * are made. The first block that the part copies anything of decides; one that goes another way begins the next part.
 *
 * | way     | blocks                                                        | what is known of them       |
 * |---------|---------------------------------------------------------------|-----------------------------|
 * | dram    | any                                                           | nothing                     |
 * | direct  | come whole, have an extent; there is no codec                 | their extents               |
 * | encoded | come whole, and whole in this part; at most so many codings   | extents, after their coding |
 */
export class PartRoute {
  way: 'dram' | 'direct' | 'encoded' | null = null
  /** Of way `direct`. */
  readonly blocks: PlacedBlock[] = []
  /** Of way `encoded`. */
  readonly encoded: PublishItem[] = []
  readonly #context: Context
  readonly #hold: RankHold
  /** Copies that the part may have. */
  readonly copiesMax: number
  #codes = 0
  #codedBytes = 0

  constructor(context: Context, hold: RankHold) {
    this.#context = context
    this.#hold = hold
    // The reply to a part that is coded has two numbers a copy, and is one record.
    const { codec, descriptorsPerRecordMax } = context.options
    this.copiesMax = isCoding(codec) ? descriptorsPerRecordMax : Number.POSITIVE_INFINITY
  }

  /** Whether a block joins the part, which has `count` copies so far. */
  takes(item: PublishItem, count: number): boolean {
    return isCoding(this.#context.options.codec) ? this.#takesCoded(item, count) : this.#takesPlain(item)
  }

  #takesPlain(item: PublishItem): boolean {
    if (this.way === 'dram') return true
    const place = this.#direct(item) ? this.#context.storage.beginDirect(item.entry) : null
    if (place === null && this.way === 'direct') return false
    this.way = place === null ? 'dram' : 'direct'
    if (place !== null) this.blocks.push({ item, place })
    return true
  }

  #takesCoded(item: PublishItem, count: number): boolean {
    const block = this.#direct(item) ? this.#wholeOf(item) : null
    const way = block === null ? 'dram' : 'encoded'
    if (count > 0 && way !== this.way) return false
    if (block !== null) {
      if (count > 0 && !this.#fits(block, count)) return false
      this.#codes += block.codes
      this.#codedBytes += block.bytes
      this.encoded.push(item)
    }
    this.way = way
    return true
  }

  /** What a block brings into a part as a whole; null when it has more than one part may. */
  #wholeOf({ entry }: PublishItem): WholeBlock | null {
    const { granules } = this.#context.storage.geometryOf(entry)
    let codes = 0
    let bytes = 0
    for (const { coding, expectedBytes } of granules) {
      if (!isCoded(coding)) continue
      codes += 1
      bytes += expectedBytes
    }
    const fits = granules.length <= this.copiesMax && codes <= CODEC_PART_DESCRIPTORS
    return fits ? { copies: granules.length, codes, bytes } : null
  }

  /** Whether one more block leaves the part as what is coded, and kept, together. */
  #fits({ copies, codes, bytes }: WholeBlock, count: number): boolean {
    const workspaceBytes = this.#context.options.codecBudgetBytes * WORKSPACE_SHARE
    return (
      count + copies <= this.copiesMax &&
      this.#codes + codes <= CODEC_PART_DESCRIPTORS &&
      this.#codedBytes + bytes <= workspaceBytes
    )
  }

  /** Whether a block may go to the SSD from engine pages. */
  #direct(item: PublishItem): boolean {
    if (this.#context.routes.writeRoute !== 'cufile' || this.#hold.lanes.ssd === null) return false
    return comesWhole(this.#context, this.#hold.rank, item)
  }
}
