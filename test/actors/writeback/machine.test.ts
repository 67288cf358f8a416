import test from 'ava'
import fc from 'fast-check'
import { WRITEBACK_COUNT as COUNT } from '../../../src/actors/writeback/counters.js'
import {
  type WritebackEffect,
  type WritebackInput,
  WritebackMachine,
  type WritebackOptions,
} from '../../../src/actors/writeback/machine.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { demand } from '../../support/demand.js'
import { FakeDevice } from '../../support/fake-device.js'
import { PlainTally } from '../../support/plain-tally.js'

interface Machine {
  step(input: WritebackInput, out: WritebackEffect[]): void
  readonly idle: boolean
  readonly stopped: boolean
}

type Outcome = 'full' | 'short' | 'nothing' | 'eio' | 'full-disk'
type Command =
  | { act: 'write'; sizes: number[] }
  | { act: 'window'; bytes: number }
  | { act: 'complete'; pick: number; outcome: Outcome }
  | { act: 'stray'; pick: number }

const FULL = { act: fc.constant('complete' as const), pick: fc.nat({ max: 99 }), outcome: fc.constant('full' as const) }
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    act: fc.constant('write' as const),
    sizes: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 6 }),
  }),
  fc.record({ act: fc.constant('window' as const), bytes: fc.nat({ max: 16 }) }),
  fc.record(FULL),
  fc.record(FULL),
  fc.record({
    act: fc.constant('complete' as const),
    pick: fc.nat({ max: 99 }),
    outcome: fc.constantFrom<Outcome[]>('short', 'nothing', 'eio', 'full-disk'),
  }),
  fc.record({ act: fc.constant('stray' as const), pick: fc.nat({ max: 99 }) }),
)
const OPTIONS: WritebackOptions = { depth: 4, windowBytes: 12 }

type Submitted = WritebackEffect & { kind: 'submit-write' }

interface Known {
  readonly job: number
  readonly sizes: number[]
  submitted: number
  inFlight: number
  written: number
  failure: number
}

/** Drives a machine with a disk that completes in any order, and throws at the first broken invariant. */
class Run {
  readonly disk = new FakeDevice<Submitted>()
  readonly tally = new PlainTally()
  readonly open = new Map<number, Known>()
  readonly machine: Machine
  windowBytes = OPTIONS.windowBytes
  nextJob = 0
  strays = 0
  stopRequested = false
  stoppedReplies = 0
  /** Jobs in the order of their requests, for those that still have something to submit. */
  #lastStarted = -1

  constructor(make: (tally: PlainTally) => Machine) {
    this.machine = make(this.tally)
  }

  get bytesInFlight(): number {
    return this.disk.inFlight.reduce((sum, write) => sum + write.bytes, 0)
  }

  feed(input: WritebackInput): void {
    const out: WritebackEffect[] = []
    this.machine.step(input, out)
    for (const effect of out) this.#check(effect)
    demand(this.tally.at(COUNT.bytesInFlight) === this.bytesInFlight, 'the gauge is the bytes in flight')
    demand(this.tally.at(COUNT.completionsStray) === this.strays, 'strays are counted')
    this.#demandProgress()
  }

