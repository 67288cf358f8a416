import test from 'ava'
import fc from 'fast-check'
import { HOST_RESTORE_COUNT as COUNT, HOST_RESTORE_SERIES } from '../../../src/actors/host-restore/counters.js'
import {
  type HostRestoreEffect,
  type HostRestoreInput,
  HostRestoreMachine,
} from '../../../src/actors/host-restore/machine.js'
import { resultsOf } from '../../../src/actors/host-restore/parts.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { KIB, MIB, PAGE_BYTES } from '../../../src/shared/base/units.js'
import { CODEC_COUNT } from '../../../src/shared/codec/lane-series.js'
import { COPY, NO_OFFSET, READ, SOURCE } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { terminalStateOf } from '../../../src/shared/layout/slot-states.js'
import { NONE_FAILED } from '../../../src/shared/layout/wire/slots.js'
import { demand } from '../../support/demand.js'
import { FakeDevice } from '../../support/fake-device.js'
import { PlainTally } from '../../support/plain-tally.js'

const STORES = 2
const WINDOW = { windowOffsetBytes: 64 * MIB, windowBytes: 3 * MIB }
const OPTIONS = {
  ...WINDOW,
  stores: STORES,
  storeReads: 6,
  reads: 8,
  parts: 2,
  partDescriptors: 3,
  codedDescriptors: 2,
}
const RESULTS = resultsOf(OPTIONS)
const SIZES = [4096, 8192, 300 * KIB, MIB]
const RESIDENT_BASE = 512 * MIB

interface Machine {
  step(input: HostRestoreInput, out: HostRestoreEffect[]): void
  settle(out: HostRestoreEffect[]): void
  readonly idle: boolean
  readonly stopped: boolean
}

type Make = (tally: PlainTally, results: Uint32Array) => Machine

/** One source: a granule of a stored generation, or one in DRAM. */
interface SourceSpec {
  generation: number
  granule: number
  resident: boolean
}

type Failure = 'none' | 'device' | 'memory'
const ERRNO = { none: 0, device: -5, memory: -12 } as const
type ReadOutcome = 'verified' | 'damaged' | 'short' | 'eio'
type Command =
  | { act: 'restore'; sources: SourceSpec[]; cut: number; fence: number }
  | { act: 'read'; pick: number; outcome: ReadOutcome }
  /** `refused`: bit i % 8 is set for the sources that the codec refuses. */
  | { act: 'part'; pick: number; failed: Failure; refused: number }
  | { act: 'stray'; pick: number }
  | { act: 'fence'; pick: number }
  | { act: 'cancel'; pick: number }
  | { act: 'tick'; us: number }
  | { act: 'release' }

