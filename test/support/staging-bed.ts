import { SSD_WORKER_COUNT as COUNT } from '../../src/actors/ssd-worker/counters.js'
import {
  resultsOf,
  type SsdWorkerEffect,
  type SsdWorkerInput,
  SsdWorkerMachine,
} from '../../src/actors/ssd-worker/machine.js'
import { STAGING_SLOTS } from '../../src/actors/ssd-worker/worker.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { alignUp, KIB, MIB, PAGE_BYTES } from '../../src/shared/base/units.js'
import { crc32 } from '../../src/shared/codec/crc32.js'
import { CHECKSUM, COPY, NO_CRC, NO_OFFSET, SOURCE, TARGET } from '../../src/shared/layout/descriptors.js'
import { PlainTally } from './plain-tally.js'

/** Small slots: everything that 4 MiB do happens with few bytes. */
export const BED_SLOT_BYTES = 16 * KIB
export const BED_FILES = 2
export const BED_FILE_BYTES = 256 * KIB
const POOL_BYTES = 16 * MIB
/** Bytes of nobody on each side of an engine page. */
const FENCE_BYTES = 64
const POISON = 0xa5
const GUARD = 0x5c

interface Granule {
  readonly items: number
  /** Bytes of one item in the engine's page. */
  readonly segmentBytes: number
  /** Bytes of its one item's coding; null: it is stored as it is. */
  readonly codingBytes: number | null
  readonly strideBytes: number
  readonly extentOffsetBytes: number
  readonly pageOffsetBytes: number
}

export interface Shape {
  readonly granules: readonly Granule[]
  readonly extentBytes: number
  readonly pageBytes: number
}

type GranuleTuple = readonly [items: number, segmentBytes: number, strideBytes: number, codingBytes?: number]

function shapeOf(granules: readonly GranuleTuple[]): Shape {
  let extentOffsetBytes = 0
  let pageOffsetBytes = 0
  const laid = granules.map(([items, segmentBytes, strideBytes, codingBytes = null]) => {
    const granule = { items, segmentBytes, strideBytes, extentOffsetBytes, pageOffsetBytes, codingBytes }
    extentOffsetBytes += items * strideBytes
    pageOffsetBytes += items * segmentBytes
    return granule
  })
  return { granules: laid, extentBytes: extentOffsetBytes, pageBytes: pageOffsetBytes }
}

/** By template: split layers with odd segments, a checkpoint larger than a slot, whole pages, and codings among others. */
export const SHAPES: readonly Shape[] = [
  shapeOf([
    [3, 500, 512],
    [2, 1024, 1024],
    [1, 8000, 8192],
  ]),
  shapeOf(Array.from({ length: 7 }, () => [3, 1500, 1536] as const)),
  shapeOf([[1, 4096, 4096]]),
  shapeOf([
    [1, 700, 1024],
    [1, 4096, 512, 300],
    [1, 3000, 512, 512],
    [2, 1024, 1024],
    [1, 2048, 512, 77],
    [1, 2048, 512, 78],
  ]),
]
/** Templates without codings: what cuFile writes. */
export const PLAIN_TEMPLATES = 3
const CODED_DESCRIPTORS = 2

/** Extents lie on 4 KiB boundaries. */
export const extentBytesOf = (shape: Shape) => alignUp(shape.extentBytes, PAGE_BYTES)

export type Outcome =
  | 'ok'
  | 'short'
  | 'lost'
  | 'io-error'
  | 'not-registered'
  | 'rotten'
  /** The count of a read is whole, the bytes never came. What a disk does with a write shows only when it is read. */
  | 'stale'
  /** The first of the codings is none, though its checksum was right; or the codec has no room. Other operations end well. */
  | 'refused'
  | 'no-room'
const OUTCOME_RESULT: Partial<Record<Outcome, number>> = { lost: -5, 'io-error': -5044, 'not-registered': -5027 }

/** One operation of the device: it happens when it completes, with what it was given. */
interface Operation {
  readonly tag: number
  readonly worker: number
  /** -1: a copy beside I/O. */
  readonly slot: number
  readonly effect: SsdWorkerEffect & { kind: 'read' | 'scatter' | 'decode' | 'write' | 'copy' }
}

/** A block as the bed stored it, or wants it stored. */
export interface Block {
  readonly template: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly seed: number
}

