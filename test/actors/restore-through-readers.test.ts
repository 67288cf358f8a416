import test from 'ava'
import fc from 'fast-check'
import { type HostReaderEffect, HostReaderMachine } from '../../src/actors/host-reader/machine.js'
import type { HostReaderReply, HostReaderRequest } from '../../src/actors/host-reader/messages.js'
import {
  type HostRestoreEffect,
  type HostRestoreInput,
  HostRestoreMachine,
} from '../../src/actors/host-restore/machine.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { KIB, MIB, PAGE_BYTES } from '../../src/shared/base/units.js'
import { COPY, NO_OFFSET, SOURCE } from '../../src/shared/layout/descriptors.js'
import { listOf } from '../../src/shared/layout/records.js'
import { demand } from '../support/demand.js'
import { FakeDevice } from '../support/fake-device.js'
import { PlainTally } from '../support/plain-tally.js'

/**
 * host-restore and two host-readers as they are wired in production, in one thread: messages between them wait in
 * queues and are delivered, the disk and the stream complete, and jobs come and are cancelled, in any order.
 */
const STORES = 2
const SIZES = [4096, 300 * KIB, MIB]
const RESTORE = { windowOffsetBytes: 0, windowBytes: 4 * MIB, stores: STORES, storeReads: 5, reads: 16 }

type Read = HostReaderEffect & { kind: 'submit-read' } & { readonly reader: number; readonly id: number }
type Part = HostRestoreEffect & { kind: 'copy' }

interface Job {
  readonly sources: readonly { generation: number; size: number }[]
  readonly copied: Set<number>
  damaged: boolean
  cancelled: boolean
  status: number | null
}