const source = fc.record({
  generation: fc.nat({ max: 9 }),
  granule: fc.nat({ max: SIZES.length - 1 }),
  resident: fc.constantFrom(false, false, false, true),
})
const WELL = {
  read: fc.record({
    act: fc.constant('read' as const),
    pick: fc.nat({ max: 99 }),
    outcome: fc.constant<ReadOutcome>('verified'),
  }),
  part: fc.record({
    act: fc.constant('part' as const),
    pick: fc.nat({ max: 99 }),
    failed: fc.constant('none' as const),
    refused: fc.constant(0),
  }),
}
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    act: fc.constant('restore' as const),
    sources: fc.array(source, { maxLength: 24 }),
    cut: fc.nat({ max: 24 }),
    fence: fc.constantFrom(0, 0, 3),
  }),
  WELL.read,
  WELL.read,
  WELL.read,
  WELL.part,
  WELL.part,
  fc.record({
    act: fc.constant('read' as const),
    pick: fc.nat({ max: 99 }),
    outcome: fc.constantFrom<ReadOutcome[]>('verified', 'damaged', 'short', 'eio'),
  }),
  fc.record({
    act: fc.constant('part' as const),
    pick: fc.nat({ max: 99 }),
    failed: fc.constantFrom<Failure>('none', 'none', 'device', 'memory'),
    refused: fc.nat({ max: 255 }),
  }),
  fc.record({ act: fc.constant('stray' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('fence' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('cancel' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('tick' as const), us: fc.nat({ max: 5000 }) }),
  fc.record({ act: fc.constant('release' as const) }),
)

type Part = Extract<HostRestoreEffect, { readonly doubles: Float64Array }>

interface AskedRead {
  readonly tag: number
  readonly store: number
  readonly batch: number
  readonly job: number
  readonly fileOffsetBytes: number
  readonly poolOffsetBytes: number
  readonly bytes: number
  mayDrop: boolean
}

interface Known {
  readonly id: number
  readonly sources: SourceSpec[]
  readonly fence: number
  fenceValue: number
  fenceSeen: number
  status: number
  firstFailed: number
  readonly damaged: Set<number>
  readonly asked: Set<number>
  readonly verified: Set<number>
  readonly submitted: Set<number>
  readonly copied: Set<number>
  readsInFlight: number
  partsInFlight: number
  ssdBytes: number
  finished: number
}

/** Where a job's granule lies: jobs have files of their own, so that every byte tells whose it is. */
function fileOffsetOf(spec: SourceSpec): number {
  return spec.generation * 16 * MIB + spec.granule * MIB
}
/** Some stored granules are codings, a little shorter than their room. */
function encoded({ generation, granule }: SourceSpec): boolean {
  return generation >= 4 && granule < 3 && (generation + granule) % 2 === 0
}
const storedOf = (spec: SourceSpec) => (SIZES[spec.granule] as number) - (encoded(spec) ? 12 : 0)
const storeOf = (spec: SourceSpec) => spec.generation % STORES
/** Blocks of the request are numbered backwards, so that order and number differ. */
const pairOf = (position: number, count: number) => count - 1 - position

/**
 * Drives a machine with readers and a stream that complete in any order. Window memory is a map from page to what was
 * read into it last, so that a unit handed out too early is seen as a wrong byte by the copy that suffers from it.
 */
class Run {
  readonly readers = new FakeDevice<AskedRead>()
  readonly stream = new FakeDevice<Part>()
  readonly memory = new Map<number, string>()
  readonly tally = new PlainTally()
  readonly results = new Uint32Array(RESULTS)
  readonly open = new Map<number, Known>()
  readonly machine: Machine
  readonly ended: number[] = []
  nextJob = 1
  nowUs = 0
  strays = 0
  stopRequested = false
  stoppedReplies = 0
  /** The workspace is asked for; given back and not yet answered. */
  release: 'no' | 'asked' | 'done' = 'no'

  constructor(make: Make) {
    this.machine = make(this.tally, this.results)
  }

  feed(input: HostRestoreInput): void {
    const out: HostRestoreEffect[] = []
    this.machine.step(input, out)
    this.machine.settle(out)
    for (const effect of out) this.#check(effect)
    demand(this.stream.inFlight.length <= OPTIONS.parts, 'never more parts than places')
    demand(this.readers.inFlight.length <= OPTIONS.reads, 'never more reads than places')
    for (let store = 0; store < STORES; store++) {
      const outstanding = this.readers.inFlight.filter((read) => read.store === store).length
      demand(outstanding <= OPTIONS.storeReads, 'never more reads at a reader than agreed')
    }
    demand(this.tally.at(COUNT.completionsStray) === this.strays, 'strays are counted')
    demand(this.tally.at(COUNT.windowBytes) <= WINDOW.windowBytes, 'the window holds')
    for (const effect of out) {
      if (effect.kind !== 'poll-fence') continue
      const known = this.open.get(effect.job)
      if (known === undefined) continue
      known.fenceSeen = known.fenceValue
      this.feed({ kind: 'fence-read', job: effect.job, value: known.fenceValue })
    }
  }

  #check(effect: HostRestoreEffect): void {
    demand(this.stoppedReplies === 0, 'nothing follows stopped')
    switch (effect.kind) {
      case 'ask-reader':
        return this.#askedReader(effect)
      case 'copy':
      case 'decode':
        return this.#queuedPart(effect)
      case 'poll-fence':
        demand((this.open.get(effect.job)?.fence ?? 0) > 0 && effect.slot === effect.job, 'a fence is polled for a job')
        return
      case 'finish-slot': {
        const known = this.open.get(effect.slot)
        demand(known !== undefined && known.readsInFlight + known.partsInFlight === 0, 'a slot ends drained')
        known.finished += 1
        demand(known.finished === 1 && effect.slotGeneration === known.id * 3, 'a slot is finished once')
        demand(effect.state === terminalStateOf(known.status) && effect.errorCode === known.status, 'state and status')
        demand(effect.firstFailed === (known.firstFailed < 0 ? NONE_FAILED : known.firstFailed), 'the block is named')
        return
      }
      case 'release-workspace':
        demand(this.release === 'asked', 'a workspace is given back once, when it was asked for')
        demand(this.stream.inFlight.length === 0, 'a workspace is given back when nothing is on the stream')
        this.release = 'done'
        return
      case 'reply':
        return this.#answered(effect.reply)
    }
  }

  #askedReader(effect: HostRestoreEffect & { kind: 'ask-reader' }): void {
    const { request, store } = effect
    demand(request.kind !== 'stop', 'readers are stopped by the manager')
    if (request.kind === 'cancel-batch') {
      for (const read of this.readers.inFlight) if (read.batch === request.batch) read.mayDrop = true
      return
    }
    const { doubles, offset, length } = request.list
    const generations = new Set<number>()
    demand(length > 0 && !this.readers.inFlight.some((read) => read.batch === request.batch), 'batches are new')
    for (let at = offset; at < offset + length; at += READ.doubles) {
      const file = doubles[at + READ.file] as number
      const known = this.open.get(file)
      demand(known !== undefined && known.status === 0, 'only a healthy job reads')
      demand(known.fence <= known.fenceSeen, 'no read before the fence')
      const fileOffsetBytes = doubles[at + READ.fileOffsetBytes] as number
      const spec = known.sources.find((each) => !each.resident && fileOffsetOf(each) === fileOffsetBytes)
      demand(spec !== undefined && storeOf(spec) === store, 'a read is of a source, at its store')
      demand(!known.asked.has(fileOffsetBytes), 'a granule is read once')
      known.asked.add(fileOffsetBytes)
      generations.add(spec.generation)
      const bytes = SIZES[spec.granule] as number
      demand(doubles[at + READ.bytes] === bytes && doubles[at + READ.crc32] === spec.granule + 1, 'as described')
      const poolOffsetBytes = doubles[at + READ.poolOffsetBytes] as number
      this.#demandFree(poolOffsetBytes, bytes)
      const tag = doubles[at + READ.index] as number
      const { batch } = request
      this.readers.submit({ tag, store, batch, job: file, fileOffsetBytes, poolOffsetBytes, bytes, mayDrop: false })
      known.readsInFlight += 1
    }
    demand(generations.size <= 16, 'at most 16 generations a batch')
  }

  #askForWorkspace(): void {
    if (this.release !== 'no') return
    this.release = 'asked'
    this.feed({ kind: 'request', request: { kind: 'release-workspace' } })
    demand(this.#answeredRelease || this.stream.inFlight.length > 0, 'it waits for parts on the stream only')
  }

  get #answeredRelease(): boolean {
    return this.release === 'no'
  }

  #demandFree(offset: number, bytes: number): void {
    const inside = offset >= WINDOW.windowOffsetBytes && offset + bytes <= WINDOW.windowOffsetBytes + WINDOW.windowBytes
    demand(inside && offset % PAGE_BYTES === 0, 'a read lands in the window')
    for (const read of this.readers.inFlight) {
      const apart = offset + bytes <= read.poolOffsetBytes || read.poolOffsetBytes + read.bytes <= offset
      demand(apart, 'two reads never share memory')
    }
  }

  #queuedPart(part: Part): void {
    demand(this.#answeredRelease, 'nothing is queued while a workspace is asked for')
    const max = part.kind === 'copy' ? OPTIONS.partDescriptors : OPTIONS.codedDescriptors
    demand(part.count >= 1 && part.count <= max, 'a part is bounded and not empty')
    if (part.kind === 'decode') {
      demand(part.resultBase >= 0 && part.resultBase + part.count <= RESULTS, 'results have their room')
      for (const other of this.stream.inFlight) {
        if (other.kind === 'copy') continue
        const apart =
          other.resultBase + other.count <= part.resultBase || part.resultBase + part.count <= other.resultBase
        demand(apart, 'results never overlap')
      }
    }
    const known = this.#jobOfPart(part)
    demand(known.status === 0 && known.fence <= known.fenceSeen, 'only a healthy job copies')
    this.#eachCopy(part, (at, position) => {
      const spec = known.sources[position] as SourceSpec
      demand(part.doubles[at + COPY.template] === known.id, 'a part is of one job')
      demand(!known.submitted.has(position), 'a source is copied once')
      known.submitted.add(position)
      demand(spec.resident || known.verified.has(fileOffsetOf(spec)), 'only what was verified is copied')
      demand(part.doubles[at + COPY.itemCount] === position + 7, 'with the items that were asked')
      demand(encoded(spec) === (part.kind === 'decode'), 'codings are decoded, others copied')
      demand(
        part.doubles[at + COPY.storedBytes] === (encoded(spec) ? storedOf(spec) : 0),
        'with the bytes that are stored',
      )
    })
    known.partsInFlight += 1
    this.stream.submit({ ...part, doubles: part.doubles })
  }

  #jobOfPart(part: Part): Known {
    const known = this.open.get(part.doubles[part.offset + COPY.template] as number)
    demand(known !== undefined, 'a part is of an open job')
    return known
  }

  /** Positions of the sources of a part, from its descriptors (page = position). */
  #eachCopy(part: Part, each: (at: number, position: number) => void): void {
    for (let copy = 0; copy < part.count; copy++) {
      const at = part.offset + copy * COPY.doubles
      each(at, part.doubles[at + COPY.page] as number)
    }
  }

  #answered(reply: (HostRestoreEffect & { kind: 'reply' })['reply']): void {
    if (reply.kind === 'workspace-released') {
      demand(this.release === 'done', 'the answer follows what it says')
      this.release = 'no'
      return
    }
    if (reply.kind === 'stopped') {
      demand(this.stopRequested && this.open.size === 0, 'stopped comes after every reply')
      this.stoppedReplies += 1
      return
    }
    const known = this.open.get(reply.job)
    demand(known !== undefined, 'a job is answered once')
    // A client must not ask again before the manager has hidden what is damaged.
    const finishes = known.damaged.size === 0 ? 1 : 0
    demand(known.finished === finishes, 'after its slot, which is left to the manager when something is damaged')
    demand(reply.status === known.status, 'the answer says what happened')
    demand(reply.status !== 0 || known.copied.size === known.sources.length, 'done means every source')
    demand(reply.bytes === (reply.status === 0 ? 1000 + known.id : 0), 'bytes are those restored')
    demand(reply.ssdBytes === known.ssdBytes && reply.firstFailed === known.firstFailed, 'and what was read')
    const { doubles, offset, length } = reply.list
    const damaged = [...doubles.subarray(offset, offset + length)].sort()
    demand(String(damaged) === String([...known.damaged].sort()), 'damaged generations are named, each once')
    this.open.delete(reply.job)
    this.ended.push(reply.job)
  }

  run(command: Command): void {
    switch (command.act) {
      case 'restore':
        return this.#restore(command)
      case 'read':
        return this.#read(command)
      case 'part':
        return this.#part(command)
      case 'stray':
        this.strays += 1
        if (command.pick % 2 === 0) {
          return this.feed({ kind: 'stream-completed', tag: this.stream.strayTag(command.pick), result: 0 })
        }
        return this.feed({ kind: 'read-done', batch: 1, index: this.readers.strayTag(command.pick), status: 0 })
      case 'fence': {
        const known = [...this.open.values()][command.pick % Math.max(1, this.open.size)]
        if (known !== undefined) known.fenceValue = Math.max(known.fenceValue, command.pick)
        return
      }
      case 'cancel': {
        const known = [...this.open.values()][command.pick % (this.open.size + 1)]
        if (known !== undefined && known.status === 0) known.status = ERROR_CODES.cancelled
        this.feed({ kind: 'request', request: { kind: 'cancel', job: known?.id ?? this.ended[0] ?? 12345 } })
        if (known === undefined || !this.open.has(known.id)) return
        demand(known.readsInFlight + known.partsInFlight > 0, 'a cancelled job waits for what is in flight only')
        return
      }
      case 'release':
        return this.#askForWorkspace()
      case 'tick':
        this.nowUs += command.us
        return this.feed({ kind: 'tick', nowUs: this.nowUs })
    }
  }

  #restore(command: Command & { act: 'restore' }): void {
    const id = this.nextJob++
    const { sources, fence } = command
    this.open.set(id, {
      id,
      sources,
      fence,
      fenceValue: 0,
      fenceSeen: 0,
      status: 0,
      firstFailed: -1,
      damaged: new Set(),
      asked: new Set(),
      verified: new Set(),
      submitted: new Set(),
      copied: new Set(),
      readsInFlight: 0,
      partsInFlight: 0,
      ssdBytes: 0,
      finished: 0,
    })
    const cut = command.cut % (sources.length + 1)
    for (const [from, to] of cut === 0
      ? [[0, sources.length]]
      : [
          [0, cut],
          [cut, sources.length],
        ]) {
      const numbers = sources.map((spec, position) => sourceOf(id, spec, position, sources.length))
      const list = listOf(numbers.slice(from, to).flat())
      const finish = { slots: 9, slot: id, slotGeneration: id * 3, fence }
      const more = to === sources.length ? 0 : 1
      const common = { kind: 'restore', job: id, more, bytes: 1000 + id, admitUs: 0, list } as const
      this.feed({ kind: 'request', request: { ...common, ...finish } })
      list.doubles.fill(-9) // the list ends with its record
      if (more === 0) break
    }
  }

  #read(command: Command & { act: 'read' }): void {
    const read = this.readers.finish(command.pick)
    if (read === null) return
    const known = this.open.get(read.job)
    demand(known !== undefined, 'a job lives while a read of it is in flight')
    known.readsInFlight -= 1
    const dropped = read.mayDrop && command.pick % 2 === 0
    const status = dropped
      ? ERROR_CODES.cancelled
      : {
          verified: ERROR_CODES.ok,
          damaged: ERROR_CODES.checksum_mismatch,
          short: ERROR_CODES.io_short,
          eio: ERROR_CODES.io_read_failed,
        }[command.outcome]
    // What was in the memory is gone even when the read fails.
    for (let page = 0; page < read.bytes; page += PAGE_BYTES) {
      const content = status === ERROR_CODES.ok ? `${read.job}@${read.fileOffsetBytes}` : 'rubbish'
      if (!dropped) this.memory.set(read.poolOffsetBytes + page, content)
    }
    if (status === ERROR_CODES.ok) {
      known.verified.add(read.fileOffsetBytes)
      known.ssdBytes += read.bytes
    } else {
      if (known.status === 0) known.status = status
      const position = (spec: SourceSpec) => !spec.resident && fileOffsetOf(spec) === read.fileOffsetBytes
      if (!dropped) this.#fail(known, position)
      const lost: number[] = [ERROR_CODES.checksum_mismatch, ERROR_CODES.io_short]
      if (lost.includes(status)) known.damaged.add(Math.floor(read.fileOffsetBytes / (16 * MIB)))
    }
    this.feed({ kind: 'read-done', batch: read.batch, index: read.tag, status })
  }

  #part(command: Command & { act: 'part' }): void {
    const part = this.stream.finish(command.pick)
    if (part === null) return
    const known = this.#jobOfPart(part)
    const positions: number[] = []
    this.#eachCopy(part, (at, position) => {
      positions.push(position)
      const spec = known.sources[position] as SourceSpec
      const offset = part.doubles[at + COPY.poolOffsetBytes] as number
      if (spec.resident) return demand(offset === RESIDENT_BASE + position * MIB, 'a resident source is where it was')
      for (let page = 0; page < (SIZES[spec.granule] as number); page += PAGE_BYTES) {
        const content = this.memory.get(offset + page)
        demand(content === `${known.id}@${fileOffsetOf(spec)}`, 'a copy takes the bytes of its source')
      }
    })
    known.partsInFlight -= 1
    const { failed } = command
    if (failed !== 'none') {
      const noRoom = failed === 'memory' && part.kind === 'decode'
      if (known.status === 0) known.status = noRoom ? ERROR_CODES.capacity_codec : ERROR_CODES.io_copy_failed
      this.#fail(known, (_, position) => positions.includes(position))
      if (part.kind === 'decode') this.results.fill(1, part.resultBase, part.resultBase + part.count)
    } else {
      for (const position of positions) known.copied.add(position)
      if (part.kind === 'decode') this.#decoded(known, positions, part.resultBase, command.refused)
    }
    this.feed({ kind: 'stream-completed', tag: part.tag, result: ERRNO[failed] })
    this.results.fill(0) // results are looked at once
  }

  /** Writes what the stream says of its decodings. */
  #decoded(known: Known, positions: readonly number[], resultBase: number, refused: number): void {
    const no = positions.filter((position) => ((refused >> (position % 8)) & 1) === 1)
    for (const [each, position] of positions.entries()) this.results[resultBase + each] = no.includes(position) ? 1 : 0
    if (no.length === 0) return
    if (known.status === 0) known.status = ERROR_CODES.codec_damaged
    for (const position of no) known.damaged.add((known.sources[position] as SourceSpec).generation)
    this.#fail(known, (_, position) => no.includes(position))
  }

  #fail(known: Known, failed: (spec: SourceSpec, position: number) => boolean): void {
    for (const [position, spec] of known.sources.entries()) {
      if (!failed(spec, position)) continue
      const pair = pairOf(position, known.sources.length)
      known.firstFailed = known.firstFailed < 0 ? pair : Math.min(known.firstFailed, pair)
    }
  }

  stop(): void {
    this.stopRequested = true
    for (const known of this.open.values()) {
      const whole = known.submitted.size === known.sources.length && known.fence <= known.fenceSeen
      if (known.status === 0 && !whole) known.status = ERROR_CODES.draining
    }
    this.feed({ kind: 'request', request: { kind: 'stop' } })
  }

  drain(): void {
    for (const known of this.open.values()) known.fenceValue = 100
    for (let round = 0; round < 2000 && this.open.size > 0; round++) {
      this.run({ act: 'tick', us: 2000 })
      this.run({ act: 'read', pick: round, outcome: 'verified' })
      this.run({ act: 'part', pick: round, failed: 'none', refused: 0 })
    }
    demand(this.open.size === 0 && this.machine.idle, 'everything drains')
    for (const gauge of [
      COUNT.jobsActive,
      COUNT.jobsFenced,
      COUNT.partsInFlight,
      COUNT.readsInFlight,
      COUNT.windowBytes,
    ]) {
      demand(this.tally.at(gauge) === 0, 'gauges rest at zero')
    }
    demand(this.machine.stopped === this.stopRequested, 'stops when asked')
    demand(this.stoppedReplies === (this.stopRequested ? 1 : 0), 'stopped is answered once')
    demand(this.release === 'no', 'who asked for the workspace is answered')
  }
}

