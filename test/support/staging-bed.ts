import { SSD_WORKER_COUNT as COUNT } from '../../src/actors/ssd-worker/counters.js'
import {
  resultsOf,
  type SsdWorkerEffect,
  type SsdWorkerInput,
  SsdWorkerMachine,
} from '../../src/actors/ssd-worker/machine.js'
import { STAGING_SLOTS } from '../../src/actors/ssd-worker/worker.js'
import { PAGE_BYTES } from '../../src/shared/base/units.js'
import { COPY, NO_CODE, NO_CRC, NO_OFFSET, SOURCE, TARGET } from '../../src/shared/layout/descriptors.js'
import { PlainTally } from './plain-tally.js'
import { type Block, granuleCrc, payload, SHAPES, type Shape, storedBytes } from './staging-blocks.js'
import { BED_FILE_BYTES, BED_SLOT_BYTES, type Operation, type Outcome, StagingDevice } from './staging-device.js'
import { type EncodeRecord, type RestoreRecord, StagingJobs, type WriteRecord } from './staging-jobs.js'

const CODED_DESCRIPTORS = 2

/** A planted bug between the device and the machine: what a completion is taken for. */
export type Distortion = (result: number, wanted: number) => number

/**
 * An ssd-worker machine on a simulated device with real bytes (staging-device.ts), which asks for jobs of real blocks
 * (staging-jobs.ts). Throws as soon as the machine does what it must never do.
 */
export class StagingBed {
  readonly tally = new PlainTally()
  readonly machine: SsdWorkerMachine
  readonly routeFailures: number[] = []
  readonly closed: number[] = []
  readonly reads: (SsdWorkerEffect & { kind: 'read' })[] = []
  stopped = 0
  nowUs = 0
  /** What the next opening of a worker is answered with. */
  openCode = 0
  readonly #results = new Uint32Array(resultsOf(CODED_DESCRIPTORS))
  readonly #jobs = new StagingJobs()
  readonly #device: StagingDevice
  readonly #open = new Set<number>()
  readonly #fences = new Map<number, number>()
  readonly #distort: Distortion | null
  readonly #unverified: boolean
  #nextJob = 1

