import { ERROR_CODES } from '../../src/shared/base/errors.js'
import type { List } from '../../src/shared/layout/records.js'
import {
  type Block,
  extentBytesOf,
  granuleCrc,
  payload,
  SHAPES,
  type Shape,
  same,
  storedBytes,
} from './staging-blocks.js'
import type { DevicePages, StagingDevice } from './staging-device.js'

/** Bytes of nobody on each side of an engine page. */
const FENCE_BYTES = 64
const POISON = 0xa5

export interface RestoreRecord {
  readonly kind: 'restore'
  readonly blocks: readonly { block: Block; page: number; resident: boolean }[]
  ended: number | null
  slotWrites: number
  /** Generations that a decoding refused. */
  readonly refused: Set<number>
}

export interface WriteRecord {
  readonly kind: 'write'
  readonly blocks: readonly { block: Block; page: number; hotOffsetBytes: number }[]
  copied: number | null
  ended: number | null
  objects: readonly number[]
}

export interface EncodeRecord {
  readonly kind: 'encode'
  readonly blocks: readonly { block: Block; page: number; hotOffsetBytes: number }[]
  /** By coded descriptor: its block and granule. */
  readonly codes: readonly { at: number; granule: number }[]
  /** What `encoded` said: blocks that may be written, by their place; null when nothing is held. */
  said: { readonly status: number; readonly whole: readonly number[] | null } | null
  /** Blocks that were asked to be written, by TARGET.object. */
  asked: readonly number[] | null
  cancelled: boolean
  ended: number | null
  objects: readonly number[]
}

/**
 * The jobs that a staging bed has asked for, and their engine pages. Holds every reply against what was asked and what
 * the device did: a job ends once, with the right bytes, and its pages are touched by nobody afterwards.
 */
export class StagingJobs implements DevicePages {
  readonly records = new Map<number, RestoreRecord | WriteRecord | EncodeRecord>()
  /** By template: each page with its fences. */
  readonly #pages: Uint8Array[][] = SHAPES.map(() => [])
  readonly #pageJob: number[][] = SHAPES.map(() => [])

  // Pages

  addPage(template: number, job: number): number {
    const pages = this.#pages[template] as Uint8Array[]
    pages.push(new Uint8Array((SHAPES[template] as Shape).pageBytes + 2 * FENCE_BYTES).fill(POISON))
    this.#pageJob[template]?.push(job)
    return pages.length - 1
  }

  bytes(template: number, page: number): Uint8Array {
    const pages = this.#pages[template] as Uint8Array[]
    return (pages[page] as Uint8Array).subarray(FENCE_BYTES, -FENCE_BYTES)
  }

  touch(template: number, page: number): void {
    this.#open(template, page)
  }

  refuse(template: number, page: number): void {
    const record = this.#open(template, page)
    if (record.kind !== 'restore') throw new Error('only restores decode')
    const of = record.blocks.find((each) => each.page === page && each.block.template === template)
    record.refused.add(of?.block.seed ?? -1)
  }

  seed(template: number, page: number): number {
    const { blocks } = this.#open(template, page)
    return blocks.find((each) => each.page === page && each.block.template === template)?.block.seed ?? -1
  }

