import test from 'ava'
import fc from 'fast-check'
import { InvariantError } from '../../../src/shared/base/errors.js'
import type { RawRecord } from '../../../src/shared/layout/records.js'
import { rawRecord } from '../../../src/shared/rings/codec.js'
import { NO_WAKER } from '../../../src/shared/rings/park.js'
import {
  createRing,
  HEAD_WORD,
  poisonRing,
  RingConsumer,
  type RingMemory,
  RingProducer,
  TAIL_WORD,
  viewsOf,
} from '../../../src/shared/rings/ring.js'

/** What a record looked like when it was sent. */
interface Sent {
  readonly tag: number
  readonly fields: readonly number[]
  readonly list: readonly number[]
}

type ProducerClass = new (...args: ConstructorParameters<typeof RingProducer>) => RingProducer
type Command = { readonly kind: 'push'; readonly list: number } | { readonly kind: 'publish' | 'take' | 'release' }

function startAt(memory: RingMemory, count: number): void {
  const words = new Int32Array(memory.buffer)
  words[TAIL_WORD] = count
  words[HEAD_WORD] = count
}

function recordOf(sent: Sent): RawRecord {
  const record = rawRecord()
  record.kind = 7
  record.tag = sent.tag
  record.fields.set(sent.fields)
  record.list = { doubles: Float64Array.from(sent.list), offset: 0, length: sent.list.length }
  return record
}

function listOfRecord(record: RawRecord): number[] {
  return [...record.list.doubles.slice(record.list.offset, record.list.offset + record.list.length)]
}

const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('push' as const), list: fc.integer({ min: 0, max: 12 }) }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'publish' as const }) },
    { weight: 3, arbitrary: fc.constant({ kind: 'take' as const }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'release' as const }) },
  ),
  { minLength: 20, maxLength: 200, size: 'max' },
)

/**
 * Runs commands on a ring and on a queue beside it. Throws when they differ: in what is received, in a list that
 * changed while its reader still held it, or in a refusal that the model cannot explain.
 */
function compare(
  Producer: ProducerClass,
  capacity: number,
  arena: number,
  first: number,
  run: readonly Command[],
): void {
  const memory = createRing({ capacity, arenaDoubles: arena })
  startAt(memory, first)
  const producer = Reflect.construct(Producer, [viewsOf(memory), NO_WAKER]) as RingProducer
  const consumer = RingConsumer.attach(memory, NO_WAKER)
  const claimed: Sent[] = []
  const published: Sent[] = []
  const held: { sent: Sent; record: RawRecord }[] = []
  let serial = 0
  for (const command of run) {
    if (command.kind === 'push') {
      serial++
      const list = Array.from({ length: command.list }, (_, i) => serial * 100 + i)
      const sent = { tag: serial, fields: [serial, -serial, 2 ** 52 + serial, 0.5, 0, serial * 3], list }
      const inRing = claimed.length + published.length + held.length
      const fits = producer.push(recordOf(sent))
      if (fits) claimed.push(sent)
      if (fits && inRing >= capacity) throw new Error('more records than the capacity')
      const nothingHeld = inRing === 0
      if (!fits && nothingHeld) throw new Error('an empty ring refused a record')
    } else if (command.kind === 'publish') {
      producer.publish()
      published.push(...claimed.splice(0))
    } else if (command.kind === 'take') {
      const record = rawRecord()
      const sent = published.shift()
      if (consumer.take(record) !== (sent !== undefined)) throw new Error('a record was lost or made up')
      if (sent !== undefined) held.push({ sent, record })
    } else {
      consumer.release()
      held.length = 0
    }
    for (const { sent, record } of held) {
      const same = record.tag === sent.tag && sent.fields.every((value, i) => Object.is(record.fields[i], value))
      if (!same) throw new Error('a record differs from what was sent')
      if (listOfRecord(record).join() !== sent.list.join()) throw new Error('a list changed before its release')
    }
  }
}