  #check(effect: WritebackEffect): void {
    demand(this.stoppedReplies === 0, 'nothing follows stopped')
    if (effect.kind === 'submit-write') return this.#submitted(effect)
    if (effect.reply.kind === 'stopped') {
      demand(this.stopRequested && this.open.size === 0, 'stopped comes after every reply')
      this.stoppedReplies += 1
      return
    }
    const { job, status, bytes } = effect.reply
    const known = this.open.get(job)
    demand(known !== undefined, 'a job is answered once')
    demand(known.inFlight === 0, 'no answer while a write of the job is in flight')
    const whole = known.submitted === known.sizes.length
    const expected = known.failure !== 0 ? known.failure : whole ? ERROR_CODES.ok : ERROR_CODES.draining
    demand(status === expected && bytes === known.written, 'the answer says what happened')
    demand(status === ERROR_CODES.ok || known.failure !== 0 || this.stopRequested, 'only a failure or stop cuts a job')
    this.open.delete(job)
  }

  #submitted(write: Submitted): void {
    const known = this.open.get(write.file)
    demand(known !== undefined && known.failure === 0, 'only a healthy job submits')
    demand(!this.stopRequested, 'nothing is submitted after stop')
    const before = known.sizes.slice(0, known.submitted).reduce((sum, size) => sum + size, 0)
    demand(write.fileOffsetBytes === known.job * 1000 + before, 'writes lie one after the other')
    demand(write.bytes === known.sizes[known.submitted] && write.poolOffsetBytes === known.submitted * 100, 'as asked')
    demand(known.job >= this.#lastStarted, 'jobs start in order')
    this.#lastStarted = known.job
    this.disk.submit(write)
    demand(this.bytesInFlight <= this.windowBytes || this.disk.inFlight.length === 1, 'the window holds')
    demand(this.disk.inFlight.length <= OPTIONS.depth, 'the depth holds')
    known.submitted += 1
    known.inFlight += 1
  }

  /** Nothing waits without a reason. */
  #demandProgress(): void {
    if (this.stopRequested) return
    const head = [...this.open.values()].find((known) => known.failure === 0 && known.submitted < known.sizes.length)
    if (head === undefined) return
    const next = head.sizes[head.submitted] as number
    const fits = this.bytesInFlight === 0 || this.bytesInFlight + next <= this.windowBytes
    demand(!fits || this.disk.inFlight.length === OPTIONS.depth, 'the head of the line starts when it fits')
  }

  run(command: Command): void {
    switch (command.act) {
      case 'write': {
        const job = this.nextJob++
        this.open.set(job, { job, sizes: command.sizes, submitted: 0, inFlight: 0, written: 0, failure: 0 })
        const list = listOf(command.sizes.flatMap((size, index) => [index * 100, size]))
        this.feed({ kind: 'request', request: { kind: 'write', job, file: job, fileOffsetBytes: job * 1000, list } })
        list.doubles.fill(-9) // the list ends with its record
        return
      }
      case 'window':
        this.windowBytes = command.bytes
        return this.feed({ kind: 'request', request: { kind: 'set-window', bytes: command.bytes } })
      case 'complete': {
        const write = this.disk.finish(command.pick)
        if (write === null) return
        const [result, failure] = {
          full: [write.bytes, 0],
          short: [write.bytes - 1, ERROR_CODES.io_short],
          nothing: [0, ERROR_CODES.io_short],
          eio: [-5, ERROR_CODES.io_write_failed],
          'full-disk': [-28, ERROR_CODES.io_disk_full],
        }[command.outcome] as [number, number]
        const known = this.open.get(write.file)
        demand(known !== undefined, 'a job lives while a write of it is in flight')
        known.inFlight -= 1
        if (failure === 0) known.written += write.bytes
        else if (known.failure === 0) known.failure = failure
        return this.feed({ kind: 'io-completed', tag: write.tag, result })
      }
      case 'stray':
        this.strays += 1
        return this.feed({ kind: 'io-completed', tag: this.disk.strayTag(command.pick), result: 1 })
    }
  }

  stop(): void {
    this.stopRequested = true
    this.feed({ kind: 'request', request: { kind: 'stop' } })
  }

  drain(): void {
    while (this.disk.inFlight.length > 0) this.run({ act: 'complete', pick: 1, outcome: 'full' })
    demand(this.open.size === 0 && this.machine.idle, 'everything drains')
    for (const gauge of [COUNT.jobsInFlight, COUNT.jobsQueued, COUNT.bytesInFlight]) {
      demand(this.tally.at(gauge) === 0, 'gauges rest at zero')
    }
    demand(this.machine.stopped === this.stopRequested, 'stops when asked')
    demand(this.stoppedReplies === (this.stopRequested ? 1 : 0), 'stopped is answered once')
  }
}

const real = (tally: PlainTally): Machine => new WritebackMachine(OPTIONS, tally)

function property(make: (tally: PlainTally) => Machine) {
  return fc.property(fc.array(command, { maxLength: 60 }), fc.boolean(), (steps, stop) => {
    const run = new Run(make)
    for (const step of steps) run.run(step)
    if (stop) run.stop()
    run.drain()
  })
}

