import type { ManagerEffect } from '../../src/manager/messages.js'
import type { ManagerOptions } from '../../src/manager/options.js'
import { census } from '../../src/manager/storage/census.js'
import type { StorageOptions } from '../../src/manager/storage/ports.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { KIB } from '../../src/shared/base/units.js'
import { CHECKSUM, COPY } from '../../src/shared/layout/descriptors.js'
import { EMPTY_LIST, type List, listAt, listOf } from '../../src/shared/layout/records.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import { ManagerFixture, registration } from './fixture.js'
import { find, keysOf } from './storage/fixture.js'

/** One item: FP8 makes half of it. */
export const ITEM = 16 * KIB
export const PAGES = 8
/** Layers of a page in stored order: FP8 takes the 16-bit ones. */
export const LAYERS = [
  { layer: 'a', dtype: 'bfloat16' },
  { layer: 'b', dtype: 'float32' },
  { layer: 'c', dtype: 'bfloat16' },
  { layer: 'd', dtype: 'bfloat16' },
] as const
export const RAW_LAYER = 1

/** One COPY descriptor. */
export interface Copy {
  readonly granule: number
  readonly page: number
  readonly poolOffsetBytes: number
  readonly storedBytes: number
}

export interface LaneJob {
  readonly kind: 'save' | 'checksum' | 'restore'
  readonly job: number
  readonly copies: readonly Copy[]
  /** Pool offset and bytes that each checksum covers. */
  readonly checks: readonly (readonly [poolOffsetBytes: number, segmentBytes: number])[]
}

/** What the codec makes of the items of a save: stored bytes; 0: it refuses. */
export type Encode = (copy: Copy, index: number) => number

const half: Encode = () => ITEM / 2
export const OK = ERROR_CODES.ok

/**
 * A Manager that stores by FP8, with a dram-worker that answers when told. The pool holds, in place of bytes, which page
 * and layer was copied where, and how long it is.
 */
export class CodedBed {
  readonly manager: ManagerFixture
  /** By pool offset: `page/granule/bytes`. */
  readonly pool = new Map<number, string>()
  #read = 0
  readonly #jobs: LaneJob[] = []

  constructor(options: Partial<ManagerOptions> = {}, sizes: Partial<StorageOptions> = {}) {
    this.manager = new ManagerFixture({ codec: { name: 'fp8' }, ssd: false, ...options }, { shards: [], ...sizes })
    this.manager.memoryBytes = LAYERS.length * PAGES * ITEM
  }

  /** An engine of one rank on a connection. All engines are of one model: they share keys. */
  engine(connection: number): void {
    this.manager.greet(connection)
    const plain = registration(connection, 0, 1, ITEM)
    const [shape] = plain.regions
    const regions = LAYERS.map((layer, index) => ({
      ...(shape as (typeof plain.regions)[number]),
      ...layer,
      offsetBytes: index * PAGES * ITEM,
      pageCount: PAGES,
      pageStrideBytes: ITEM,
    }))
    const allocations = [{ kind: 'host_fd', bytes: this.manager.memoryBytes }] as const
    const reply = this.manager.ask(connection, { ...plain, allocations: [...allocations], regions }, [50])
    if (reply?.kind !== 'registered') throw new Error(JSON.stringify(reply))
  }

  /** Publishes pages under keys of their numbers; `layers` null: all of them. */
  publish(
    connection: number,
    generation: number,
    pages: readonly number[],
    {
      slot = 0,
      layers = null,
      partialOk = false,
    }: Partial<Pick<MessageOf<'publish'>, 'slot' | 'partialOk'>> & {
      layers?: Uint32Array | null
    } = {},
  ): WireReply | null {
    const items = { keys: keysOf(...pages), pages: Uint32Array.from(pages) }
    const groups = [{ group: 0, layers, items }]
    return this.manager.ask(connection, { kind: 'publish', slot, generation, fence: 0, partialOk, groups })
  }

