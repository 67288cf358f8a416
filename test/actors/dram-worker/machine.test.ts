import test from 'ava'
import fc from 'fast-check'
import { DRAM_WORKER_COUNT as COUNT } from '../../../src/actors/dram-worker/counters.js'
import {
  type DramWorkerEffect,
  type DramWorkerInput,
  DramWorkerMachine,
} from '../../../src/actors/dram-worker/machine.js'
import { resultsOf } from '../../../src/actors/dram-worker/parts.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { CHECKSUM, COPY } from '../../../src/shared/layout/descriptors.js'
import { type List, listOf } from '../../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../../src/shared/layout/slot-states.js'
import { demand } from '../../support/demand.js'
import { FakeDevice } from '../../support/fake-device.js'
import { PlainTally } from '../../support/plain-tally.js'

const OPTIONS = { parts: 4, partDescriptors: 3, codedDescriptors: 5 }
const RESULTS = resultsOf(OPTIONS)
const BYTES = 4096

interface Machine {
  step(input: DramWorkerInput, out: DramWorkerEffect[]): void
  readonly idle: boolean
  readonly stopped: boolean
}

type Command =
  /** Descriptor i is coded when bit i % 8 of `coded` is set. */
  | { act: 'job'; job: 'save' | 'restore'; records: number[]; fence: number; coded: number }
  | { act: 'checksum'; count: number }
  /** `refused`: bits as above of the descriptors that a codec refuses. */
  | { act: 'complete'; pick: number; failed: Failure; refused: number }
  | { act: 'stray'; pick: number }
  | { act: 'fence'; pick: number }
  | { act: 'cancel'; pick: number }
  | { act: 'tick'; us: number }
  | { act: 'release' }

