import test from 'ava'
import fc from 'fast-check'
import { HOST_READER_COUNT as COUNT } from '../../../src/actors/host-reader/counters.js'
import {
  type HostReaderEffect,
  type HostReaderInput,
  HostReaderMachine,
} from '../../../src/actors/host-reader/machine.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { NO_CRC } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { demand } from '../../support/demand.js'
import { FakeDevice } from '../../support/fake-device.js'
import { PlainTally } from '../../support/plain-tally.js'

const CLIENTS = 3
const DEPTH = 4

interface Machine {
  step(input: HostReaderInput, out: HostReaderEffect[]): void
  readonly idle: boolean
  readonly stopped: boolean
}

type Command =
  | { act: 'batch'; client: number; count: number }
  | { act: 'cancel'; client: number; pick: number }
  | { act: 'complete'; pick: number; outcome: 'full' | 'short' | 'eio' | 'damaged' }
  | { act: 'stray'; pick: number }
  | { act: 'stop' }

const command = fc.oneof(
  fc.record({
    act: fc.constant('batch' as const),
    client: fc.nat({ max: CLIENTS - 1 }),
    count: fc.integer({ min: 1, max: 9 }),
  }),
  fc.record({
    act: fc.constant('complete' as const),
    pick: fc.nat({ max: 99 }),
    outcome: fc.constantFrom('full' as const, 'full' as const, 'short' as const, 'eio' as const, 'damaged' as const),
  }),
  fc.record({
    act: fc.constant('complete' as const),
    pick: fc.nat({ max: 99 }),
    outcome: fc.constant('full' as const),
  }),
  fc.record({ act: fc.constant('cancel' as const), client: fc.nat({ max: CLIENTS - 1 }), pick: fc.nat({ max: 9 }) }),
  fc.record({ act: fc.constant('stray' as const), pick: fc.nat({ max: 99 }) }),
)
const commands = fc.tuple(fc.array(command, { maxLength: 60 }), fc.boolean())

type Submitted = HostReaderEffect & { kind: 'submit-read' }

/** Drives a machine with a device that completes in any order, and throws at the first broken invariant. */
class Run {
  readonly device = new FakeDevice<Submitted>()
  readonly tally = new PlainTally()
  /** Reads not answered: key -> was it submitted? Keys double as file offsets. */
  readonly open = new Map<string, 'queued' | 'submitted'>()
  readonly batches: { client: number; batch: number }[] = []
  readonly machine: Machine
  strays = 0
  stopRequested = false
  stoppedReplies = 0
  #expected: { key: string; status: number } | null = null
  #cancelled: string | null = null

  constructor(make: (tally: PlainTally) => Machine) {
    this.machine = make(this.tally)
  }