interface RestoreRecord {
  readonly kind: 'restore'
  readonly blocks: readonly { block: Block; page: number; resident: boolean }[]
  ended: number | null
  slotWrites: number
  /** Generations that a decoding refused. */
  readonly refused: Set<number>
}

interface WriteRecord {
  readonly kind: 'write'
  readonly blocks: readonly { block: Block; page: number; hotOffsetBytes: number }[]
  copied: number | null
  ended: number | null
  objects: readonly number[]
}

/** A planted bug between the device and the machine: what a completion is taken for. */
export type Distortion = (result: number, wanted: number) => number

/**
 * An ssd-worker machine on a simulated device with real bytes: files, staging, pages and pool are arrays, operations
 * happen in any order that streams allow. Throws as soon as the machine does what it must never do.
 */
export class StagingBed {
  readonly tally = new PlainTally()
  readonly machine: SsdWorkerMachine
  readonly files = Array.from({ length: BED_FILES }, () => new Uint8Array(BED_FILE_BYTES).fill(GUARD))
  /** By template: each page with its fences. */
  readonly pages: Uint8Array[][] = SHAPES.map(() => [])
  readonly pool = new Uint8Array(POOL_BYTES)
  readonly jobs = new Map<number, RestoreRecord | WriteRecord>()
  readonly routeFailures: number[] = []
  readonly closed: number[] = []
  readonly reads: (SsdWorkerEffect & { kind: 'read' })[] = []
  stopped = 0
  nowUs = 0
  /** What the next opening of a worker is answered with. */
  openCode = 0
  readonly #checks = new Uint32Array(resultsOf(CODED_DESCRIPTORS))
  readonly #slots = new Map<string, Uint8Array>()
  readonly #open = new Set<number>()
  readonly #operations: Operation[] = []
  readonly #pageJob: number[][] = SHAPES.map(() => [])
  readonly #fences = new Map<number, number>()
  readonly #distort: Distortion | null
  readonly #unverified: boolean
  readonly #deaf: boolean
  #nextFile = Array.from({ length: BED_FILES }, () => 0)
  #nextPool = 0
  #nextJob = 1
  readonly #nextSeed: { value: number } = { value: 1 }