function sourceOf(job: number, spec: SourceSpec, position: number, count: number): number[] {
  const numbers = new Array<number>(SOURCE.doubles).fill(0)
  numbers[SOURCE.template] = job
  numbers[SOURCE.granule] = spec.granule
  numbers[SOURCE.page] = position
  numbers[SOURCE.poolOffsetBytes] = spec.resident ? RESIDENT_BASE + position * MIB : NO_OFFSET
  numbers[SOURCE.store] = storeOf(spec)
  numbers[SOURCE.file] = job
  numbers[SOURCE.fileOffsetBytes] = fileOffsetOf(spec)
  numbers[SOURCE.bytes] = SIZES[spec.granule] as number
  numbers[SOURCE.segmentBytes] = storedOf(spec)
  numbers[SOURCE.segmentStrideBytes] = SIZES[spec.granule] as number
  numbers[SOURCE.crc32] = spec.granule + 1
  numbers[SOURCE.generation] = spec.generation
  numbers[SOURCE.firstItem] = 0
  numbers[SOURCE.itemCount] = position + 7
  numbers[SOURCE.pair] = pairOf(position, count)
  numbers[SOURCE.encoded] = encoded(spec) ? 1 : 0
  numbers[SOURCE.key] = Math.floor(spec.generation / 2)
  return numbers
}