  feed(input: HostReaderInput): void {
    const out: HostReaderEffect[] = []
    this.machine.step(input, out)
    for (const effect of out) this.#check(effect)
    demand(this.device.inFlight.length <= DEPTH, 'never more in flight than places')
    demand(this.#expected === null, 'a completion is answered at once')
    const queued = [...this.open.values()].filter((state) => state === 'queued').length
    demand(queued === 0 || this.device.inFlight.length === DEPTH, 'nothing is queued while places are free')
    demand(this.tally.at(COUNT.completionsStray) === this.strays, 'strays are counted')
  }

  #check(effect: HostReaderEffect): void {
    demand(this.stoppedReplies === 0, 'nothing follows stopped')
    if (effect.kind === 'submit-read') {
      demand(!this.stopRequested, 'nothing is submitted after stop')
      const key = keyOf(effect.file, effect.fileOffsetBytes / 100_000, (effect.fileOffsetBytes % 100_000) / 1000)
      demand(this.open.get(key) === 'queued', 'only a queued read is submitted, once')
      this.open.set(key, 'submitted')
      this.device.submit(effect)
      return
    }
    if (effect.reply.kind === 'stopped') {
      demand(this.stopRequested && this.open.size === 0, 'stopped comes after every reply')
      this.stoppedReplies += 1
      return
    }
    const { batch, index, status, bytes } = effect.reply
    const key = keyOf(effect.client, batch, index)
    const state = this.open.get(key)
    demand(state !== undefined, 'a read is answered once')
    if (state === 'submitted') {
      demand(this.#expected?.key === key && this.#expected.status === status, 'a submitted read ends by its completion')
      this.#expected = null
    } else {
      const dropped = this.#cancelled === `${effect.client}/${batch}`
      demand(status === (this.stopRequested ? ERROR_CODES.draining : ERROR_CODES.cancelled), 'a dropped read says why')
      demand(this.stopRequested || dropped, 'only a cancelled batch is dropped')
    }
    demand(bytes === (status === ERROR_CODES.ok ? 4096 : 0), 'only a full read has bytes')
    this.open.delete(key)
  }

  run(command: Command): void {
    switch (command.act) {
      case 'batch': {
        const batch = this.batches.length
        this.batches.push({ client: command.client, batch })
        const numbers: number[] = []
        for (let index = 0; index < command.count; index++) {
          this.open.set(keyOf(command.client, batch, index), 'queued')
          numbers.push(index, command.client, batch * 100_000 + index * 1000, 0, 4096, 4096, 4096, 7)
        }
        const list = listOf(numbers)
        this.feed({ kind: 'request', client: command.client, request: { kind: 'read-batch', batch, list } })
        list.doubles.fill(-9) // the list ends with its record
        return
      }
      case 'cancel': {
        const mine = this.batches.filter((each) => each.client === command.client)
        const batch = mine[command.pick % Math.max(1, mine.length)]?.batch ?? 12345
        this.#cancelled = `${command.client}/${batch}`
        this.feed({ kind: 'request', client: command.client, request: { kind: 'cancel-batch', batch } })
        this.#cancelled = null
        const left = [...this.open].filter(
          ([key, state]) => key.startsWith(`${command.client}/${batch}/`) && state === 'queued',
        )
        demand(left.length === 0, 'cancel leaves nothing of the batch queued')
        return
      }
      case 'complete': {
        const operation = this.device.finish(command.pick)
        if (operation === null) return
        const [result, status] = {
          full: [4096, ERROR_CODES.ok],
          short: [4095, ERROR_CODES.io_short],
          eio: [-5, ERROR_CODES.io_read_failed],
          damaged: [-74, ERROR_CODES.checksum_mismatch],
        }[command.outcome] as [number, number]
        const offset = operation.fileOffsetBytes
        this.#expected = { key: keyOf(operation.file, offset / 100_000, (offset % 100_000) / 1000), status }
        this.feed({ kind: 'io-completed', tag: operation.tag, result })
        return
      }
      case 'stray':
        this.strays += 1
        this.feed({ kind: 'io-completed', tag: this.device.strayTag(command.pick), result: 4096 })
        return
      case 'stop':
        this.stopRequested = true
        this.feed({ kind: 'request', client: 0, request: { kind: 'stop' } })
        return
    }
  }

  drain(): void {
    while (this.device.inFlight.length > 0) this.run({ act: 'complete', pick: 1, outcome: 'full' })
    demand(this.open.size === 0 && this.machine.idle, 'everything drains')
    demand(this.tally.at(COUNT.readsInFlight) === 0 && this.tally.at(COUNT.readsQueued) === 0, 'gauges rest at zero')
    const ended = this.tally.at(COUNT.readSuccesses) + this.tally.at(COUNT.readFailures)
    demand(ended === this.tally.at(COUNT.readOperations), 'started = done + failed at rest')
    demand(this.machine.stopped === this.stopRequested, 'stops when asked')
    demand(this.stoppedReplies === (this.stopRequested ? 1 : 0), 'stopped is answered once')
  }
}

function keyOf(client: number, batch: number, index: number): string {
  return `${client}/${Math.floor(batch)}/${index}`
}

const real = (tally: PlainTally): Machine => new HostReaderMachine({ clients: CLIENTS, depth: DEPTH }, tally)

function property(make: (tally: PlainTally) => Machine) {
  return fc.property(commands, ([steps, stop]) => {
    const run = new Run(make)
    for (const step of steps) run.run(step)
    if (stop) run.run({ act: 'stop' })
    run.drain()
  })
}

test('host-reader: answers every read once, never while it is in flight, and drains', (t) => {
  fc.assert(property(real), { numRuns: 600 })
  t.pass()
})

test('host-reader: the property catches a twin that answers submitted reads on cancel', (t) => {
  class Hasty implements Machine {
    readonly #inner: HostReaderMachine
    readonly #submitted = new Map<number, Submitted>()
    constructor(tally: PlainTally) {
      this.#inner = new HostReaderMachine({ clients: CLIENTS, depth: DEPTH }, tally)
    }
    get idle() {
      return this.#inner.idle
    }
    get stopped() {
      return this.#inner.stopped
    }
    step(input: HostReaderInput, out: HostReaderEffect[]): void {
      this.#inner.step(input, out)
      for (const effect of out) if (effect.kind === 'submit-read') this.#submitted.set(effect.tag, effect)
      if (input.kind === 'io-completed') this.#submitted.delete(input.tag)
      if (input.kind !== 'request' || input.request.kind !== 'cancel-batch') return
      for (const read of this.#submitted.values()) {
        const batch = Math.floor(read.fileOffsetBytes / 100_000)
        if (read.file !== input.client || batch !== input.request.batch) continue
        const index = (read.fileOffsetBytes % 100_000) / 1000
        const reply = { kind: 'read-done' as const, batch, index, status: ERROR_CODES.cancelled, bytes: 0 }
        out.push({ kind: 'reply', client: input.client, reply })
      }
    }
  }
  t.true(
    fc.check(
      property((tally) => new Hasty(tally)),
      { numRuns: 600, seed: 20261129 },
    ).failed,
  )
})

test('host-reader: the property catches a twin that matches completions by place alone', (t) => {
  class Trusting implements Machine {
    readonly #inner: HostReaderMachine
    readonly #tags = new Map<number, number>()
    constructor(tally: PlainTally) {
      this.#inner = new HostReaderMachine({ clients: CLIENTS, depth: DEPTH }, tally)
    }
    get idle() {
      return this.#inner.idle
    }
    get stopped() {
      return this.#inner.stopped
    }
    step(input: HostReaderInput, out: HostReaderEffect[]): void {
      if (input.kind !== 'io-completed') this.#inner.step(input, out)
      else this.#inner.step({ ...input, tag: this.#tags.get(input.tag % DEPTH) ?? input.tag }, out)
      for (const effect of out) if (effect.kind === 'submit-read') this.#tags.set(effect.tag % DEPTH, effect.tag)
    }
  }
  t.true(
    fc.check(
      property((tally) => new Trusting(tally)),
      { numRuns: 600, seed: 20261129 },
    ).failed,
  )
})

test('host-reader: clients take places in turns, so that a long queue delays no other', (t) => {
  const run = new Run(real)
  for (let batch = 0; batch < 4; batch++) run.run({ act: 'batch', client: 0, count: 9 })
  run.run({ act: 'batch', client: 2, count: 2 })
  run.run({ act: 'complete', pick: 0, outcome: 'full' })
  run.run({ act: 'complete', pick: 0, outcome: 'full' })
  t.true(run.device.inFlight.some((read) => read.file === 2))
})

test('host-reader: a small batch is submitted in one step, in order', (t) => {
  const machine = new HostReaderMachine({ clients: 1, depth: 128 }, new PlainTally())
  const out: HostReaderEffect[] = []
  const numbers: number[] = []
  for (let index = 0; index < 34; index++) numbers.push(index, 1, index * 4096, index * 4096, 4096, 4096, 4096, index)
  machine.step({ kind: 'request', client: 0, request: { kind: 'read-batch', batch: 5, list: listOf(numbers) } }, out)
  t.deepEqual(
    out.map((effect) => (effect.kind === 'submit-read' ? effect.fileOffsetBytes / 4096 : -1)),
    Array.from({ length: 34 }, (_, index) => index),
  )
})

test('host-reader: a read without a checksum is not verified, one whose checksum is 0 is', (t) => {
  const machine = new HostReaderMachine({ clients: 1, depth: 8 }, new PlainTally())
  const out: HostReaderEffect[] = []
  const list = listOf([0, 1, 0, 0, 4096, 4096, 4096, NO_CRC, 1, 1, 4096, 4096, 4096, 4096, 4096, 0])
  machine.step({ kind: 'request', client: 0, request: { kind: 'read-batch', batch: 1, list } }, out)
  t.deepEqual(
    out.map((effect) => effect.kind === 'submit-read' && [effect.verify, effect.crc32]),
    [
      [false, 0],
      [true, 0],
    ],
  )
})

test('host-reader: a client beyond its completion ring is a bug of ours', (t) => {
  const machine = new HostReaderMachine({ clients: 1, depth: 8 }, new PlainTally())
  const list = { doubles: new Float64Array(8 * 257), offset: 0, length: 8 * 257 }
  t.throws(() => machine.step({ kind: 'request', client: 0, request: { kind: 'read-batch', batch: 1, list } }, []), {
    message: /completion ring/,
  })
})