  /** `deaf`: nobody hears what decodings refuse. */
  constructor(options: { distort?: Distortion; unverified?: boolean; deaf?: boolean } = {}) {
    this.#device = new StagingDevice(this.#jobs, this.#results, options.deaf ?? false)
    this.#distort = options.distort ?? null
    this.#unverified = options.unverified ?? false
    const limits = { slotBytes: BED_SLOT_BYTES, partDescriptors: 3, codedDescriptors: CODED_DESCRIPTORS }
    this.machine = new SsdWorkerMachine(limits, this.#results, this.tally)
  }

  gauge(name: keyof typeof COUNT): number {
    return this.tally.at(COUNT[name])
  }

  get operations(): readonly Operation[] {
    return this.#device.operations
  }

  get jobs(): ReadonlyMap<number, RestoreRecord | WriteRecord | EncodeRecord> {
    return this.#jobs.records
  }

  place(template: number, file: number, gapPages = 0): Block | null {
    return this.#device.place(template, file, gapPages)
  }

  store(block: Block): void {
    this.#device.store(block)
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
      const page = this.#jobs.addPage(block.template, job)
      placed.push({ block, page, resident })
      const poolOffset = resident ? this.#device.poolBytes(block) : NO_OFFSET
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
    this.#jobs.records.set(job, { ...record, blocks: placed })
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
      const page = this.#jobs.addPage(block.template, job)
      this.#jobs.bytes(block.template, page).set(payload(block))
      const shape = SHAPES[block.template] as Shape
      const hotOffsetBytes = this.#device.takePool(shape.extentBytes)
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
        target[TARGET.code] = NO_CODE
        targets.push(...target)
      }
    }
    this.#jobs.records.set(job, { kind: 'write', blocks: placed, copied: null, ended: null, objects: [] })
    this.#fences.set(job, 0)
    const finish = { slots: 1, slot: job, slotGeneration: 1, fence }
    this.#records(Float64Array.from(targets), TARGET.doubles, cut, (list, more) =>
      this.request({ kind: 'write', worker, job, more, list, ...finish }),
    )
    return job
  }

  /** Publishes blocks under a codec, from pages that have their bytes: one job of at most CODED_DESCRIPTORS codings. */
  encode(worker: number, blocks: readonly Block[], fence = 0): number {
    const job = this.#nextJob++
    const placed: EncodeRecord['blocks'][number][] = []
    const codes: EncodeRecord['codes'][number][] = []
    const raw: number[] = []
    const coded: number[] = []
    for (const block of blocks) {
      const shape = SHAPES[block.template] as Shape
      const codings = shape.granules.filter(({ codingBytes }) => codingBytes !== null).length
      if (codes.length + codings > CODED_DESCRIPTORS) continue
      const page = this.#jobs.addPage(block.template, job)
      this.#jobs.bytes(block.template, page).set(payload(block))
      const hotOffsetBytes = this.#device.takePool(shape.extentBytes)
      for (const [index, granule] of shape.granules.entries()) {
        const copy = new Array<number>(COPY.doubles).fill(0)
        copy[COPY.template] = block.template
        copy[COPY.granule] = index
        copy[COPY.page] = page
        copy[COPY.poolOffsetBytes] = hotOffsetBytes + granule.extentOffsetBytes
        copy[COPY.itemCount] = granule.items
        copy[COPY.storedBytes] = granule.codingBytes === null ? 0 : granule.strideBytes
        if (granule.codingBytes === null) raw.push(...copy)
        else {
          coded.push(...copy)
          codes.push({ at: placed.length, granule: index })
        }
      }
      placed.push({ block, page, hotOffsetBytes })
    }
    const open = { said: null, asked: null, cancelled: false, ended: null, objects: [] }
    this.#jobs.records.set(job, { kind: 'encode', blocks: placed, codes, ...open })
    this.#fences.set(job, 0)
    const doubles = Float64Array.from([...raw, ...coded])
    const list = { doubles, offset: 0, length: doubles.length }
    this.request({ kind: 'encode', worker, job, more: 0, list, slots: 1, slot: job, slotGeneration: 1, fence })
    return job
  }

  /** Has of what a job holds the blocks at `places` written, as far as they are whole; true when it waited for that. */
  writeCodes(job: number, places?: readonly number[]): boolean {
    const record = this.#jobs.records.get(job)
    if (record?.kind !== 'encode' || !record.said?.whole || record.asked !== null) return false
    if (record.cancelled || record.ended !== null) return false
    const asked = record.said.whole.filter((at) => places?.includes(at) ?? true)
    record.asked = asked
    const targets: number[] = []
    for (const [object, at] of asked.entries()) {
      const { block, page } = record.blocks[at] as EncodeRecord['blocks'][number]
      for (const [index, granule] of (SHAPES[block.template] as Shape).granules.entries()) {
        const target = new Array<number>(TARGET.doubles).fill(0)
        target[TARGET.template] = block.template
        target[TARGET.granule] = index
        target[TARGET.page] = page
        target[TARGET.poolOffsetBytes] = NO_OFFSET
        target[TARGET.file] = block.file
        target[TARGET.fileOffsetBytes] = block.fileOffsetBytes + granule.extentOffsetBytes
        target[TARGET.bytes] = granule.items * granule.strideBytes
        target[TARGET.object] = object
        target[TARGET.itemCount] = granule.items
        const code = record.codes.findIndex((each) => each.at === at && each.granule === index)
        target[TARGET.code] = code < 0 ? NO_CODE : code
        targets.push(...target)
      }
    }
    const doubles = Float64Array.from(targets)
    this.request({ kind: 'write-codes', job, list: { doubles, offset: 0, length: doubles.length } })
    return true
  }

  cancel(job: number): void {
    const record = this.#jobs.records.get(job)
    if (record?.kind === 'encode') record.cancelled = true
    this.request({ kind: 'cancel', job })
  }

  /** Nothing is held from now on. */
  set holdsNothing(nothing: boolean) {
    this.#device.holdsNothing = nothing
  }

  /** A bug: what a worker holds goes although it is used. */
  releaseEarly(worker: number): void {
    this.#device.release(worker)
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

  /** Ends one operation: of each worker's slot and of its copy stream only the oldest may end. False: there is none. */
  complete(pick: number, outcome: Outcome = 'ok'): boolean {
    const completion = this.#device.complete(pick, outcome)
    if (completion === null) return false
    const { tag, result, wanted } = completion
    this.step({ kind: 'completed', tag, result: this.#distort === null ? result : this.#distort(result, wanted) })
    return true
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
          this.#device.openWorker(worker, slotBytes)
        }
        return { kind: 'worker-opened', worker, code: this.openCode }
      }
      case 'close-worker':
        if (this.operations.some(({ worker }) => worker === effect.worker)) throw new Error('closed while in use')
        if (this.#device.held.includes(effect.worker)) throw new Error('closed while its codings are held')
        this.#open.delete(effect.worker)
        return null
      case 'encode': {
        if (effect.count < 1 || effect.count > CODED_DESCRIPTORS) throw new Error('an encoding is bounded')
        const { tag } = effect
        const result = this.#device.beginEncode(effect)
        return result === 0 ? null : { kind: 'completed', tag, result }
      }
      case 'release-codes': {
        const read = ({ effect: each }: Operation) => each.kind === 'write' && each.codeCount > 0
        if (this.operations.some((each) => each.worker === effect.worker && read(each))) {
          throw new Error('codings are released while they are read')
        }
        this.#device.release(effect.worker)
        return null
      }
      case 'read':
        this.#checkRead(effect)
        this.reads.push(effect)
        this.#device.begin(effect.slot, effect)
        return null
      case 'scatter':
      case 'write':
        this.#device.begin(effect.slot, effect)
        return null
      case 'decode': {
        if (effect.count < 1 || effect.count > CODED_DESCRIPTORS) throw new Error('a part of decodings is bounded')
        this.#device.begin(effect.slot === STAGING_SLOTS ? -1 : effect.slot, effect)
        return null
      }
      case 'copy':
        this.#device.begin(-1, effect)
        return null
      case 'poll-fence':
        return { kind: 'fence-read', job: effect.job, value: this.#fences.get(effect.job) ?? 0 }
      case 'finish-slot':
        this.#jobs.slotFinished(effect.slot)
        return null
      case 'reply':
        this.#replied(effect.reply)
        return null
    }
  }

  #replied(reply: (SsdWorkerEffect & { kind: 'reply' })['reply']): void {
    switch (reply.kind) {
      case 'restore-done':
        return this.#jobs.restoreDone(reply.job, reply.status, reply.list)
      case 'copied':
        return this.#jobs.copied(reply.job, reply.status, this.#device)
      case 'encoded':
        return this.#jobs.encoded(reply.job, reply.status, reply.held, reply.list, this.#device)
      case 'write-done':
        return this.#jobs.writeDone(reply.job, reply.status, reply.list, this.#device)
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
    for (const { worker, slot, effect } of this.operations) {
      if (slot < 0) continue
      const of = batches.get(worker) ?? { slots: new Set(), writes: 0 }
      // The scatter of one batch may be a copy and some decodings.
      const alone = effect.kind === 'read' || effect.kind === 'write'
      const batch = this.operations.filter((each) => each.worker === worker && each.slot === slot)
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

  /** Bytes beside pages, and file bytes in no extent of a block that was placed. */
  checkGuards(): void {
    this.#jobs.checkGuards()
    this.#device.checkGuards()
  }

  /** Everything in flight ends well. */
  finish(): void {
    for (const [job, value] of this.#fences) if (value === 0) this.#fences.set(job, 1e9)
    this.tick(10_000)
    const asks = () => [...this.#jobs.records.keys()].some((job) => this.writeCodes(job))
    while (this.complete(0) || asks()) this.tick(10)
  }
}