function holds(Producer: ProducerClass): { readonly failed: boolean; readonly errorInstance: unknown } {
  return fc.check(
    fc.property(
      fc.constantFrom(2, 4, 8),
      fc.integer({ min: 12, max: 20 }),
      fc.constantFrom(0, 2 ** 31 - 3, -2, 2 ** 31 - 1),
      commands,
      (capacity, arena, first, run) => compare(Producer, capacity, arena, first, run),
    ),
    { numRuns: 2000, seed: 20260101 },
  )
}

test('Ring: records and lists arrive once, in order and unchanged, at every counter value', (t) => {
  const result = holds(RingProducer)
  t.false(result.failed, String(result.errorInstance))
})

/** Believes that a list may be overwritten one record before its reader gave it back. */
class FreesArenaEarly extends RingProducer {
  override claim(listDoubles: number): number {
    const self = this as unknown as { taken: Int32Array; freed: number; mask: number; arenaUsed: number }
    const word = super.claim(listDoubles)
    if (word >= 0 || listDoubles === 0) return word
    const oldest = self.freed & self.mask
    self.arenaUsed -= self.taken[oldest] as number
    self.taken[oldest] = 0
    return super.claim(listDoubles)
  }
}

/** Forgets that a list which skips the end of the arena also used up that end. */
class ForgetsSkippedEnd extends RingProducer {
  override claim(listDoubles: number): number {
    const self = this as unknown as { arenaUsed: number; taken: Int32Array; mask: number; claimed: number }
    const slot = self.claimed & self.mask
    const word = super.claim(listDoubles)
    if (word < 0) return word
    const skipped = (self.taken[slot] as number) - listDoubles
    self.taken[slot] = listDoubles
    self.arenaUsed -= skipped
    return word
  }
}

test('Ring: the same property catches an arena freed early and a skipped end that is not paid for', (t) => {
  t.true(holds(FreesArenaEarly).failed)
  t.true(holds(ForgetsSkippedEnd).failed)
})

test('Ring: a capacity that is not a power of two is refused', (t) => {
  for (const capacity of [0, 1, 3, 6, 255, -2, 2.5, 2 ** 25]) {
    t.throws(() => createRing({ capacity }), { instanceOf: InvariantError }, String(capacity))
  }
})

test('Ring: each end is attached once for life, and never after a death', (t) => {
  const memory = createRing({ capacity: 2, arenaDoubles: 8 })
  RingProducer.attach(memory, NO_WAKER)
  t.throws(() => RingProducer.attach(memory, NO_WAKER), { message: /for life/ })
  poisonRing(memory)
  t.throws(() => RingConsumer.attach(memory, NO_WAKER), { message: /never used again/ })
})

test('Ring: publish costs one wake-up a batch, and none when nothing was claimed', (t) => {
  let wakes = 0
  const memory = createRing({ capacity: 8, arenaDoubles: 8 })
  const producer = RingProducer.attach(memory, { wakeIfParked: () => wakes++ })
  producer.publish()
  t.is(wakes, 0)
  for (let i = 0; i < 8; i++) t.true(producer.push(rawRecord()))
  t.false(producer.push(rawRecord()))
  producer.publish()
  producer.publish()
  t.is(wakes, 1)
})

test('Ring: a producer that waits for room is woken by the release that makes room, once', (t) => {
  let wakes = 0
  const memory = createRing({ capacity: 2, arenaDoubles: 8 })
  const producer = RingProducer.attach(memory, NO_WAKER)
  const consumer = RingConsumer.attach(memory, { wakeIfParked: () => wakes++ })
  const record = rawRecord()
  while (producer.push(record));
  producer.publish()
  t.true(consumer.take(record))
  t.true(producer.stalled())
  consumer.release()
  t.is(wakes, 1)
  t.false(producer.stalled())
  t.true(producer.push(record))
})

test('Ring: a list that no arena of this size can hold is a bug of the sender', (t) => {
  const producer = RingProducer.attach(createRing({ capacity: 2, arenaDoubles: 8 }), NO_WAKER)
  const record = rawRecord()
  record.list = { doubles: new Float64Array(9), offset: 0, length: 9 }
  t.throws(() => producer.push(record), { instanceOf: InvariantError })
})