  /** Jobs that the dram-worker has not answered, oldest first. */
  get jobs(): readonly LaneJob[] {
    const { log } = this.manager
    for (; this.#read < log.length; this.#read++) this.#take(log[this.#read] as ManagerEffect)
    return this.#jobs
  }

  /** The job that is answered next. */
  take(kind: LaneJob['kind'], at = 0): LaneJob {
    const job = this.jobs.filter((each) => each.kind === kind)[at]
    if (job === undefined) throw new Error(`there is no ${kind} ${at}`)
    this.#jobs.splice(this.#jobs.indexOf(job), 1)
    return job
  }

  /** Ends a save: what is coded becomes what `encode` says. Returns it. */
  saved(encode: Encode = half, status: number = OK, at = 0): LaneJob {
    const save = this.take('save', at)
    const results = save.copies.flatMap((copy, index) => (copy.storedBytes > 0 ? [encode(copy, index), 7] : [0, 0]))
    if (status === OK)
      save.copies.forEach((copy, index) => {
        const bytes = copy.storedBytes > 0 ? (results[2 * index] as number) : ITEM
        if (bytes > 0) this.pool.set(copy.poolOffsetBytes, `${copy.page}/${copy.granule}/${bytes}`)
        else this.pool.set(copy.poolOffsetBytes, 'refused')
      })
    const coded = save.copies.some(({ storedBytes }) => storedBytes > 0)
    const list = coded && status === OK ? listOf(results) : EMPTY_LIST
    this.#reply({ kind: 'save-done', job: save.job, status, list })
    return save
  }

  checked(status: number = OK, at = 0): LaneJob {
    const check = this.take('checksum', at)
    this.#reply({ kind: 'checksum-done', job: check.job, status, list: listOf(check.checks.map(() => 7)) })
    return check
  }

  /** Everything that is asked of the lane ends well. */
  rest(): void {
    for (let [next] = this.jobs; next !== undefined; [next] = this.jobs) {
      if (next.kind === 'save') this.saved()
      else if (next.kind === 'checksum') this.checked()
      else throw new Error('restores are answered by the test')
    }
  }

  /** The published entry of a page's key, or -1. */
  entry(page: number): number {
    const { storage } = this.manager
    return find({ storage, classId: 0 } as Parameters<typeof find>[0], page)
  }

  /** State, error and engine bytes of the slots that ended, in order. */
  ends(): (readonly [state: number, error: number, bytes: number])[] {
    return this.manager.log.flatMap((each) =>
      each.kind === 'slot-finish' ? [[each.state, each.errorCode, each.bytes] as const] : [],
    )
  }

  /** What does not hold: the census, and bytes of published blocks that are not what was copied. */
  breaches(): string[] {
    const { storage } = this.manager
    const found = census(storage)
    for (let page = 0; page < PAGES; page++) {
      const entry = this.entry(page)
      if (entry < 0 || !storage.inDram(entry)) continue
      for (let granule = 0; granule < LAYERS.length; granule++) {
        const is = this.pool.get(storage.granuleOffset(entry, granule))
        const should = `${page}/${granule}/${storage.granule(entry, granule).segmentBytes}`
        if (is !== should) found.push(`page ${page} is published with ${is} for ${should}`)
      }
    }
    return found
  }

  /** What somebody still holds. */
  get owned(): Record<string, number> {
    const { operationsOpen = 0, publicationsWaiting = 0, jobsOpen = 0 } = this.manager.machine.ownership()
    const { interests, copiesInFlight } = this.manager.storage.gauges()
    return { operationsOpen, publicationsWaiting, jobsOpen, interests, copiesInFlight }
  }

  #reply(reply: Extract<Parameters<ManagerFixture['step']>[0], { kind: 'dram-worker' }>['reply']): void {
    this.manager.step({ kind: 'dram-worker', device: 0, reply })
  }

  #take(effect: ManagerEffect): void {
    if (effect.kind !== 'to-dram-worker') return
    const { request } = effect
    if (request.kind !== 'save' && request.kind !== 'checksum' && request.kind !== 'restore') return
    if (request.kind !== 'checksum' && request.more !== 0) throw new Error('a job under a codec is one record')
    this.#jobs.push({
      kind: request.kind,
      job: request.job,
      copies: request.kind === 'checksum' ? [] : copiesOf(request.list),
      checks: request.kind === 'checksum' ? checksOf(request.list) : [],
    })
  }
}

export const NOTHING = { operationsOpen: 0, publicationsWaiting: 0, jobsOpen: 0, interests: 0, copiesInFlight: 0 }

function copiesOf(list: List): Copy[] {
  return rows(list, COPY.doubles).map((at) => ({
    granule: listAt(list, at + COPY.granule),
    page: listAt(list, at + COPY.page),
    poolOffsetBytes: listAt(list, at + COPY.poolOffsetBytes),
    storedBytes: listAt(list, at + COPY.storedBytes),
  }))
}

function checksOf(list: List): (readonly [number, number])[] {
  return rows(list, CHECKSUM.doubles).map((at) => [
    listAt(list, at + CHECKSUM.poolOffsetBytes),
    listAt(list, at + CHECKSUM.segmentBytes),
  ])
}

function rows(list: List, doubles: number): number[] {
  return Array.from({ length: list.length / doubles }, (_, row) => row * doubles)
}