  /** `deaf`: nobody hears what decodings refuse. */
  constructor(options: { distort?: Distortion; unverified?: boolean; deaf?: boolean } = {}) {
    this.#deaf = options.deaf ?? false
    this.#distort = options.distort ?? null
    this.#unverified = options.unverified ?? false
    const limits = { slotBytes: BED_SLOT_BYTES, partDescriptors: 3, codedDescriptors: CODED_DESCRIPTORS }
    this.machine = new SsdWorkerMachine(limits, this.#checks, this.tally)
  }

  gauge(name: keyof typeof COUNT): number {
    return this.tally.at(COUNT[name])
  }

  get operations(): readonly Operation[] {
    return this.#operations
  }

  // Contents

  /** A place for a block, `gapPages` after the one before; null when the file is full. */
  place(template: number, file: number, gapPages = 0): Block | null {
    const offset = (this.#nextFile[file] as number) + gapPages * PAGE_BYTES
    const end = offset + extentBytesOf(SHAPES[template] as Shape)
    if (end > BED_FILE_BYTES) return null
    this.#nextFile[file] = end
    return { template, file, fileOffsetBytes: offset, seed: this.#nextSeed.value++ }
  }

  /** Puts the bytes of a block where it says. */
  store(block: Block): void {
    this.files[block.file]?.set(storedBytes(block), block.fileOffsetBytes)
  }

  page(template: number, job: number): number {
    const pages = this.pages[template] as Uint8Array[]
    pages.push(new Uint8Array((SHAPES[template] as Shape).pageBytes + 2 * FENCE_BYTES).fill(POISON))
    this.#pageJob[template]?.push(job)
    return pages.length - 1
  }

  pageBytes(template: number, page: number): Uint8Array {
    const pages = this.pages[template] as Uint8Array[]
    return (pages[page] as Uint8Array).subarray(FENCE_BYTES, -FENCE_BYTES)
  }

  // Requests

  openWorker(worker: number): void {
    this.request({ kind: 'open-worker', worker })
  }

  /** Restores blocks, each into a page of its own; what is `resident` comes from the pool. */
  restore(worker: number, blocks: readonly { block: Block; resident?: boolean }[], fence = 0, cut = 0): number {
    const job = this.#nextJob++
    const record: RestoreRecord = { kind: 'restore', blocks: [], ended: null, slotWrites: 0, refused: new Set() }
    const sources: number[] = []
    const placed: RestoreRecord['blocks'][number][] = []
    for (const [pair, { block, resident = false }] of blocks.entries()) {
      const page = this.page(block.template, job)
      placed.push({ block, page, resident })
      const poolOffset = resident ? this.#poolBytes(block) : NO_OFFSET
      const shape = SHAPES[block.template] as Shape
      for (const [index, granule] of shape.granules.entries()) {
        const source = new Array<number>(SOURCE.doubles).fill(0)
        source[SOURCE.template] = block.template
        source[SOURCE.granule] = index
        source[SOURCE.page] = page
        source[SOURCE.poolOffsetBytes] = resident ? poolOffset + granule.extentOffsetBytes : NO_OFFSET
        source[SOURCE.file] = block.file
        source[SOURCE.fileOffsetBytes] = block.fileOffsetBytes + granule.extentOffsetBytes
        source[SOURCE.bytes] = granule.items * granule.strideBytes
        source[SOURCE.segmentBytes] = granule.codingBytes ?? granule.segmentBytes
        source[SOURCE.encoded] = granule.codingBytes === null ? 0 : 1
        source[SOURCE.segmentStrideBytes] = granule.strideBytes
        source[SOURCE.crc32] = this.#unverified ? NO_CRC : granuleCrc(storedBytes(block), granule)
        source[SOURCE.generation] = block.seed
        source[SOURCE.itemCount] = granule.items
        source[SOURCE.pair] = pair
        source[SOURCE.key] = block.seed
        sources.push(...source)
      }
    }
    this.jobs.set(job, { ...record, blocks: placed })
    this.#fences.set(job, 0)
    const finish = { slots: 1, slot: job, slotGeneration: 1, fence }
    const bytes = blocks.length
    this.#records(Float64Array.from(sources), SOURCE.doubles, cut, (list, more) =>
      this.request({ kind: 'restore', worker, job, more, bytes, admitUs: this.nowUs, list, ...finish }),
    )
    return job
  }

  /** Publishes blocks from pages that have their bytes. */
  write(worker: number, blocks: readonly Block[], fence = 0, cut = 0): number {
    const job = this.#nextJob++
    const placed: WriteRecord['blocks'][number][] = []
    const targets: number[] = []
    for (const [object, block] of blocks.entries()) {
      const page = this.page(block.template, job)
      this.pageBytes(block.template, page).set(payload(block))
      const shape = SHAPES[block.template] as Shape
      const hotOffsetBytes = this.#takePool(shape.extentBytes)
      placed.push({ block, page, hotOffsetBytes })
      for (const [index, granule] of shape.granules.entries()) {
        const target = new Array<number>(TARGET.doubles).fill(0)
        target[TARGET.template] = block.template
        target[TARGET.granule] = index
        target[TARGET.page] = page
        target[TARGET.poolOffsetBytes] = hotOffsetBytes + granule.extentOffsetBytes
        target[TARGET.file] = block.file
        target[TARGET.fileOffsetBytes] = block.fileOffsetBytes + granule.extentOffsetBytes
        target[TARGET.bytes] = granule.items * granule.strideBytes
        target[TARGET.object] = object
        target[TARGET.itemCount] = granule.items
        targets.push(...target)
      }
    }
    this.jobs.set(job, { kind: 'write', blocks: placed, copied: null, ended: null, objects: [] })
    this.#fences.set(job, 0)
    const finish = { slots: 1, slot: job, slotGeneration: 1, fence }
    this.#records(Float64Array.from(targets), TARGET.doubles, cut, (list, more) =>
      this.request({ kind: 'write', worker, job, more, list, ...finish }),
    )
    return job
  }

  #records(
    doubles: Float64Array,
    each: number,
    cut: number,
    send: (list: { doubles: Float64Array; offset: number; length: number }, more: 0 | 1) => void,
  ): void {
    const at = Math.min(cut * each, doubles.length)
    if (at > 0) send({ doubles, offset: 0, length: at }, 1)
    send({ doubles, offset: at, length: doubles.length - at }, 0)
  }

  reachFence(job: number, value: number): void {
    this.#fences.set(job, value)
    this.tick(5000)
  }