type Failure = 'none' | 'device' | 'memory'
const ERRNO = { none: 0, device: -5, memory: -12 } as const

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    act: fc.constant('job' as const),
    job: fc.constantFrom('save' as const, 'restore' as const),
    records: fc.array(fc.nat({ max: 7 }), { minLength: 1, maxLength: 3 }),
    fence: fc.constantFrom(0, 0, 1, 5),
    coded: fc.oneof(fc.constantFrom(0, 255), fc.nat({ max: 255 })),
  }),
  fc.record({ act: fc.constant('checksum' as const), count: fc.integer({ min: 1, max: 8 }) }),
  fc.record({
    act: fc.constant('complete' as const),
    pick: fc.nat({ max: 99 }),
    failed: fc.constantFrom<Failure>('none', 'none', 'none', 'none', 'device', 'memory'),
    refused: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 255 }) }),
  }),
  fc.record({
    act: fc.constant('complete' as const),
    pick: fc.nat({ max: 99 }),
    failed: fc.constant('none' as const),
    refused: fc.constant(0),
  }),
  fc.record({ act: fc.constant('stray' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('fence' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('cancel' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('tick' as const), us: fc.nat({ max: 5000 }) }),
  fc.record({ act: fc.constant('release' as const) }),
)

type Part = Extract<DramWorkerEffect, { readonly doubles: Float64Array }>

interface Known {
  readonly id: number
  readonly kind: 'save' | 'restore' | 'checksum'
  readonly count: number
  readonly fence: number
  fenceValue: number
  /** What the machine was told of it. */
  fenceSeen: number
  /** Descriptor -> how often it was queued. */
  readonly queued: Set<number>
  readonly coded: number
  /** What a save is to say: two a descriptor. */
  readonly said: Float64Array
  readonly damaged: number[]
  inFlight: number
  status: number
  finished: number
}

/** Drives a machine with a stream that completes in any order, and throws at the first broken invariant. */
class Run {
  readonly stream = new FakeDevice<Part>()
  readonly results = new Uint32Array(RESULTS)
  readonly tally = new PlainTally()
  readonly open = new Map<number, Known>()
  readonly machine: Machine
  readonly ended: number[] = []
  nextJob = 0
  nowUs = 0
  strays = 0
  stopRequested = false
  stoppedReplies = 0
  /** The workspace is asked for; given back and not yet answered. */
  release: 'no' | 'asked' | 'done' = 'no'

  constructor(make: (results: Uint32Array, tally: PlainTally) => Machine) {
    this.machine = make(this.results, this.tally)
  }

  /** One input, then the effects as effects.ts carries them out: a polled fence is answered at once. */
  feed(input: DramWorkerInput): void {
    const out: DramWorkerEffect[] = []
    this.machine.step(input, out)
    for (const effect of out) this.#check(effect)
    demand(this.stream.inFlight.length <= OPTIONS.parts, 'never more parts than places')
    demand(this.tally.at(COUNT.completionsStray) === this.strays, 'strays are counted')
    for (const effect of out) {
      if (effect.kind !== 'poll-fence') continue
      const known = this.open.get(effect.job)
      if (known === undefined) continue
      known.fenceSeen = known.fenceValue
      this.feed({ kind: 'fence-read', job: effect.job, value: known.fenceValue })
    }
  }

  #check(effect: DramWorkerEffect): void {
    demand(this.stoppedReplies === 0, 'nothing follows stopped')
    switch (effect.kind) {
      case 'copy':
      case 'checksum':
      case 'encode':
      case 'decode':
        return this.#queued(effect)
      case 'poll-fence': {
        const known = this.open.get(effect.job)
        demand(known !== undefined && known.fence > 0 && effect.slot === known.id, 'a fence is polled for a job')
        return
      }
      case 'finish-slot': {
        const known = this.open.get(effect.slot)
        demand(known !== undefined && known.kind === 'restore', 'only an open restore finishes its slot')
        demand(known.inFlight === 0, 'a slot is finished when nothing of the job is on the stream')
        demand(effect.slotGeneration === known.id * 3 && effect.admitUs === 1, 'the slot is the one that was asked')
        known.finished += 1
        demand(known.finished === 1, 'a slot is finished once')
        const { done, cancelled, failed } = SLOT_STATE
        const stateOf = new Map([
          [0, done],
          [ERROR_CODES.cancelled, cancelled],
        ] as [number, number][])
        demand(effect.state === (stateOf.get(effect.errorCode) ?? failed), 'the state tells the status')
        demand(effect.bytes === (effect.errorCode === 0 ? BYTES : 0), 'bytes are those restored')
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

  #queued(part: Part): void {
    demand(!this.stopRequested, 'nothing is queued after stop')
    demand(this.#answeredRelease, 'nothing is queued while a workspace is asked for')
    const sum = part.kind === 'checksum'
    const coded = part.kind === 'encode' || part.kind === 'decode'
    const doubles = sum ? CHECKSUM.doubles : COPY.doubles
    const indexField = sum ? CHECKSUM.poolOffsetBytes : COPY.granule
    const max = coded ? OPTIONS.codedDescriptors : OPTIONS.partDescriptors
    demand(part.count >= 1 && part.count <= max, 'a part is bounded and not empty')
    const known = this.open.get(idOf(part))
    demand(known !== undefined && known.status === 0, 'only a healthy job queues')
    demand(known.fence <= known.fenceSeen, 'no part before the fence')
    const kinds = { save: ['copy', 'encode'], restore: ['copy', 'decode'], checksum: ['checksum'] }[known.kind]
    demand(kinds.includes(part.kind), 'the direction is right')
    demand(part.kind !== 'copy' || part.direction === (known.kind === 'restore' ? 0 : 1), 'the direction is right')
    for (let each = 0; each < part.count; each++) {
      const at = part.offset + each * doubles
      demand(part.doubles[at + (sum ? CHECKSUM.segmentBytes : COPY.template)] === known.id, 'a part is of one job')
      const index = part.doubles[at + indexField] as number
      demand(index === known.queued.size && index < known.count, 'each descriptor once, in order')
      demand(sum || coded === codedAt(known.coded, index), 'coded descriptors are coded, others copied')
      known.queued.add(index)
    }
    if (part.kind !== 'copy') this.#checkRoom(part)
    known.inFlight += 1
    this.stream.submit(part)
  }

  /** The results of a part lie inside, and beside those of every other part on the stream. */
  #checkRoom(part: Exclude<Part, { readonly kind: 'copy' }>): void {
    const endOf = ({ resultBase, count, kind }: typeof part) => resultBase + (kind === 'encode' ? 2 : 1) * count
    demand(part.resultBase >= 0 && endOf(part) <= RESULTS, 'results have their room')
    for (const other of this.stream.inFlight) {
      if (other.kind === 'copy') continue
      demand(other.resultBase >= endOf(part) || part.resultBase >= endOf(other), 'results never overlap')
    }
  }

  #answered(reply: (DramWorkerEffect & { kind: 'reply' })['reply']): void {
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
    demand(known !== undefined && reply.kind === `${known.kind}-done`, 'a job is answered once, as what it is')
    demand(known.inFlight === 0, 'no answer while a part of the job is on the stream')
    demand(reply.status === known.status, 'the answer says what happened')
    demand(reply.status !== 0 || known.queued.size === known.count, 'done means every descriptor')
    const ours = known.kind === 'restore' && known.damaged.length === 0
    demand(known.finished === (ours ? 1 : 0), 'the slot is finished before the answer, unless that names damage')
    if (reply.kind === 'restore-done') {
      demand(String(numbersOf(reply.list)) === String(known.damaged), 'the answer names what is damaged')
    }
    if (reply.kind === 'save-done') {
      const anyCoded = [...known.queued].some((index) => codedAt(known.coded, index))
      const said = reply.status === 0 && anyCoded ? [...known.said] : []
      demand(String(numbersOf(reply.list)) === String(said), 'a save says what was stored of each descriptor')
    }
    if (reply.kind === 'checksum-done') {
      const { doubles, offset, length } = reply.list
      demand(length === (reply.status === 0 ? known.count : 0), 'one checksum a descriptor')
      for (let index = 0; index < length; index++) {
        demand(doubles[offset + index] === checksumOf(known.id, index), 'the checksum is that of its granule')
      }
    }
    this.open.delete(reply.job)
    this.ended.push(reply.job)
  }

  run(command: Command): void {
    switch (command.act) {
      case 'job': {
        const count = command.records.reduce((sum, each) => sum + each, 0)
        const id = this.#open(command.job, count, command.fence, command.coded)
        let first = 0
        for (const [record, copies] of command.records.entries()) {
          const numbers = Array.from({ length: copies }, (_, at) => {
            const index = first + at
            return [id, index, 0, 0, 0, 1, codedAt(command.coded, index) ? storedOf(index) : 0]
          }).flat()
          first += copies
          const list = listOf(numbers)
          const more = record + 1 < command.records.length ? 1 : 0
          const finish = { slots: 9, slot: id, slotGeneration: id * 3, fence: command.fence }
          const common = { job: id, more, list, ...finish } as const
          this.feed({
            kind: 'request',
            request:
              command.job === 'save'
                ? { kind: 'save', ...common }
                : { kind: 'restore', bytes: BYTES, admitUs: 1, ...common },
          })
          list.doubles.fill(-9) // the list ends with its record
        }
        return
      }
      case 'checksum': {
        const id = this.#open('checksum', command.count, 0)
        const list = listOf(Array.from({ length: command.count }, (_, at) => [at, 1, id, 1]).flat())
        this.feed({ kind: 'request', request: { kind: 'checksum', job: id, list } })
        list.doubles.fill(-9)
        return
      }
      case 'complete':
        return this.#complete(command)
      case 'stray':
        this.strays += 1
        return this.feed({ kind: 'stream-completed', tag: this.stream.strayTag(command.pick), result: 0 })
      case 'fence': {
        const known = [...this.open.values()][command.pick % Math.max(1, this.open.size)]
        if (known !== undefined) known.fenceValue = Math.max(known.fenceValue, command.pick)
        return
      }
      case 'cancel': {
        const known = [...this.open.values()][command.pick % (this.open.size + 1)]
        if (known !== undefined && known.status === 0) known.status = ERROR_CODES.cancelled
        const job = known?.id ?? this.ended[0] ?? 12345
        this.feed({ kind: 'request', request: { kind: 'cancel', job } })
        demand(
          known === undefined || known.inFlight > 0 || !this.open.has(job),
          'a cancelled job waits for its parts only',
        )
        return
      }
      case 'release':
        return this.#askForWorkspace()
      case 'tick':
        this.nowUs += command.us
        return this.feed({ kind: 'tick', nowUs: this.nowUs })
    }
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

  #open(kind: Known['kind'], count: number, fence: number, coded = 0): number {
    const id = this.nextJob++
    const known = {
      id,
      kind,
      count,
      fence,
      fenceValue: 0,
      fenceSeen: 0,
      queued: new Set<number>(),
      coded,
      said: new Float64Array(2 * count),
      damaged: [],
      inFlight: 0,
      status: 0,
      finished: 0,
    }
    this.open.set(id, known)
    return id
  }

  #complete({ pick, failed, refused }: { pick: number; failed: Failure; refused: number }): void {
    const part = this.stream.finish(pick)
    if (part === null) return
    const known = this.open.get(idOf(part))
    demand(known !== undefined, 'a job lives while a part of it is on the stream')
    known.inFlight -= 1
    const coded = part.kind === 'encode' || part.kind === 'decode'
    let status: number = ERROR_CODES.ok
    if (failed !== 'none') {
      status = failed === 'memory' && coded ? ERROR_CODES.capacity_codec : ERROR_CODES.io_copy_failed
      if (part.kind !== 'copy') this.results.fill(7, part.resultBase, part.resultBase + part.count)
    } else if (this.#carryOut(part, known, refused)) status = ERROR_CODES.codec_damaged
    if (known.status === 0) known.status = status
    this.feed({ kind: 'stream-completed', tag: part.tag, result: ERRNO[failed] })
    this.results.fill(0) // results are kept, not looked up later
  }

  /** Writes what the stream says of a part; true when it refused to decode anything. */
  #carryOut(part: Part, known: Known, refused: number): boolean {
    if (part.kind === 'copy') return false
    const { kind, resultBase, count } = part
    const [doubles, field] =
      kind === 'checksum' ? [CHECKSUM.doubles, CHECKSUM.poolOffsetBytes] : [COPY.doubles, COPY.granule]
    const before = known.damaged.length
    for (let each = 0; each < count; each++) {
      const index = part.doubles[part.offset + each * doubles + field] as number
      const no = codedAt(refused, index)
      const at = resultBase + (kind === 'encode' ? 2 : 1) * each
      if (kind === 'checksum') this.results[at] = checksumOf(known.id, index)
      else if (kind === 'decode') {
        this.results[at] = no ? 1 : 0
        if (no) known.damaged.push(index)
      } else {
        const said = no ? [0, 0] : [storedOf(index) - 12, checksumOf(known.id, index)]
        this.results.set(said, at)
        known.said.set(said, 2 * index)
      }
    }
    return known.damaged.length > before
  }

  stop(): void {
    this.stopRequested = true
    for (const known of this.open.values()) {
      const whole = known.queued.size === known.count && known.fence <= known.fenceSeen
      if (known.status === 0 && !whole) known.status = ERROR_CODES.draining
    }
    this.feed({ kind: 'request', request: { kind: 'stop' } })
  }

  drain(): void {
    for (const known of this.open.values()) known.fenceValue = 100
    for (let round = 0; round < 200 && this.open.size > 0; round++) {
      this.run({ act: 'tick', us: 2000 })
      this.run({ act: 'complete', pick: round, failed: 'none', refused: 0 })
    }
    demand(this.open.size === 0 && this.machine.idle, 'everything drains')
    for (const gauge of [COUNT.jobsActive, COUNT.jobsFenced, COUNT.partsInFlight]) {
      demand(this.tally.at(gauge) === 0, 'gauges rest at zero')
    }
    demand(this.machine.stopped === this.stopRequested, 'stops when asked')
    demand(this.stoppedReplies === (this.stopRequested ? 1 : 0), 'stopped is answered once')
    demand(this.release === 'no', 'who asked for the workspace is answered')
  }
}

function idOf(part: Part): number {
  const field = part.kind === 'checksum' ? CHECKSUM.segmentBytes : COPY.template
  return part.doubles[part.offset + field] as number
}

function codedAt(bits: number, index: number): boolean {
  return ((bits >> (index % 8)) & 1) === 1
}

/** Room of a coded descriptor. */
function storedOf(index: number): number {
  return 512 * (1 + (index % 3))
}

function numbersOf({ doubles, offset, length }: List): number[] {
  return [...doubles.subarray(offset, offset + length)]
}

function checksumOf(job: number, index: number): number {
  return 4_000_000_000 + job * 1000 + index
}

const real = (results: Uint32Array, tally: PlainTally): Machine => new DramWorkerMachine(OPTIONS, results, tally)

function property(make: (results: Uint32Array, tally: PlainTally) => Machine) {
  return fc.property(fc.array(command, { maxLength: 60 }), fc.boolean(), (steps, stop) => {
    const run = new Run(make)
    for (const step of steps) run.run(step)
    if (stop) run.stop()
    run.drain()
  })
}

/** Wraps the machine, so that a twin changes one thing only. */
class Twin implements Machine {
  readonly inner: DramWorkerMachine
  constructor(results: Uint32Array, tally: PlainTally) {
    this.inner = new DramWorkerMachine(OPTIONS, results, tally)
  }
  get idle() {
    return this.inner.idle
  }
  get stopped() {
    return this.inner.stopped
  }
  step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
    this.inner.step(input, out)
  }
}

