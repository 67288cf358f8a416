import test from 'ava'
import fc from 'fast-check'
import {
  type WritebackEffect,
  type WritebackInput,
  WritebackMachine,
  type WritebackOptions,
} from '../../../src/actors/writeback/machine.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { WRITE_SPANS_MAX } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { PlainTally } from '../../support/plain-tally.js'
import { command, type Machine, Run, type Submitted, spansOf } from './run.js'

const OPTIONS: WritebackOptions = { depth: 4, windowBytes: 12, joinBytes: 0 }
/** Joins of a few granules, and such that only the window cuts. */
const JOINED = [10, 1000].map((joinBytes) => ({ ...OPTIONS, joinBytes }))

const real = (tally: PlainTally, options: WritebackOptions): Machine => new WritebackMachine(options, tally)

function property(make: (tally: PlainTally, options: WritebackOptions) => Machine, options = OPTIONS) {
  return fc.property(fc.array(command, { maxLength: 60 }), fc.boolean(), (steps, stop) => {
    const run = new Run(options, make)
    for (const step of steps) run.run(step)
    if (stop) run.stop()
    run.drain()
  })
}

/** Wraps the machine, so that a twin changes one thing only. */
class Twin implements Machine {
  readonly inner: WritebackMachine
  constructor(tally: PlainTally, options: WritebackOptions) {
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

test('writeback: joins as many granules as a write, the window and the spans allow, and no other bytes', (t) => {
  for (const options of JOINED) fc.assert(property(real, options), { numRuns: 600 })
  t.pass()
})

/** What a machine submits for one job of granules of 512 bytes at these offsets of the pool. */
function submitted(options: WritebackOptions, offsets: readonly number[]): Submitted[] {
  const out: WritebackEffect[] = []
  const list = listOf(offsets.flatMap((offset) => [offset, 512]))
  const request = { kind: 'write', job: 1, file: 1, fileOffsetBytes: 4096, list } as const
  new WritebackMachine(options, new PlainTally()).step({ kind: 'request', request }, out)
  return out.filter((effect) => effect.kind !== 'reply')
}

const apart = (count: number) => Array.from({ length: count }, (_, index) => index * 4096)
const adjoining = (count: number) => Array.from({ length: count }, (_, index) => 4096 + index * 512)
const WIDE: WritebackOptions = { depth: 256, windowBytes: 1 << 20, joinBytes: 1 << 20 }

test('writeback: without joins every granule is a plain write of its own, wherever it lies', (t) => {
  for (const offsets of [apart(100), adjoining(100)]) {
    t.deepEqual(
      submitted({ ...WIDE, joinBytes: 0 }, offsets).map(({ tag: _, ...write }) => write),
      offsets.map((poolOffsetBytes, index) => ({
        kind: 'submit-write',
        file: 1,
        fileOffsetBytes: 4096 + index * 512,
        poolOffsetBytes,
        bytes: 512,
      })),
    )
  }
})

test('writeback: what adjoins in the pool is one plain write, what does not has a span for each', (t) => {
  const [whole, ...none] = submitted(WIDE, adjoining(2000))
  t.is(none.length, 0)
  t.deepEqual([whole?.kind, whole?.bytes], ['submit-write', 2000 * 512])
  const writes = submitted(WIDE, apart(2 * WRITE_SPANS_MAX + 1))
  t.deepEqual(
    writes.map((write) => spansOf(write).length),
    [WRITE_SPANS_MAX, WRITE_SPANS_MAX, 1],
  )
  t.is(writes.at(-1)?.kind, 'submit-write')
  t.deepEqual(
    writes.flatMap((write) => spansOf(write)),
    apart(2 * WRITE_SPANS_MAX + 1).map((offset) => [offset, 512]),
  )
})

test('writeback: the property catches twins that mistake the order of spans, or put another one in their place', (t) => {
  class Mistaken extends Twin {
    readonly #mistake: (spans: Float64Array) => void
    constructor(tally: PlainTally, options: WritebackOptions, mistake: (spans: Float64Array) => void) {
      super(tally, options)
      this.#mistake = mistake
    }
    override step(input: WritebackInput, out: WritebackEffect[]): void {
      super.step(input, out)
      for (const effect of out) {
        if (effect.kind !== 'submit-write-spans') continue
        this.#mistake(effect.list.subarray(effect.offset, effect.offset + 2 * effect.spans))
      }
    }
  }
  const swaps = (spans: Float64Array) => spans.set([...spans.subarray(2, 4), ...spans.subarray(0, 2)])
  const repeats = (spans: Float64Array) => spans.set(spans.subarray(0, 1), 2)
  for (const mistake of [swaps, repeats]) {
    for (const options of JOINED) {
      const twin = property((tally, each) => new Mistaken(tally, each, mistake), options)
      t.regex(String(fc.check(twin, { numRuns: 600, seed: 20261129 }).errorInstance), /as asked/)
    }
  }
})

test('writeback: the property catches a twin that takes a short write for a whole one', (t) => {
  class Credulous extends Twin {
    readonly #bytes = new Map<number, number>()
    override step(input: WritebackInput, out: WritebackEffect[]): void {
      const whole = input.kind === 'io-completed' && input.result > 0 ? this.#bytes.get(input.tag) : undefined
      super.step(input.kind === 'io-completed' && whole !== undefined ? { ...input, result: whole } : input, out)
      for (const effect of out) if (effect.kind !== 'reply') this.#bytes.set(effect.tag, effect.bytes)
    }
  }
  const result = fc.check(
    property((tally, options) => new Credulous(tally, options)),
    { numRuns: 600, seed: 20261129 },
  )
  t.regex(String(result.errorInstance), /the answer says what happened/)
})

test('writeback: the property catches a twin that answers a failed job at once', (t) => {
  class Hasty extends Twin {
    readonly #job = new Map<number, number>()
    override step(input: WritebackInput, out: WritebackEffect[]): void {
      super.step(input, out)
      for (const effect of out) if (effect.kind !== 'reply') this.#job.set(effect.tag, effect.file)
      if (input.kind !== 'io-completed' || input.result >= 0) return
      const job = this.#job.get(input.tag)
      if (job === undefined || out.some((effect) => effect.kind === 'reply')) return
      const status = ERROR_CODES.io_write_failed
      out.push({ kind: 'reply', reply: { kind: 'write-done', job, status, bytes: 0, latencyUs: 0 } })
    }
  }
  const result = fc.check(
    property((tally, options) => new Hasty(tally, options)),
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