  /** The job of a page, which has not ended. */
  #open(template: number, page: number): RestoreRecord | WriteRecord | EncodeRecord {
    const job = this.#pageJob[template]?.[page] as number
    const record = this.records.get(job)
    if (record === undefined || record.ended !== null) throw new Error(`page ${page} is touched after job ${job}`)
    return record
  }

  // Replies

  slotFinished(job: number): void {
    const record = this.records.get(job)
    if (record?.kind !== 'restore' || record.ended !== null) throw new Error('a slot is finished before its reply')
    record.slotWrites += 1
  }

  restoreDone(job: number, status: number, list: List): void {
    const record = this.records.get(job)
    if (record?.kind !== 'restore' || record.ended !== null || record.slotWrites !== (list.length > 0 ? 0 : 1)) {
      throw new Error(`restore ${job} does not end once, after its slot`)
    }
    record.ended = status
    const named = new Set(list.doubles.subarray(list.offset, list.offset + list.length))
    for (const seed of record.refused) if (!named.has(seed)) throw new Error(`damage of block ${seed} is not named`)
    if (record.refused.size > 0 && status === ERROR_CODES.ok) throw new Error('a refused coding is done')
    this.#checkRestored(job, record)
  }

  copied(job: number, status: number, { pool }: StagingDevice): void {
    const record = this.records.get(job)
    if (record?.kind !== 'write' || record.copied !== null || record.ended !== null) {
      throw new Error(`write ${job} says copied once, before its end`)
    }
    record.copied = status
    if (status !== ERROR_CODES.ok) return
    for (const { block, hotOffsetBytes } of record.blocks) {
      const stored = storedBytes(block)
      const hot = pool.subarray(hotOffsetBytes, hotOffsetBytes + stored.length)
      if (!same(hot, stored)) throw new Error(`the copy of block ${block.seed} in DRAM differs`)
    }
  }

  /** What was copied and coded is in DRAM, and what is said of it is so. */
  encoded(job: number, status: number, held: 0 | 1, { doubles, offset, length }: List, { pool }: StagingDevice): void {
    const record = this.records.get(job)
    if (record?.kind !== 'encode' || record.said !== null || record.ended !== null) {
      throw new Error(`encoding ${job} is said once, before its end`)
    }
    record.said = { status, whole: null }
    if (status !== ERROR_CODES.ok) {
      if (held === 1 || length > 0) throw new Error(`encoding ${job} failed, and has something`)
      return
    }
    const said = doubles.subarray(offset, offset + length)
    const raw = length === 0 ? 0 : length / 2 - record.codes.length
    if (said.subarray(0, 2 * raw).some((number) => number !== 0)) throw new Error('something is said of raw copies')
    const refused = new Map(
      record.codes.map(({ at, granule }, code) => [`${at}/${granule}`, said[2 * (raw + code)] === 0]),
    )
    for (const [at, { block, hotOffsetBytes }] of record.blocks.entries()) {
      const stored = storedBytes(block)
      for (const [index, granule] of (SHAPES[block.template] as Shape).granules.entries()) {
        if (refused.get(`${at}/${index}`)) continue
        const [from, end] = [granule.extentOffsetBytes, granule.extentOffsetBytes + granule.items * granule.strideBytes]
        if (!same(pool.subarray(hotOffsetBytes + from, hotOffsetBytes + end), stored.subarray(from, end))) {
          throw new Error(`the copy of granule ${index} of block ${block.seed} in DRAM differs`)
        }
        const code = record.codes.findIndex((each) => each.at === at && each.granule === index)
        const crc = code < 0 ? 0 : said[2 * (raw + code) + 1]
        if (code >= 0 && crc !== granuleCrc(stored, granule)) throw new Error('a coding has another checksum')
      }
    }
    if (held === 0) return
    const whole = record.blocks.flatMap((_, at) =>
      record.codes.some(({ at: of, granule }) => of === at && refused.get(`${of}/${granule}`)) ? [] : [at],
    )
    record.said = { status, whole }
  }

  writeDone(job: number, status: number, { doubles, offset, length }: List, device: StagingDevice): void {
    const record = this.records.get(job)
    const written =
      record?.kind === 'write' ? record.copied !== null : record?.kind === 'encode' && record.said !== null
    if (record === undefined || record.kind === 'restore' || !written || record.ended !== null) {
      throw new Error(`write ${job} ends once, after its copies`)
    }
    record.ended = status
    record.objects = [...doubles.subarray(offset, offset + length)]
    const blocks = record.kind === 'write' ? record.blocks : (record.asked ?? []).map((at) => record.blocks[at])
    if (record.objects.length > blocks.length) throw new Error('more blocks were written than were asked for')
    for (const [object, { block }] of (blocks as WriteRecord['blocks']).entries()) {
      if (record.objects[object] !== ERROR_CODES.ok) continue
      const stored = new Uint8Array(extentBytesOf(SHAPES[block.template] as Shape))
      stored.set(storedBytes(block))
      const file = device.files[block.file] as Uint8Array
      if (!same(file.subarray(block.fileOffsetBytes, block.fileOffsetBytes + stored.length), stored)) {
        throw new Error(`block ${block.seed} was called written, and its extent has other bytes`)
      }
    }
  }

  /** A restore that succeeded has every byte; a failed one has right bytes or none in each segment. */
  #checkRestored(job: number, record: RestoreRecord): void {
    for (const { block, page } of record.blocks) {
      const expected = payload(block)
      const bytes = this.bytes(block.template, page)
      if (record.ended === ERROR_CODES.ok) {
        if (!same(bytes, expected)) throw new Error(`restore ${job} succeeded with wrong bytes in page ${page}`)
        continue
      }
      for (const granule of (SHAPES[block.template] as Shape).granules) {
        const end = granule.pageOffsetBytes + granule.items * granule.segmentBytes
        const part = bytes.subarray(granule.pageOffsetBytes, end)
        const untouched = part.every((byte) => byte === POISON)
        if (!untouched && !same(part, expected.subarray(granule.pageOffsetBytes, end))) {
          throw new Error(`restore ${job} left wrong bytes in page ${page}`)
        }
      }
    }
  }

  /** Bytes beside pages. */
  checkGuards(): void {
    const poison = new Uint8Array(FENCE_BYTES).fill(POISON)
    for (const page of this.#pages.flat()) {
      if (!same(page.subarray(0, FENCE_BYTES), poison) || !same(page.subarray(-FENCE_BYTES), poison)) {
        throw new Error('bytes beside a page were touched')
      }
    }
  }
}