function restore(job: number, copies: number, fence: number): DramWorkerInput {
  const list = listOf(Array.from({ length: copies }, (_, at) => [job, at, 0, 0, 0, 1, 0]).flat())
  const finish = { slots: 9, slot: job, slotGeneration: 1, fence }
  return { kind: 'request', request: { kind: 'restore', job, more: 0, bytes: BYTES, admitUs: 0, list, ...finish } }
}

test('dram-worker: finishes each job once, after its last part, and drains', (t) => {
  fc.assert(property(real), { numRuns: 600 })
  t.pass()
})

test('dram-worker: the property catches a twin that gives a workspace back under its parts', (t) => {
  class Early extends Twin {
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      super.step(input, out)
      if (input.kind !== 'request' || input.request.kind !== 'release-workspace' || out.length > 0) return
      out.push({ kind: 'release-workspace' })
    }
  }
  const found = fc.check(
    property((results, tally) => new Early(results, tally)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /nothing is on the stream/)
})

test('dram-worker: a job that comes while the workspace is asked for is carried out after it was given back', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  const kinds = () => out.splice(0).map((effect) => (effect.kind === 'reply' ? effect.reply.kind : effect.kind))
  machine.step(restore(1, 1, 0), out)
  const [first] = out
  t.deepEqual(kinds(), ['copy'])
  machine.step({ kind: 'request', request: { kind: 'release-workspace' } }, out)
  machine.step(restore(2, 1, 0), out)
  t.deepEqual(kinds(), [])
  machine.step({ kind: 'stream-completed', tag: first?.kind === 'copy' ? first.tag : -1, result: 0 }, out)
  t.deepEqual(kinds(), ['finish-slot', 'restore-done', 'release-workspace', 'workspace-released', 'copy'])
})