  tick(us: number): void {
    this.nowUs += us
    this.step({ kind: 'tick', nowUs: this.nowUs })
  }

  request(request: (SsdWorkerInput & { kind: 'request' })['request']): void {
    this.step({ kind: 'request', request })
  }

  // Device

  /** Ends one operation: of each worker's slot and of its copy stream only the oldest may end. */
  complete(pick: number, outcome: Outcome = 'ok'): boolean {
    const heads = this.#operations.filter(
      (each, at) =>
        this.#operations.findIndex(({ worker, slot }) => worker === each.worker && slot === each.slot) === at,
    )
    const operation = heads[pick % Math.max(1, heads.length)]
    if (operation === undefined) return false
    this.#operations.splice(this.#operations.indexOf(operation), 1)
    const { result, wanted } = this.#happen(operation, outcome)
    const told = this.#distort === null ? result : this.#distort(result, wanted)
    this.step({ kind: 'completed', tag: operation.tag, result: told })
    return true
  }

  #happen({ worker, slot, effect }: Operation, outcome: Outcome): { result: number; wanted: number } {
    const failure = OUTCOME_RESULT[outcome]
    const memory = slot < 0 ? this.pool : this.slotBytes(worker, slot)
    switch (effect.kind) {
      case 'copy':
        for (let each = 0; each < effect.count; each++) {
          this.#copyOne(effect.copies, effect.offset + each * COPY.doubles, memory, effect.toPages)
        }
        return { result: failure ?? 0, wanted: 0 }
      case 'scatter':
        for (let each = 0; each < effect.copyCount; each++) {
          this.#copyOne(effect.copies, each * COPY.doubles, memory, true)
        }
        return { result: failure ?? 0, wanted: 0 }
      case 'decode': {
        if (outcome === 'no-room') return { result: -12, wanted: 0 }
        for (let each = 0; each < effect.count; each++) {
          const refused = outcome === 'refused' && each === 0
          const done = this.#decodeOne(effect.copies, effect.offset + each * COPY.doubles, memory, refused)
          this.#checks[effect.resultBase + each] = done || this.#deaf ? 0 : 1
        }
        return { result: failure ?? 0, wanted: 0 }
      }
      case 'read': {
        const file = this.files[effect.file] as Uint8Array
        const moved =
          outcome === 'short'
            ? effect.bytes - PAGE_BYTES
            : failure !== undefined || outcome === 'stale'
              ? 0
              : effect.bytes
        memory.set(file.subarray(effect.fileOffsetBytes, effect.fileOffsetBytes + moved))
        if (outcome === 'rotten') {
          const at = effect.checks[CHECKSUM.poolOffsetBytes] as number
          memory[at] = (memory[at] as number) ^ 0xff
        }
        for (let each = 0; each < effect.checkCount; each++) {
          this.#checks[effect.checkBase + each] = checksumOf(memory, effect.checks, each * CHECKSUM.doubles)
        }
        return { result: failure ?? (outcome === 'short' ? moved : effect.bytes), wanted: effect.bytes }
      }
      case 'write': {
        memory.fill(0, effect.zeroFromBytes, effect.stagingOffsetBytes + effect.bytes)
        for (let each = 0; each < effect.copyCount; each++) {
          this.#copyOne(effect.copies, each * COPY.doubles, memory, false)
        }
        const moved = outcome === 'short' ? effect.bytes - PAGE_BYTES : failure !== undefined ? 0 : effect.bytes
        const from = memory.subarray(effect.stagingOffsetBytes, effect.stagingOffsetBytes + moved)
        this.files[effect.file]?.set(from, effect.fileOffsetBytes)
        return { result: failure ?? (outcome === 'short' ? moved : effect.bytes), wanted: effect.bytes }
      }
    }
  }

  /** What a descriptor names. */
  #target(copies: Float64Array, at: number) {
    const template = copies[at + COPY.template] as number
    const page = copies[at + COPY.page] as number
    const base = copies[at + COPY.poolOffsetBytes] as number
    const granule = (SHAPES[template] as Shape).granules[copies[at + COPY.granule] as number] as Granule
    const job = this.#pageJob[template]?.[page] as number
    const record = this.jobs.get(job)
    if (record === undefined || record.ended !== null) throw new Error(`page ${page} is touched after job ${job}`)
    return { template, page, base, granule, record }
  }

  /** Decodes one item into its page; false, and nothing happens, when its bytes are no coding. */
  #decodeOne(copies: Float64Array, at: number, memory: Uint8Array, refused: boolean): boolean {
    const { record, granule, page, base, template } = this.#target(copies, at)
    if (record.kind !== 'restore') throw new Error('only restores decode')
    const stored = copies[at + COPY.storedBytes] as number
    if (granule.codingBytes !== stored) throw new Error(`a coding of ${stored} bytes is not one of this granule`)
    const bytes = memory.subarray(base, base + stored)
    const seed = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
    if (refused || !same(bytes, codingOf(seed, stored))) {
      const of = record.blocks.find((each) => each.page === page && each.block.template === template)
      record.refused.add(of?.block.seed ?? -1)
      return false
    }
    const expected = payload({ template, seed }).subarray(
      granule.pageOffsetBytes,
      granule.pageOffsetBytes + granule.segmentBytes,
    )
    this.pageBytes(template, page).set(expected, granule.pageOffsetBytes)
    return true
  }

  #copyOne(copies: Float64Array, at: number, memory: Uint8Array, toPages: boolean): void {
    const { template, page, base, granule } = this.#target(copies, at)
    if (granule.codingBytes !== null || copies[at + COPY.storedBytes] !== 0) throw new Error('a coding is copied raw')
    if (base < 0 || base + granule.items * granule.strideBytes > memory.length) {
      throw new Error(`a granule leaves its memory at ${base}`)
    }
    const bytes = this.pageBytes(template, page)
    const first = copies[at + COPY.firstItem] as number
    const end = first + (copies[at + COPY.itemCount] as number)
    for (let item = first; item < end; item++) {
      const inPage = granule.pageOffsetBytes + item * granule.segmentBytes
      const inMemory = base + item * granule.strideBytes
      if (toPages) bytes.set(memory.subarray(inMemory, inMemory + granule.segmentBytes), inPage)
      else {
        memory.fill(0, inMemory, inMemory + granule.strideBytes)
        memory.set(bytes.subarray(inPage, inPage + granule.segmentBytes), inMemory)
      }
    }
  }

  slotBytes(worker: number, slot: number): Uint8Array {
    const bytes = this.#slots.get(`${worker}/${slot}`)
    if (bytes === undefined) throw new Error(`slot ${slot} of worker ${worker} is not open`)
    return bytes
  }

  // Machine

  step(input: SsdWorkerInput): void {
    const inputs: SsdWorkerInput[] = [input]
    for (let next = inputs.shift(); next !== undefined; next = inputs.shift()) {
      const out: SsdWorkerEffect[] = []
      this.machine.step(next, out)
      for (const effect of out) {
        const said = this.#perform(effect)
        if (said !== null) inputs.push(said)
      }
    }
    this.#checkBounds()
  }

  #perform(effect: SsdWorkerEffect): SsdWorkerInput | null {
    switch (effect.kind) {
      case 'open-worker': {
        const { worker, slotBytes } = effect
        if (this.openCode === 0) {
          this.#open.add(worker)
          for (let slot = 0; slot < STAGING_SLOTS; slot++) {
            this.#slots.set(`${worker}/${slot}`, new Uint8Array(slotBytes).fill(0xee))
          }
        }
        return { kind: 'worker-opened', worker, code: this.openCode }
      }
      case 'close-worker':
        if (this.#operations.some(({ worker }) => worker === effect.worker)) throw new Error('closed while in use')
        this.#open.delete(effect.worker)
        return null
      case 'read':
        this.#checkRead(effect)
        this.reads.push(effect)
        this.#operations.push({ tag: effect.tag, worker: effect.worker, slot: effect.slot, effect })
        return null
      case 'scatter':
      case 'write':
        this.#operations.push({ tag: effect.tag, worker: effect.worker, slot: effect.slot, effect })
        return null
      case 'decode': {
        if (effect.count < 1 || effect.count > CODED_DESCRIPTORS) throw new Error('a part of decodings is bounded')
        const slot = effect.slot === STAGING_SLOTS ? -1 : effect.slot
        this.#operations.push({ tag: effect.tag, worker: effect.worker, slot, effect })
        return null
      }
      case 'copy':
        this.#operations.push({ tag: effect.tag, worker: effect.worker, slot: -1, effect })
        return null
      case 'poll-fence':
        return { kind: 'fence-read', job: effect.job, value: this.#fences.get(effect.job) ?? 0 }
      case 'finish-slot': {
        const record = this.jobs.get(effect.slot)
        if (record?.kind !== 'restore' || record.ended !== null) throw new Error('a slot is finished before its reply')
        record.slotWrites += 1
        return null
      }
      case 'reply':
        this.#replied(effect.reply)
        return null
    }
  }

  #replied(reply: (SsdWorkerEffect & { kind: 'reply' })['reply']): void {
    switch (reply.kind) {
      case 'restore-done': {
        const record = this.jobs.get(reply.job)
        if (
          record?.kind !== 'restore' ||
          record.ended !== null ||
          record.slotWrites !== (reply.list.length > 0 ? 0 : 1)
        ) {
          throw new Error(`restore ${reply.job} does not end once, after its slot`)
        }
        record.ended = reply.status
        const named = new Set(reply.list.doubles.subarray(reply.list.offset, reply.list.offset + reply.list.length))
        for (const seed of record.refused) if (!named.has(seed)) throw new Error(`damage of block ${seed} is not named`)
        if (record.refused.size > 0 && reply.status === ERROR_CODES.ok) throw new Error('a refused coding is done')
        return this.#checkRestored(reply.job, record)
      }
      case 'copied': {
        const record = this.jobs.get(reply.job)
        if (record?.kind !== 'write' || record.copied !== null || record.ended !== null) {
          throw new Error(`write ${reply.job} says copied once, before its end`)
        }
        record.copied = reply.status
        if (reply.status !== ERROR_CODES.ok) return
        for (const { block, hotOffsetBytes } of record.blocks) {
          const stored = storedBytes(block)
          const hot = this.pool.subarray(hotOffsetBytes, hotOffsetBytes + stored.length)
          if (!same(hot, stored)) throw new Error(`the copy of block ${block.seed} in DRAM differs`)
        }
        return
      }
      case 'write-done': {
        const record = this.jobs.get(reply.job)
        if (record?.kind !== 'write' || record.copied === null || record.ended !== null) {
          throw new Error(`write ${reply.job} ends once, after copied`)
        }
        record.ended = reply.status
        const { doubles, offset, length } = reply.list
        record.objects = [...doubles.subarray(offset, offset + length)]
        return this.#checkWritten(record)
      }
      case 'route-failed':
        this.routeFailures.push(reply.code)
        return
      case 'worker-closed':
        if (this.#open.has(reply.worker)) throw new Error('a worker is closed before it says so')
        this.closed.push(reply.worker)
        return
      case 'stopped':
        this.stopped += 1
        return
    }
  }

  // What must always hold

  #checkBounds(): void {
    const batches = new Map<number, { slots: Set<number>; writes: number }>()
    for (const { worker, slot, effect } of this.#operations) {
      if (slot < 0) continue
      const of = batches.get(worker) ?? { slots: new Set(), writes: 0 }
      // The scatter of one batch may be a copy and some decodings.
      const alone = effect.kind === 'read' || effect.kind === 'write'
      const batch = this.#operations.filter((each) => each.worker === worker && each.slot === slot)
      if (alone && batch.length > 1) throw new Error(`slot ${slot} of worker ${worker} has two batches`)
      of.slots.add(slot)
      if (effect.kind === 'write') of.writes += 1
      if (of.slots.size > 2 || of.writes > 1) throw new Error(`worker ${worker} has too much in flight`)
      batches.set(worker, of)
    }
  }

  #checkRead({ fileOffsetBytes, bytes }: SsdWorkerEffect & { kind: 'read' }): void {
    const whole = fileOffsetBytes % PAGE_BYTES === 0 && bytes % PAGE_BYTES === 0 && bytes > 0
    if (!whole || bytes > BED_SLOT_BYTES || fileOffsetBytes + bytes > BED_FILE_BYTES) {
      throw new Error(`a read of ${bytes} at ${fileOffsetBytes} is not whole pages of a file within a slot`)
    }
  }

  /** A restore that succeeded has every byte; a failed one has right bytes or none in each segment. */
  #checkRestored(job: number, record: RestoreRecord): void {
    for (const { block, page } of record.blocks) {
      const expected = payload(block)
      const bytes = this.pageBytes(block.template, page)
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

  #checkWritten(record: WriteRecord): void {
    for (const [object, { block }] of record.blocks.entries()) {
      if (record.objects[object] !== ERROR_CODES.ok) continue
      const stored = new Uint8Array(extentBytesOf(SHAPES[block.template] as Shape))
      stored.set(storedBytes(block))
      const file = this.files[block.file] as Uint8Array
      if (!same(file.subarray(block.fileOffsetBytes, block.fileOffsetBytes + stored.length), stored)) {
        throw new Error(`block ${block.seed} was called written, and its extent has other bytes`)
      }
    }
  }

  /** Bytes beside pages, and file bytes in no extent of a block that was placed. */
  checkGuards(): void {
    const poison = new Uint8Array(FENCE_BYTES).fill(POISON)
    for (const page of this.pages.flat()) {
      if (!same(page.subarray(0, FENCE_BYTES), poison) || !same(page.subarray(-FENCE_BYTES), poison)) {
        throw new Error('bytes beside a page were touched')
      }
    }
    const guard = new Uint8Array(BED_FILE_BYTES).fill(GUARD)
    for (const [file, bytes] of this.files.entries()) {
      const end = this.#nextFile[file] as number
      if (!same(bytes.subarray(end), guard.subarray(end))) throw new Error('bytes outside of all extents were written')
    }
  }

  /** Everything in flight ends well. */
  finish(): void {
    for (const [job, value] of this.#fences) if (value === 0) this.#fences.set(job, 1e9)
    this.tick(10_000)
    while (this.complete(0)) this.tick(10)
  }

  #takePool(bytes: number): number {
    const offset = this.#nextPool
    this.#nextPool += alignUp(bytes, PAGE_BYTES)
    if (this.#nextPool > this.pool.length) throw new Error('the bed has no pool left')
    return offset
  }

  #poolBytes(block: Block): number {
    const stored = storedBytes(block)
    const offset = this.#takePool(stored.length)
    this.pool.set(stored, offset)
    return offset
  }
}