const real: Make = (tally, results) => new HostRestoreMachine(OPTIONS, tally, results)

function property(make: Make) {
  return fc.property(fc.array(command, { maxLength: 50 }), fc.boolean(), (steps, stop) => {
    const run = new Run(make)
    for (const step of steps) run.run(step)
    if (stop) run.stop()
    run.drain()
  })
}

/** Wraps the machine, so that a twin changes one thing only. */
class Twin implements Machine {
  readonly inner: HostRestoreMachine
  constructor(tally: PlainTally, results: Uint32Array) {
    this.inner = new HostRestoreMachine(OPTIONS, tally, results)
  }
  get idle() {
    return this.inner.idle
  }
  get stopped() {
    return this.inner.stopped
  }
  step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
    this.inner.step(input, out)
  }
  settle(out: HostRestoreEffect[]): void {
    this.inner.settle(out)
  }
}

/** Reads of whole places only, one generation each. */
function bigRestore(id: number, granules: number, run: Run): void {
  const sources = Array.from({ length: granules }, (_, generation) => ({ generation, granule: 3, resident: false }))
  demand(run.nextJob === id, 'jobs are numbered in order')
  run.run({ act: 'restore', sources, cut: 0, fence: 0 })
}

test('host-restore: copies the right bytes once, ends each restore once, and drains', (t) => {
  fc.assert(property(real), { numRuns: 500 })
  t.pass()
})