test('dram-worker: the property catches a twin that finishes a cancelled slot while its parts run', (t) => {
  class Hasty extends Twin {
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      super.step(input, out)
      if (input.kind !== 'request' || input.request.kind !== 'cancel' || out.length > 0) return
      const { job } = input.request
      out.push({
        kind: 'finish-slot',
        slots: 9,
        slot: job,
        slotGeneration: job * 3,
        state: SLOT_STATE.cancelled,
        errorCode: ERROR_CODES.cancelled,
        firstFailed: 0,
        bytes: 0,
        admitUs: 1,
      })
    }
  }
  const found = fc.check(
    property((results, tally) => new Hasty(results, tally)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /finishe[sd]/)
})

test('dram-worker: the property catches a twin that does not wait for fences', (t) => {
  class Eager extends Twin {
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      const fenced = input.kind === 'request' && 'fence' in input.request
      super.step(fenced ? ({ ...input, request: { ...input.request, fence: 0 } } as DramWorkerInput) : input, out)
    }
  }
  const found = fc.check(
    property((results, tally) => new Eager(results, tally)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /no part before the fence/)
})

test('dram-worker: the property catches a twin that takes a refused decoding for done', (t) => {
  class Trusting extends Twin {
    readonly #results: Uint32Array
    constructor(results: Uint32Array, tally: PlainTally) {
      super(results, tally)
      this.#results = results
    }
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      if (input.kind === 'stream-completed') {
        for (let at = 0; at < RESULTS; at++) if (this.#results[at] === 1) this.#results[at] = 0
      }
      super.step(input, out)
    }
  }
  const found = fc.check(
    property((results, tally) => new Trusting(results, tally)),
    { numRuns: 2400, seed: 20261130 },
  )
  t.regex(String(found.errorInstance), /only a healthy job queues|the answer says what happened|named? .*damage/)
})