const step = fc.oneof(
  fc.record({
    act: fc.constant('restore' as const),
    sources: fc.array(fc.record({ generation: fc.nat({ max: 40 }), size: fc.nat({ max: SIZES.length - 1 }) }), {
      minLength: 1,
      maxLength: 40,
    }),
  }),
  fc.record({ act: fc.constant('cancel' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({ act: fc.constant('damage' as const), pick: fc.nat({ max: 99 }) }),
  fc.record({
    act: fc.constant('go' as const),
    picks: fc.array(fc.nat({ max: 999 }), { minLength: 1, maxLength: 30 }),
  }),
)

class World {
  readonly tallies = [new PlainTally(), new PlainTally(), new PlainTally()] as const
  readonly restore = new HostRestoreMachine({ ...RESTORE, parts: 2, partDescriptors: 4 }, this.tallies[0])
  readonly readers = [this.tallies[1], this.tallies[2]].map(
    (tally) => new HostReaderMachine({ clients: 1, depth: 4 }, tally),
  )
  readonly toReader: HostReaderRequest[][] = [[], []]
  readonly toRestore: HostReaderReply[][] = [[], []]
  readonly disk = new FakeDevice<Read & { tag: number }>()
  readonly stream = new FakeDevice<Part>()
  readonly memory = new Map<number, string>()
  readonly jobs = new Map<number, Job>()
  stoppedReaders = 0
  stopped = false

  restoreStep(input: HostRestoreInput): void {
    const out: HostRestoreEffect[] = []
    this.restore.step(input, out)
    this.restore.settle(out)
    for (const effect of out) {
      if (effect.kind === 'ask-reader') this.toReader[effect.store]?.push(effect.request)
      else if (effect.kind === 'copy') this.stream.submit(effect)
      else if (effect.kind === 'reply') this.#answered(effect.reply)
    }
  }

  #answered(reply: (HostRestoreEffect & { kind: 'reply' })['reply']): void {
    if (reply.kind === 'workspace-released') throw new Error('nobody asked for the workspace')
    if (reply.kind === 'stopped') {
      this.stopped = true
      return
    }
    const job = this.jobs.get(reply.job)
    demand(job !== undefined && job.status === null, 'a job is answered once')
    job.status = reply.status
    const untouched = !job.damaged && !job.cancelled
    demand(!untouched || reply.status === ERROR_CODES.ok, 'a job that nothing happened to succeeds')
    demand(reply.status !== ERROR_CODES.ok || job.copied.size === job.sources.length, 'done means every source')
    for (const read of this.disk.inFlight) demand(read.file !== reply.job, 'no read outlives its job')
    for (const part of this.stream.inFlight) demand(part.doubles[part.offset] !== reply.job, 'no copy outlives its job')
  }

  readerStep(reader: number, input: Parameters<HostReaderMachine['step']>[0]): void {
    const out: HostReaderEffect[] = []
    this.readers[reader]?.step(input, out)
    for (const effect of out) {
      // Tags are each reader's own; the disk of the test needs one space.
      if (effect.kind === 'submit-read')
        this.disk.submit({ ...effect, reader, id: effect.tag, tag: effect.tag * 2 + reader })
      else if (effect.reply.kind === 'stopped') this.stoppedReaders += 1
      else this.toRestore[reader]?.push(effect.reply)
    }
  }

  /** One thing that can happen now, picked by a number; false when nothing can. */
  happen(pick: number): boolean {
    const can: (() => void)[] = []
    for (let reader = 0; reader < STORES; reader++) {
      const requests = this.toReader[reader] ?? []
      const replies = this.toRestore[reader] ?? []
      if (requests.length > 0) {
        can.push(() =>
          this.readerStep(reader, { kind: 'request', client: 0, request: requests.shift() as HostReaderRequest }),
        )
      }
      if (replies.length > 0) {
        can.push(() => {
          const reply = replies.shift() as HostReaderReply
          if (reply.kind === 'read-done') this.restoreStep(reply)
        })
      }
    }
    if (this.disk.inFlight.length > 0) can.push(() => this.#readEnds(pick))
    if (this.stream.inFlight.length > 0) can.push(() => this.#partEnds(pick))
    const act = can[pick % Math.max(1, can.length)]
    act?.()
    return act !== undefined
  }

  #readEnds(pick: number): void {
    const read = this.disk.finish(pick)
    if (read === null) return
    const damaged = this.jobs.get(read.file)?.damaged === true && read.fileOffsetBytes % (3 * PAGE_BYTES) === 0
    for (let page = 0; page < read.bytes; page += PAGE_BYTES) {
      this.memory.set(read.poolOffsetBytes + page, damaged ? 'rubbish' : `${read.file}@${read.fileOffsetBytes}`)
    }
    this.readerStep(read.reader, { kind: 'io-completed', tag: read.id, result: damaged ? -74 : read.bytes })
  }

  #partEnds(pick: number): void {
    const part = this.stream.finish(pick)
    if (part === null) return
    for (let at = part.offset; at < part.offset + part.count * COPY.doubles; at += COPY.doubles) {
      const id = part.doubles[at + COPY.template] as number
      const index = part.doubles[at + COPY.page] as number
      const job = this.jobs.get(id)
      const spec = job?.sources[index]
      demand(job !== undefined && spec !== undefined && job.status === null, 'a copy is of an open job')
      const offset = part.doubles[at + COPY.poolOffsetBytes] as number
      for (let page = 0; page < (SIZES[spec.size] as number); page += PAGE_BYTES) {
        demand(this.memory.get(offset + page) === `${id}@${fileOffsetOf(spec)}`, 'a copy takes the bytes of its source')
      }
      job.copied.add(index)
    }
    this.restoreStep({ kind: 'stream-completed', tag: part.tag, result: 0 })
  }

  start(sources: Job['sources']): void {
    const id = this.jobs.size + 1
    this.jobs.set(id, { sources, copied: new Set(), damaged: false, cancelled: false, status: null })
    const list = listOf(sources.flatMap((spec, index) => sourceOf(id, spec, index)))
    const finish = { slots: 1, slot: id, slotGeneration: 1, fence: 0 }
    const request = { kind: 'restore', job: id, more: 0, bytes: 1, admitUs: 0, list, ...finish } as const
    this.restoreStep({ kind: 'request', request })
  }

  /** Any job, ended ones too: a cancel may cross its answer. */
  cancel(pick: number): void {
    const id = 1 + (pick % Math.max(1, this.jobs.size))
    const job = this.jobs.get(id)
    if (job !== undefined) job.cancelled = true
    this.restoreStep({ kind: 'request', request: { kind: 'cancel', job: id } })
  }

  drain(): void {
    for (let pick = 7; this.happen(pick); pick = (pick * 31 + 11) % 1009);
    for (const job of this.jobs.values()) demand(job.status !== null, 'every job is answered')
    this.restoreStep({ kind: 'request', request: { kind: 'stop' } })
    demand(this.stopped && this.restore.idle, 'host-restore stops at once when nothing is open')
    for (let reader = 0; reader < STORES; reader++) {
      this.readerStep(reader, { kind: 'request', client: 0, request: { kind: 'stop' } })
    }
    demand(this.stoppedReaders === STORES, 'readers stop after their client')
  }
}

const fileOffsetOf = (spec: Job['sources'][number]) => (spec.generation * SIZES.length + spec.size) * MIB

function sourceOf(job: number, spec: Job['sources'][number], index: number): number[] {
  const numbers = new Array<number>(SOURCE.doubles).fill(0)
  numbers[SOURCE.template] = job
  numbers[SOURCE.page] = index
  numbers[SOURCE.poolOffsetBytes] = NO_OFFSET
  numbers[SOURCE.store] = spec.generation % STORES
  numbers[SOURCE.file] = job
  numbers[SOURCE.fileOffsetBytes] = fileOffsetOf(spec)
  numbers[SOURCE.bytes] = SIZES[spec.size] as number
  numbers[SOURCE.segmentBytes] = SIZES[spec.size] as number
  numbers[SOURCE.segmentStrideBytes] = SIZES[spec.size] as number
  numbers[SOURCE.generation] = spec.generation
  numbers[SOURCE.key] = spec.generation
  numbers[SOURCE.itemCount] = 1
  return numbers
}

function property(make: () => World) {
  return fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
    const world = make()
    for (const each of steps) {
      if (each.act === 'restore') world.start(each.sources)
      else if (each.act === 'cancel') world.cancel(each.pick)
      else if (each.act === 'damage') {
        const job = world.jobs.get(1 + (each.pick % Math.max(1, world.jobs.size)))
        if (job !== undefined) job.damaged = true
      } else for (const pick of each.picks) world.happen(pick)
    }
    world.drain()
  })
}

test('host-restore over host-readers: every restore ends once with the right bytes, and everything stops', (t) => {
  fc.assert(
    property(() => new World()),
    { numRuns: 300 },
  )
  t.pass()
})

test('host-restore over host-readers: the property catches a reader that answers a read before the disk has', (t) => {
  class Hasty extends World {
    override readerStep(reader: number, input: Parameters<HostReaderMachine['step']>[0]): void {
      const before = this.disk.inFlight.length
      super.readerStep(reader, input)
      for (const read of this.disk.inFlight.slice(before)) {
        if (read.reader === reader) super.readerStep(reader, { kind: 'io-completed', tag: read.id, result: read.bytes })
      }
    }
  }
  const found = fc.check(
    property(() => new Hasty()),
    { numRuns: 300, seed: 20261129 },
  )
  t.regex(String(found.errorInstance), /violated/)
})
