import fc from 'fast-check'
import { WRITEBACK_COUNT as COUNT } from '../../../src/actors/writeback/counters.js'
import type { WritebackEffect, WritebackInput, WritebackOptions } from '../../../src/actors/writeback/machine.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { WRITE, WRITE_SPANS_MAX } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { demand } from '../../support/demand.js'
import { FakeDevice } from '../../support/fake-device.js'
import { PlainTally } from '../../support/plain-tally.js'

/** WritebackMachine, or a twin of it. */
export interface Machine {
  step(input: WritebackInput, out: WritebackEffect[]): void
  readonly idle: boolean
  readonly stopped: boolean
}

type Outcome = 'full' | 'short' | 'nothing' | 'eio' | 'full-disk'
/** One granule: its bytes, and whether it lies in the pool right behind the one before. */
type Granule = { bytes: number; adjoins: boolean }
export type Command =
  | { act: 'write'; granules: Granule[] }
  | { act: 'window'; bytes: number }
  | { act: 'complete'; pick: number; outcome: Outcome }
  | { act: 'stray'; pick: number }

const FULL = { act: fc.constant('complete' as const), pick: fc.nat({ max: 99 }), outcome: fc.constant('full' as const) }
export const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    act: fc.constant('write' as const),
    granules: fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 6 }), adjoins: fc.boolean() }), {
      minLength: 1,
      maxLength: 6,
    }),
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

export type Submitted = WritebackEffect & { kind: 'submit-write' | 'submit-write-spans' }
/** A span of the pool: offset and bytes. */
type Span = readonly [number, number]

/** The spans of a write, in order. */
export function spansOf(write: Submitted): Span[] {
  if (write.kind === 'submit-write') return [[write.poolOffsetBytes, write.bytes]]
  return Array.from({ length: write.spans }, (_, span) => {
    const at = write.offset + span * WRITE.doubles
    return [write.list[at + WRITE.poolOffsetBytes] as number, write.list[at + WRITE.bytes] as number]
  })
}

/** The naive model of a join: granules that adjoin are one span. */
function joined(granules: readonly Span[]): Span[] {
  const spans: Span[] = []
  for (const [offset, bytes] of granules) {
    const [start, before] = spans.at(-1) ?? [-1, 0]
    if (start + before === offset) spans.splice(-1, 1, [start, before + bytes])
    else spans.push([offset, bytes])
  }
  return spans
}

const bytesOf = (spans: readonly Span[]) => spans.reduce((sum, [, bytes]) => sum + bytes, 0)

interface Known {
  readonly job: number
  readonly granules: readonly Span[]
  /** Granules, and the bytes before the next. */
  submitted: number
  submittedBytes: number
  inFlight: number
  written: number
  failure: number
}

/** Drives a machine with a disk that completes in any order, and throws at the first broken invariant. */
export class Run {
  readonly disk = new FakeDevice<Submitted>()
  readonly tally = new PlainTally()
  readonly open = new Map<number, Known>()
  readonly machine: Machine
  readonly options: WritebackOptions
  windowBytes: number
  nextJob = 0
  strays = 0
  stopRequested = false
  stoppedReplies = 0
  /** Jobs in the order of their requests, for those that still have something to submit. */
  #lastStarted = -1

  constructor(options: WritebackOptions, make: (tally: PlainTally, options: WritebackOptions) => Machine) {
    this.options = options
    this.windowBytes = options.windowBytes
    this.machine = make(this.tally, options)
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
    if (effect.kind !== 'reply') return this.#submitted(effect)
    if (effect.reply.kind === 'stopped') {
      demand(this.stopRequested && this.open.size === 0, 'stopped comes after every reply')
      this.stoppedReplies += 1
      return
    }
    const { job, status, bytes } = effect.reply
    const known = this.open.get(job)
    demand(known !== undefined, 'a job is answered once')
    demand(known.inFlight === 0, 'no answer while a write of the job is in flight')
    const whole = known.submitted === known.granules.length
    const expected = known.failure !== 0 ? known.failure : whole ? ERROR_CODES.ok : ERROR_CODES.draining
    demand(status === expected && bytes === known.written, 'the answer says what happened')
    demand(status === ERROR_CODES.ok || known.failure !== 0 || this.stopRequested, 'only a failure or stop cuts a job')
    this.open.delete(job)
  }

  /** Granules of the next write: the most that the limits allow, or one. */
  #next(known: Known): Span[] {
    const rest = known.granules.slice(known.submitted)
    const limit = Math.min(this.options.joinBytes, this.windowBytes)
    let most = 1
    while (most < rest.length) {
      const more = rest.slice(0, most + 1)
      if (bytesOf(more) > limit || joined(more).length > WRITE_SPANS_MAX) break
      most += 1
    }
    return rest.slice(0, most)
  }

  #submitted(write: Submitted): void {
    const known = this.open.get(write.file)
    demand(known !== undefined && known.failure === 0, 'only a healthy job submits')
    demand(!this.stopRequested, 'nothing is submitted after stop')
    demand(write.fileOffsetBytes === known.job * 1000 + known.submittedBytes, 'writes lie one after the other')
    const granules = this.#next(known)
    demand(write.bytes === bytesOf(granules), 'a write has as many granules as the limits allow')
    demand(JSON.stringify(spansOf(write)) === JSON.stringify(joined(granules)), 'as asked')
    demand(known.job >= this.#lastStarted, 'jobs start in order')
    this.#lastStarted = known.job
    this.disk.submit(write)
    const alone = this.disk.inFlight.length === 1 && granules.length === 1
    demand(this.bytesInFlight <= this.windowBytes || alone, 'the window holds')
    demand(this.disk.inFlight.length <= this.options.depth, 'the depth holds')
    known.submitted += granules.length
    known.submittedBytes += write.bytes
    known.inFlight += 1
  }

  /** Nothing waits without a reason. */
  #demandProgress(): void {
    if (this.stopRequested) return
    const head = [...this.open.values()].find((known) => known.failure === 0 && known.submitted < known.granules.length)
    if (head === undefined) return
    const next = bytesOf(this.#next(head))
    const fits = this.bytesInFlight === 0 || this.bytesInFlight + next <= this.windowBytes
    demand(!fits || this.disk.inFlight.length === this.options.depth, 'the head of the line starts when it fits')
  }

  run(command: Command): void {
    switch (command.act) {
      case 'write': {
        const job = this.nextJob++
        let end = 0
        const granules = command.granules.map(({ bytes, adjoins }): Span => {
          const offset = adjoins ? end : end + 100
          end = offset + bytes
          return [offset, bytes]
        })
        this.open.set(job, { job, granules, submitted: 0, submittedBytes: 0, inFlight: 0, written: 0, failure: 0 })
        const list = listOf(granules.flat())
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