test('host-restore: the property catches a twin that takes a failed read for a landed one', (t) => {
  class Credulous extends Twin {
    override step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
      super.step(input.kind === 'read-done' ? { ...input, status: 0 } : input, out)
    }
  }
  const found = fc.check(
    property((tally, results) => new Credulous(tally, results)),
    { numRuns: 500, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /violated/)
})

test('host-restore: the property catches a twin that hears of copies before they have ended', (t) => {
  // Tells the machine that a part ended as soon as it was submitted, and drops the real end.
  class Hasty extends Twin {
    override step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
      if (input.kind !== 'stream-completed') super.step(input, out)
    }
    override settle(out: HostRestoreEffect[]): void {
      const from = out.length
      super.settle(out)
      const copies = out.slice(from).filter((effect) => effect.kind === 'copy' || effect.kind === 'decode')
      for (const { tag } of copies) super.step({ kind: 'stream-completed', tag, result: 0 }, out)
      if (copies.length > 0) this.settle(out)
    }
  }
  const found = fc.check(
    property((tally, results) => new Hasty(tally, results)),
    { numRuns: 500, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /violated/)
})

test('host-restore: the property catches a twin that takes a refused decoding for done', (t) => {
  class Trusting extends Twin {
    readonly #results: Uint32Array
    constructor(tally: PlainTally, results: Uint32Array) {
      super(tally, results)
      this.#results = results
    }
    override step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
      if (input.kind === 'stream-completed' && input.result === 0) this.#results.fill(0)
      super.step(input, out)
    }
  }
  const found = fc.check(
    property((tally, results) => new Trusting(tally, results)),
    { numRuns: 2400, seed: 20261130 },
  )
  t.regex(String(found.errorInstance), /violated/)
})

