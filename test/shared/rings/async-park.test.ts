import test from 'ava'
import { AsyncParker, type EventLoop } from '../../../src/shared/rings/async-park.js'
import { ActorControl, createControl, PARK_WORD, wakerOf } from '../../../src/shared/rings/control.js'
import { PARKED_JS, PARKED_NATIVE, RUN } from '../../../src/shared/rings/park.js'

/** A parker over a counter of work, with its waker, and what it asked of its event loop. */
function bed(work: { left: number }) {
  const control = new ActorControl(createControl())
  const held: string[] = []
  const loop: EventLoop = {
    hold: () => held.push('hold'),
    letGo: () => held.push('let go'),
    later: (then) => setImmediate(then),
  }
  const turns: number[] = []
  let awaited: () => void = () => {}
  const parker = new AsyncParker(
    control.cells,
    PARK_WORD,
    () => work.left === 0,
    () => {
      turns.push(work.left)
      work.left = Math.max(0, work.left - 1)
      awaited()
    },
    loop,
  )
  const turned = (count: number): Promise<void> =>
    new Promise((resolve) => {
      awaited = () => turns.length >= count && resolve()
      awaited()
    })
  return { control, parker, held, turns, turned, waker: wakerOf(control, null) }
}

test('AsyncParker: work that is there when it opens, or comes between the word and the sleep, is taken at once', async (t) => {
  const { control, parker, turns, turned } = bed({ left: 3 })
  parker.open()
  await turned(3)
  t.deepEqual(turns, [3, 2, 1])
  t.is(control.cells.load(PARK_WORD), PARKED_JS)
  parker.close()
})

test('AsyncParker: each wake-up of the sleeper brings a turn', async (t) => {
  const work = { left: 0 }
  const { control, parker, turned, waker, turns } = bed(work)
  parker.open()
  for (let round = 1; round <= 50; round++) {
    t.is(control.cells.load(PARK_WORD), PARKED_JS)
    work.left = 1
    waker.wakeIfParked()
    await turned(round + 1)
    t.is(work.left, 0)
  }
  t.is(turns.length, 51)
  parker.close()
})

test('AsyncParker: the event loop is held from open to close, and after close nothing turns any more', async (t) => {
  const work = { left: 0 }
  const { control, parker, held, turns, waker } = bed(work)
  parker.open()
  parker.open()
  parker.close()
  parker.close()
  t.deepEqual(held, ['hold', 'let go'])
  t.is(control.cells.load(PARK_WORD), RUN)
  work.left = 1
  waker.wakeIfParked()
  await new Promise((resolve) => setImmediate(resolve))
  t.is(turns.length, 1)
})

test('PeerWaker: a peer asleep in the addon is woken through the port it published, and by one waker only', (t) => {
  const control = new ActorControl(createControl())
  const woken: number[] = []
  const waker = wakerOf(control, (port) => woken.push(port))
  t.is(control.port(), -1)
  control.publishPort(0)
  waker.wakeIfParked()
  t.deepEqual(woken, [])
  control.cells.store(PARK_WORD, PARKED_NATIVE)
  waker.wakeIfParked()
  waker.wakeIfParked()
  t.deepEqual(woken, [0])
  t.is(control.cells.load(PARK_WORD), RUN)
})

test('PeerWaker: a peer asleep in the addon without a port, or woken without the addon, is a bug', (t) => {
  const control = new ActorControl(createControl())
  control.cells.store(PARK_WORD, PARKED_NATIVE)
  t.throws(() => wakerOf(control, () => {}).wakeIfParked(), { message: /publishes its port/ })
  control.cells.store(PARK_WORD, PARKED_NATIVE)
  t.throws(() => wakerOf(control, null).wakeIfParked(), { message: /addon that wakes it/ })
})