test('dram-worker: the property catches a twin that finishes the slot of a restore whose damage nobody has hidden', (t) => {
  class Early extends Twin {
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      const first = out.length
      super.step(input, out)
      for (let at = first; at < out.length; at++) {
        const effect = out[at]
        if (effect?.kind !== 'reply' || effect.reply.kind !== 'restore-done' || effect.reply.list.length === 0) continue
        const { job, status } = effect.reply
        const state = status === ERROR_CODES.cancelled ? SLOT_STATE.cancelled : SLOT_STATE.failed
        const slot = { slots: 9, slot: job, slotGeneration: job * 3 }
        const rest = { state, errorCode: status, firstFailed: 0, bytes: 0, admitUs: 1 }
        out.splice(at, 0, { kind: 'finish-slot', ...slot, ...rest })
        return
      }
    }
  }
  const found = fc.check(
    property((results, tally) => new Early(results, tally)),
    { numRuns: 2400, seed: 20261130 },
  )
  t.regex(String(found.errorInstance), /unless that names damage/)
})

test('dram-worker: the property catches a twin that reads what was stored a place too far', (t) => {
  class Shifted extends Twin {
    readonly #results: Uint32Array
    constructor(results: Uint32Array, tally: PlainTally) {
      super(results, tally)
      this.#results = results
    }
    override step(input: DramWorkerInput, out: DramWorkerEffect[]): void {
      if (input.kind === 'stream-completed') this.#results.copyWithin(0, 2)
      super.step(input, out)
    }
  }
  const found = fc.check(
    property((results, tally) => new Shifted(results, tally)),
    { numRuns: 2400, seed: 20261130 },
  )
  t.true(found.failed)
  t.regex(String(found.errorInstance), /what was stored|damage|checksum|says what happened/)
})