test('host-restore: the property catches a twin that blames the disk for a workspace without room', (t) => {
  class Blaming extends Twin {
    override step(input: HostRestoreInput, out: HostRestoreEffect[]): void {
      super.step(input.kind === 'stream-completed' && input.result < 0 ? { ...input, result: -5 } : input, out)
    }
  }
  const found = fc.check(
    property((tally, results) => new Blaming(tally, results)),
    { numRuns: 2400, seed: 20261130 },
  )
  t.regex(String(found.errorInstance), /violated/)
})

const CODED: SourceSpec = { generation: 4, granule: 0, resident: false }
const CODED_RESIDENT: SourceSpec = { generation: 6, granule: 0, resident: true }
const PLAIN: SourceSpec = { generation: 1, granule: 0, resident: false }

test('host-restore: codings and copies of one job have their parts in turn, however they land', (t) => {
  const run = new Run(real)
  const sources = [CODED, PLAIN, CODED, PLAIN, CODED, PLAIN]
  run.run({ act: 'restore', sources, cut: 0, fence: 0 })
  const out: HostRestoreEffect[] = []
  for (const { batch, tag } of run.readers.inFlight)
    run.machine.step({ kind: 'read-done', batch, index: tag, status: 0 }, out)
  run.machine.settle(out)
  const parts = out.filter((effect) => effect.kind === 'copy' || effect.kind === 'decode')
  t.deepEqual(
    parts.map(({ kind, count }) => [kind, count]),
    [
      ['copy', 3],
      ['decode', 2],
    ],
  )
})

