import test from 'ava'
import { Inbox } from '../../../src/actors/runtime/inbox.js'
import { feed, type Lane, runLane } from '../../../src/actors/runtime/loop.js'
import { Outbox } from '../../../src/actors/runtime/outbox.js'
import { COMPLETION_WORDS } from '../../../src/binding/completions.js'
import type { Port } from '../../../src/binding/port.js'
import { IoError } from '../../../src/shared/base/errors.js'
import { ActorControl, createControl, PARK_WORD } from '../../../src/shared/rings/control.js'
import { NO_WAKER, PARKED_NATIVE, RUN } from '../../../src/shared/rings/park.js'
import { createRing, RingConsumer, type RingMemory, RingProducer } from '../../../src/shared/rings/ring.js'
import { listFor, type TestMessage, testCodec } from './lanes/messages.js'

/** A port that answers from a script and notes how it was used. */
class ScriptedPort {
  readonly completions = new Int32Array(COMPLETION_WORDS * 8)
  readonly parks: { timeoutUs: number; word: number }[] = []
  readonly pumps: number[] = []
  private readonly control: ActorControl
  private readonly script: (call: 'pump' | 'park') => number

  constructor(control: ActorControl, script: (call: 'pump' | 'park') => number) {
    this.control = control
    this.script = script
  }

  pump(count: number): number {
    this.pumps.push(count)
    return this.script('pump')
  }

  park(timeoutUs: number): number {
    this.parks.push({ timeoutUs, word: this.control.cells.load(PARK_WORD) })
    return this.script('park')
  }

  asPort(): Port {
    return this as unknown as Port
  }
}

function ring(capacity = 4): RingMemory {
  return createRing({ capacity, arenaDoubles: 64 })
}

function producer(memory: RingMemory): Outbox<TestMessage> {
  return new Outbox(RingProducer.attach(memory, NO_WAKER), testCodec)
}

function consumer(memory: RingMemory): Inbox<TestMessage> {
  return new Inbox(RingConsumer.attach(memory, NO_WAKER), testCodec)
}

/** A lane that does nothing, for tests that say what differs. */
function quiet(parts: Partial<Lane>): Lane {
  return {
    control: new ActorControl(createControl()),
    spinUs: 0,
    inboxes: [],
    outboxes: [],
    native: null,
    perform: () => 0,
    hasNativeWork: () => false,
    nextTickUs: () => Number.POSITIVE_INFINITY,
    tick: () => {},
    nowUs: () => 0,
    ended: () => false,
    ...parts,
  }
}

test('runLane: effects run before the lists of their turn are given back', (t) => {
  const memory = ring(2)
  const sender = producer(memory)
  const scratch = new Float64Array(8)
  for (let serial = 0; serial < 50; serial++) sender.send({ kind: 'number', serial, list: listFor(serial, scratch) })
  sender.flush()
  const turn: TestMessage[] = []
  let performed = 0
  runLane(
    quiet({
      inboxes: [feed(consumer(memory), (message) => turn.push(message))],
      perform: () => {
        // Whatever is freed too early is overwritten here, before it is looked at.
        sender.flush()
        for (const message of turn.splice(0)) {
          if (message.kind !== 'number') continue
          const { doubles, offset, length } = message.list
          const expected = listFor(performed++, scratch)
          t.deepEqual([...doubles.slice(offset, offset + length)], [...scratch.slice(0, expected.length)])
        }
        return 0
      },
      ended: () => {
        sender.flush()
        return performed === 50
      },
    }),
  )
  t.is(performed, 50)
})

test('runLane: it returns only when the last replies are in their ring, and says that it left', (t) => {
  const memory = ring(2)
  const replies = producer(memory)
  const reader = consumer(memory)
  const heard: TestMessage[] = []
  for (let serial = 0; serial < 9; serial++) replies.send({ kind: 'done', count: serial })
  const control = new ActorControl(createControl())
  let turns = 0
  runLane(
    quiet({
      control,
      outboxes: [replies],
      perform: () => {
        if (turns++ > 0) reader.drain(1, (message) => heard.push(message))
        t.false(control.hasLeft())
        return 0
      },
      nextTickUs: () => 0,
      ended: () => true,
    }),
  )
  t.true(control.hasLeft())
  t.is(replies.pending, 0)
  reader.drain(9, (message) => heard.push(message))
  t.deepEqual(
    heard.map((message) => message.kind === 'done' && message.count),
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
  )
})

test('runLane: each completion is delivered once, whether pump or park found it', (t) => {
  const control = new ActorControl(createControl())
  let serial = 0
  const port: ScriptedPort = new ScriptedPort(control, () => {
    const count = serial < 40 ? serial % 3 : 0
    for (let i = 0; i < count; i++) port.completions.set([serial * 10 + i, -i, 5, 1], i * COMPLETION_WORDS)
    made.push(...Array.from({ length: count }, (_, i) => serial * 10 + i))
    serial++
    return count
  })
  const made: number[] = []
  const seen: number[] = []
  runLane(
    quiet({
      control,
      native: {
        port: port.asPort(),
        completions: port.completions,
        completed: (tag, result, aux, kind) => {
          t.is(result + 0, -(tag % 10) + 0)
          t.deepEqual([aux, kind], [5, 1])
          seen.push(tag)
        },
      },
      hasNativeWork: () => true,
      ended: () => serial > 50 && seen.length === made.length,
    }),
  )
  t.deepEqual(seen, made)
  t.true(seen.length > 20)
})

