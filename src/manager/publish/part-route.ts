import { isCoded } from '../../shared/codec/coding.js'
import { CODEC_PART_DESCRIPTORS } from '../../shared/codec/lane-series.js'
import { isCoding } from '../../shared/codec/setting.js'
import type { Context } from '../context.js'
import type { RankHold } from '../sessions/session.js'
import { comesWhole, type PlacedBlock } from './direct.js'
import type { PublishItem } from './parts.js'

/** Of the codec's workspace, what the codings of several blocks may fill: the rest is for what lies around them. */
const WORKSPACE_SHARE = 3 / 4

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
    const { granules } = this.#context.storage.geometryOf(item.entry)
    const coded = granules.filter(({ coding }) => isCoded(coding))
    const whole = granules.length <= this.copiesMax && coded.length <= CODEC_PART_DESCRIPTORS && this.#direct(item)
    const way = whole ? 'encoded' : 'dram'
    if (count > 0 && way !== this.way) return false
    const bytes = coded.reduce((sum, { expectedBytes }) => sum + expectedBytes, 0)
    if (whole && count > 0 && !this.#fits(granules.length + count, coded.length, bytes)) return false
    this.way = way
    this.#codes += coded.length
    this.#codedBytes += bytes
    if (whole) this.encoded.push(item)
    return true
  }

  /** Whether one more block leaves the part as what is coded, and kept, together. */
  #fits(copies: number, codes: number, bytes: number): boolean {
    const workspaceBytes = this.#context.options.codecBudgetBytes * WORKSPACE_SHARE
    return (
      copies <= this.copiesMax &&
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