test('host-restore: what is refused is damaged wherever it lay, and the slot is left to the manager', (t) => {
  const run = new Run(real)
  run.run({ act: 'restore', sources: [PLAIN, CODED_RESIDENT], cut: 0, fence: 0 })
  t.is(run.stream.inFlight[0]?.kind, 'decode')
  run.run({ act: 'part', pick: 0, failed: 'none', refused: 255 })
  run.run({ act: 'read', pick: 0, outcome: 'verified' })
  t.deepEqual(run.ended, [1])
  t.is(run.tally.at(COUNT.damagedGenerations), 1)
  t.is(run.tally.at(HOST_RESTORE_SERIES.length + CODEC_COUNT.decodeFailures), 1)
  t.is(run.tally.at(HOST_RESTORE_SERIES.length + CODEC_COUNT.decodedBytes), 4084)
})

test('host-restore: a workspace without room fails the restore and damages nothing', (t) => {
  const run = new Run(real)
  run.run({ act: 'restore', sources: [CODED_RESIDENT], cut: 0, fence: 0 })
  run.run({ act: 'part', pick: 0, failed: 'memory', refused: 0 })
  t.deepEqual(run.ended, [1])
  t.is(run.tally.at(COUNT.damagedGenerations), 0)
  t.is(run.tally.at(COUNT.restoresFailed), 1)
})

test('host-restore: a lane that was told of no codec refuses codings', (t) => {
  const { codedDescriptors: _, ...plain } = OPTIONS
  const run = new Run((tally) => new HostRestoreMachine(plain, tally))
  t.throws(() => run.run({ act: 'restore', sources: [CODED_RESIDENT], cut: 0, fence: 0 }), {
    message: /told of no codec/,
  })
})