test('runLane: a native park shows its word, is bounded by 100 ms and by the next tick, and ends awake', (t) => {
  const control = new ActorControl(createControl())
  const port = new ScriptedPort(control, () => 0)
  let nowUs = 1000
  let ticks = 0
  runLane(
    quiet({
      control,
      native: { port: port.asPort(), completions: port.completions, completed: () => t.fail() },
      hasNativeWork: () => true,
      nextTickUs: () => (port.parks.length < 2 ? 1e9 : 51_000),
      nowUs: () => nowUs,
      tick: () => {
        ticks++
      },
      perform: () => {
        if (port.parks.length === 3) nowUs = 51_000
        return 0
      },
      ended: () => ticks > 0,
    }),
  )
  t.deepEqual(port.parks, [
    { timeoutUs: 100_000, word: PARKED_NATIVE },
    { timeoutUs: 100_000, word: PARKED_NATIVE },
    { timeoutUs: 50_000, word: PARKED_NATIVE },
  ])
  t.is(control.cells.load(PARK_WORD), RUN)
})

test('runLane: a lane that may spin looks again for that long after its last work, and only then sleeps', (t) => {
  const control = new ActorControl(createControl())
  let pumps = 0
  // Work is found at 3 us; nothing after that.
  const port: ScriptedPort = new ScriptedPort(control, (call) => (call === 'pump' && ++pumps === 3 ? 1 : 0))
  const sleptAtUs: number[] = []
  let nowUs = 0
  runLane(
    quiet({
      control,
      spinUs: 10,
      native: { port: port.asPort(), completions: port.completions, completed: () => {} },
      hasNativeWork: () => true,
      nowUs: () => nowUs,
      perform: () => {
        if (port.parks.length > sleptAtUs.length) sleptAtUs.push(nowUs)
        nowUs += 1
        return 0
      },
      ended: () => sleptAtUs.length === 4,
    }),
  )
  // Before any work it sleeps at once. Then it sleeps each turn again: a sleep that found nothing renews no time.
  t.deepEqual(sleptAtUs, [1, 2, 14, 15])
})

test('runLane: a message that came while the word was being set is taken without a sleep', (t) => {
  const memory = ring()
  const sender = producer(memory)
  const control = new ActorControl(createControl())
  const port = new ScriptedPort(control, () => 0)
  const inbox = consumer(memory)
  let stopped = false
  let looks = 0
  runLane(
    quiet({
      control,
      native: { port: port.asPort(), completions: port.completions, completed: () => t.fail() },
      inboxes: [
        {
          take: (limit) =>
            inbox.take(limit, (message) => {
              stopped = message.kind === 'stop'
            }),
          release: () => inbox.release(),
          empty: () => {
            if (looks++ === 0) {
              t.is(control.cells.load(PARK_WORD), PARKED_NATIVE)
              sender.send({ kind: 'stop' })
              sender.flush()
            }
            return inbox.empty()
          },
        },
      ],
      hasNativeWork: () => true,
      ended: () => stopped,
    }),
  )
  t.is(looks, 1)
  t.deepEqual(port.parks, [], 'it slept beside a message')
})

test('runLane: the addon is entered only with something to submit or to wait for', (t) => {
  const control = new ActorControl(createControl())
  const port = new ScriptedPort(control, () => 0)
  let turns = 0
  runLane(
    quiet({
      control,
      native: { port: port.asPort(), completions: port.completions, completed: () => t.fail() },
      perform: () => (turns++ === 3 ? 2 : 0),
      nextTickUs: () => 0,
      ended: () => turns > 6,
    }),
  )
  t.deepEqual(port.pumps, [2])
  t.deepEqual(port.parks, [])
})

test('runLane: a port that fails ends the lane with an error', (t) => {
  const control = new ActorControl(createControl())
  for (const failing of ['pump', 'park'] as const) {
    const port = new ScriptedPort(control, (call) => (call === failing ? -5 : 0))
    const native = { port: port.asPort(), completions: port.completions, completed: () => t.fail() }
    const error = t.throws(() => runLane(quiet({ control, native, hasNativeWork: () => true })), {
      instanceOf: IoError,
    })
    t.is(error?.values['errno'], 5)
  }
})

test('Outbox: a message that waits keeps its list although the sender reuses the memory', (t) => {
  const memory = ring(2)
  const outbox = producer(memory)
  const inbox = consumer(memory)
  const scratch = new Float64Array(8)
  for (let serial = 0; serial < 20; serial++) outbox.send({ kind: 'number', serial, list: listFor(serial, scratch) })
  scratch.fill(-1)
  t.is(outbox.pending, 18)
  let expected = 0
  while (!outbox.flush() || !inbox.empty()) {
    inbox.drain(1, (message) => {
      if (message.kind !== 'number') return t.fail()
      const { doubles, offset, length } = message.list
      const list = listFor(expected++, scratch)
      t.deepEqual([...doubles.slice(offset, offset + length)], [...scratch.slice(0, list.length)])
      return undefined
    })
  }
  t.is(expected, 20)
})