/** The engine's bytes of a block. */
export function payload(block: Pick<Block, 'template' | 'seed'>): Uint8Array {
  const bytes = new Uint8Array((SHAPES[block.template] as Shape).pageBytes)
  let state = (block.seed * 2654435761) >>> 0
  for (let at = 0; at < bytes.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    bytes[at] = state >>> 24
  }
  return bytes
}

/** A toy coding: the seed that all bytes of a block follow from, then bytes that tell when any of them is wrong. */
function codingOf(seed: number, bytes: number): Uint8Array {
  const coding = Uint8Array.from({ length: bytes }, (_, at) => seed * 7 + at * 13 + bytes)
  new DataView(coding.buffer).setUint32(0, seed, true)
  return coding
}

/** The same as they are stored: segments padded with zeros, codings too. */
export function storedBytes(block: Block): Uint8Array {
  const shape = SHAPES[block.template] as Shape
  const page = payload(block)
  const stored = new Uint8Array(shape.extentBytes)
  for (const granule of shape.granules) {
    if (granule.codingBytes !== null) {
      stored.set(codingOf(block.seed, granule.codingBytes), granule.extentOffsetBytes)
      continue
    }
    for (let item = 0; item < granule.items; item++) {
      const from = granule.pageOffsetBytes + item * granule.segmentBytes
      stored.set(
        page.subarray(from, from + granule.segmentBytes),
        granule.extentOffsetBytes + item * granule.strideBytes,
      )
    }
  }
  return stored
}

function granuleCrc(stored: Uint8Array, granule: Granule): number {
  let crc = 0
  for (let item = 0; item < granule.items; item++) {
    const at = granule.extentOffsetBytes + item * granule.strideBytes
    crc = crc32(stored.subarray(at, at + (granule.codingBytes ?? granule.segmentBytes)), crc)
  }
  return crc
}

function checksumOf(memory: Uint8Array, checks: Float64Array, at: number): number {
  const offset = checks[at + CHECKSUM.poolOffsetBytes] as number
  const bytes = checks[at + CHECKSUM.bytes] as number
  const segment = checks[at + CHECKSUM.segmentBytes] as number
  const stride = checks[at + CHECKSUM.segmentStrideBytes] as number
  let crc = 0
  for (let inside = 0; inside < bytes; inside += stride) {
    crc = crc32(memory.subarray(offset + inside, offset + inside + segment), crc)
  }
  return crc
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0
}