/** Wraps the machine, so that a twin changes one thing only. */
class Twin implements Machine {
  readonly inner: WritebackMachine
  constructor(tally: PlainTally, options: WritebackOptions = OPTIONS) {
    this.inner = new WritebackMachine(options, tally)
  }
  get idle() {
    return this.inner.idle
  }
  get stopped() {
    return this.inner.stopped
  }
  step(input: WritebackInput, out: WritebackEffect[]): void {
    this.inner.step(input, out)
  }
}

test('writeback: keeps the window and the order, and answers a job after its last write', (t) => {
  fc.assert(property(real), { numRuns: 600 })
  t.pass()
})

test('writeback: the property catches a twin that takes a short write for a whole one', (t) => {
  class Credulous extends Twin {
    readonly #bytes = new Map<number, number>()
    override step(input: WritebackInput, out: WritebackEffect[]): void {
      const whole = input.kind === 'io-completed' && input.result > 0 ? this.#bytes.get(input.tag) : undefined
      super.step(input.kind === 'io-completed' && whole !== undefined ? { ...input, result: whole } : input, out)
      for (const effect of out) if (effect.kind === 'submit-write') this.#bytes.set(effect.tag, effect.bytes)
    }
  }
  const result = fc.check(
    property((tally) => new Credulous(tally)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(result.errorInstance), /the answer says what happened/)
})

test('writeback: the property catches a twin that answers a failed job at once', (t) => {
  class Hasty extends Twin {
    readonly #job = new Map<number, number>()
    override step(input: WritebackInput, out: WritebackEffect[]): void {
      super.step(input, out)
      for (const effect of out) if (effect.kind === 'submit-write') this.#job.set(effect.tag, effect.file)
      if (input.kind !== 'io-completed' || input.result >= 0) return
      const job = this.#job.get(input.tag)
      if (job === undefined || out.some((effect) => effect.kind === 'reply')) return
      const status = ERROR_CODES.io_write_failed
      out.push({ kind: 'reply', reply: { kind: 'write-done', job, status, bytes: 0, latencyUs: 0 } })
    }
  }
  const result = fc.check(
    property((tally) => new Hasty(tally)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(result.errorInstance), /no answer while a write/)
})

test('writeback: the property catches a twin whose window is too wide', (t) => {
  const wide = (tally: PlainTally) => new Twin(tally, { ...OPTIONS, windowBytes: OPTIONS.windowBytes + 4 })
  t.regex(String(fc.check(property(wide), { numRuns: 600, seed: 20261129 }).errorInstance), /the window holds/)
})

test('writeback: a disk, a file or a quota without room is io_disk_full', (t) => {
  for (const errno of [28, 27, 122]) {
    const machine = new WritebackMachine(OPTIONS, new PlainTally())
    const out: WritebackEffect[] = []
    const list = listOf([0, 4, 4, 4])
    machine.step({ kind: 'request', request: { kind: 'write', job: 7, file: 1, fileOffsetBytes: 0, list } }, out)
    const [first, second] = out.splice(0) as Submitted[]
    machine.step({ kind: 'io-completed', tag: first?.tag ?? -1, result: -errno }, out)
    t.deepEqual(out, [])
    machine.step({ kind: 'io-completed', tag: second?.tag ?? -1, result: 4 }, out)
    const status = ERROR_CODES.io_disk_full
    t.deepEqual(out, [{ kind: 'reply', reply: { kind: 'write-done', job: 7, status, bytes: 4, latencyUs: 0 } }])
  }
})

test('writeback: the latency of a job runs from its request to its last completion', (t) => {
  const machine = new WritebackMachine(OPTIONS, new PlainTally())
  const out: WritebackEffect[] = []
  machine.step({ kind: 'tick', nowUs: 1000 }, out)
  const list = listOf([0, 4])
  machine.step({ kind: 'request', request: { kind: 'write', job: 1, file: 1, fileOffsetBytes: 0, list } }, out)
  machine.step({ kind: 'tick', nowUs: 1250.5 }, out)
  machine.step({ kind: 'io-completed', tag: (out[0] as Submitted).tag, result: 4 }, out)
  const reply = out[1]
  t.is(reply?.kind === 'reply' && reply.reply.kind === 'write-done' ? reply.reply.latencyUs : -1, 250.5)
})