test('dram-worker: a fenced job holds up no other, and goes when its fence is reached', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(restore(1, 2, 5), out)
  t.deepEqual(out.splice(0), [{ kind: 'poll-fence', job: 1, slots: 9, slot: 1 }])
  machine.step({ kind: 'fence-read', job: 1, value: 4 }, out)
  machine.step(restore(2, 1, 0), out)
  t.like(out.splice(0), [{ kind: 'copy', count: 1 }])
  machine.step({ kind: 'tick', nowUs: machine.nextTickUs }, out)
  t.deepEqual(out.splice(0), [{ kind: 'poll-fence', job: 1, slots: 9, slot: 1 }])
  machine.step({ kind: 'fence-read', job: 1, value: 5 }, out)
  t.like(out, [{ kind: 'copy', count: 2 }])
})

test('dram-worker: cancel ends a job whose fence never comes', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(restore(1, 2, 5), out)
  out.length = 0
  machine.step({ kind: 'request', request: { kind: 'cancel', job: 1 } }, out)
  t.like(out, [
    { kind: 'finish-slot', slot: 1, state: SLOT_STATE.cancelled, errorCode: ERROR_CODES.cancelled, bytes: 0 },
    { kind: 'reply', reply: { kind: 'restore-done', status: ERROR_CODES.cancelled } },
  ])
  t.true(machine.idle)
})