test('host-restore: a small restore passes a large one that fills its share of the window', (t) => {
  const run = new Run(real)
  bigRestore(1, 10, run)
  t.is(run.readers.inFlight.length, 2, 'the last place is kept')
  run.run({ act: 'restore', sources: [{ generation: 1, granule: 0, resident: false }], cut: 0, fence: 0 })
  const small = run.readers.inFlight.findIndex((read) => read.job === 2)
  t.true(small >= 0)
  run.run({ act: 'read', pick: small, outcome: 'verified' })
  run.run({ act: 'part', pick: 0, failed: 'none', refused: 0 })
  t.deepEqual(run.ended, [2])
})

test('host-restore: large restores take turns, so that they progress together', (t) => {
  const run = new Run(real)
  bigRestore(1, 8, run)
  bigRestore(2, 8, run)
  const reads: number[] = []
  for (let round = 0; round < 16; round++) {
    const job = run.readers.inFlight[0]?.job ?? -1
    reads.push(job)
    run.run({ act: 'read', pick: 0, outcome: 'verified' })
    run.run({ act: 'part', pick: 0, failed: 'none', refused: 0 })
  }
  t.deepEqual([...run.ended].sort(), [1, 2])
  t.true(reads.indexOf(2) < 4 && reads.lastIndexOf(1) > 6, String(reads))
})

test('host-restore: a copy starts when its read has landed, while others are read', (t) => {
  const run = new Run(real)
  bigRestore(1, 4, run)
  run.run({ act: 'read', pick: 0, outcome: 'verified' })
  t.is(run.stream.inFlight.length, 1)
  t.true(run.readers.inFlight.length > 0)
})

test('host-restore: layers of one page share one read and land where each belongs', (t) => {
  const run = new Run(real)
  const sources = Array.from({ length: 3 }, () => ({ generation: 1, granule: 1, resident: false }))
  run.run({ act: 'restore', sources, cut: 0, fence: 0 })
  t.is(run.readers.inFlight.length, 1)
  t.is(run.tally.at(COUNT.readsShared), 2)
  run.run({ act: 'read', pick: 0, outcome: 'verified' })
  t.is(run.stream.inFlight[0]?.count, 3)
  run.run({ act: 'part', pick: 0, failed: 'none', refused: 0 })
  t.deepEqual(run.ended, [1])
})

test('host-restore: granules that land in one turn travel in one part', (t) => {
  const run = new Run(real)
  const sources = Array.from({ length: 4 }, (_, generation) => ({ generation, granule: 0, resident: false }))
  run.run({ act: 'restore', sources, cut: 0, fence: 0 })
  const out: HostRestoreEffect[] = []
  for (const { batch, tag } of run.readers.inFlight)
    run.machine.step({ kind: 'read-done', batch, index: tag, status: 0 }, out)
  t.is(out.length, 0)
  run.machine.settle(out)
  t.deepEqual(
    out.map((effect) => (effect.kind === 'copy' ? effect.count : effect.kind)),
    [Math.min(4, OPTIONS.partDescriptors), ...(OPTIONS.partDescriptors < 4 ? [4 - OPTIONS.partDescriptors] : [])],
  )
})

test('host-restore: sources in DRAM are copied with no read', (t) => {
  const run = new Run(real)
  run.run({ act: 'restore', sources: [{ generation: 1, granule: 1, resident: true }], cut: 0, fence: 0 })
  t.is(run.readers.inFlight.length, 0)
  run.run({ act: 'part', pick: 0, failed: 'none', refused: 0 })
  t.deepEqual(run.ended, [1])
})

test('host-restore: with no SSD it needs no window; with one it must have room', (t) => {
  const dramOnly = { ...OPTIONS, stores: 0, windowBytes: 0 }
  t.true(new HostRestoreMachine(dramOnly, new PlainTally(), new Uint32Array(RESULTS)).idle)
  const stored = { ...dramOnly, stores: 1 }
  t.throws(() => new HostRestoreMachine(stored, new PlainTally(), new Uint32Array(RESULTS)), {
    message: /holds a granule/,
  })
})

test('host-restore: a failed read asks the readers to drop what waits and holds the slot until the rest has ended', (t) => {
  const run = new Run(real)
  const sources = Array.from({ length: 4 }, (_, granule) => ({ generation: granule, granule: 0, resident: false }))
  run.run({ act: 'restore', sources, cut: 0, fence: 0 })
  run.run({ act: 'read', pick: 1, outcome: 'damaged' })
  t.true(run.readers.inFlight.every((read) => read.mayDrop))
  t.deepEqual(run.ended, [])
  run.drain()
  t.deepEqual(run.ended, [1])
})