test('dram-worker: a small job takes its turn beside a large one', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(restore(1, 300, 0), out)
  machine.step(restore(2, 3, 0), out)
  const parts = out.splice(0).map((effect) => (effect.kind === 'copy' ? effect.tag : -1))
  t.is(parts.length, OPTIONS.parts)
  machine.step({ kind: 'stream-completed', tag: parts[0] as number, result: 0 }, out)
  machine.step({ kind: 'stream-completed', tag: parts[1] as number, result: 0 }, out)
  t.true(out.some((effect) => effect.kind === 'copy' && effect.doubles[effect.offset + COPY.template] === 2))
})

function save(job: number, copies: number): DramWorkerInput {
  const list = listOf(Array.from({ length: copies }, (_, at) => [job, at, 0, 0, 0, 1, 0]).flat())
  const finish = { slots: 9, slot: job, slotGeneration: 1, fence: 0 }
  return { kind: 'request', request: { kind: 'save', job, more: 0, list, ...finish } }
}

test('dram-worker: saves leave half of the places, and a restore goes before the saves that wait', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(save(1, 300), out)
  t.is(out.splice(0).length, OPTIONS.parts / 2)
  machine.step(restore(2, 30, 0), out)
  t.deepEqual(out.splice(0).map(jobOf), [2, 2])
})

test('dram-worker: a save has its turn among any number of restores', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(restore(1, 3000, 0), out)
  machine.step(restore(2, 3000, 0), out)
  machine.step(save(3, 3000), out)
  const order: number[] = []
  const stream: DramWorkerEffect[] = out.splice(0)
  while (order.length < 40) {
    const part = stream.shift()
    order.push(jobOf(part))
    machine.step({ kind: 'stream-completed', tag: part?.kind === 'copy' ? part.tag : -1, result: 0 }, out)
    stream.push(...out.splice(0))
  }
  t.is(order.filter((job) => job === 3).length, 8, String(order))
  for (let at = 4; at + 5 <= order.length; at++) t.true(order.slice(at, at + 5).includes(3), String(order))
})

/** The job of a copy part: the tests put it into the template field. */
function jobOf(effect: DramWorkerEffect | undefined): number {
  return effect?.kind === 'copy' ? (effect.doubles[effect.offset + COPY.template] as number) : -1
}

test('dram-worker: without waiting jobs no tick is asked for', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  t.is(machine.nextTickUs, Number.POSITIVE_INFINITY)
  machine.step(restore(1, 1, 5), [])
  t.true(Number.isFinite(machine.nextTickUs))
  machine.step({ kind: 'fence-read', job: 1, value: 9 }, [])
  machine.step({ kind: 'tick', nowUs: 1e6 }, [])
  t.is(machine.nextTickUs, Number.POSITIVE_INFINITY)
})
