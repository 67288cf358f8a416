import test from 'ava'
import { LaneTurn, type Tick } from '../../../src/actors/runtime/turn.js'

type Input = { readonly kind: 'input'; readonly value: number }

/** Doubles every input below 100, and says what it was told when. */
class Doubler {
  readonly seen: (Input | Tick)[] = []

  step(input: Input | Tick, out: number[]): void {
    this.seen.push(input)
    if (input.kind === 'input' && input.value < 100) out.push(input.value * 2)
  }
}

test('LaneTurn: the clock is read once, before the first input of a turn', (t) => {
  const machine = new Doubler()
  let readings = 0
  const turn = new LaneTurn<Input, number>(machine, () => ++readings)
  turn.step({ kind: 'input', value: 1 })
  turn.step({ kind: 'input', value: 2 })
  const performed: number[] = []
  turn.perform((effect) => void performed.push(effect))
  turn.step({ kind: 'input', value: 3 })
  t.deepEqual(performed, [2, 4])
  t.is(readings, 2)
  t.deepEqual(
    machine.seen.map((input) => (input.kind === 'tick' ? `tick ${input.nowUs}` : input.value)),
    ['tick 1', 1, 2, 'tick 2', 3],
  )
})

test('LaneTurn: what an effect answers is decided and performed in the same turn', (t) => {
  const machine = new Doubler()
  const turn = new LaneTurn<Input, number>(machine, () => 0)
  turn.step({ kind: 'input', value: 7 })
  const performed: number[] = []
  turn.perform((effect) => {
    performed.push(effect)
    turn.step({ kind: 'input', value: effect })
  })
  t.deepEqual(performed, [14, 28, 56, 112])
  turn.perform((effect) => void performed.push(effect))
  t.is(performed.length, 4)
})

/** Adds up what it was told, and says the sum when the turn is over. */
class Adder {
  #sum = 0
  settled = 0

  step(input: Input | Tick): void {
    if (input.kind === 'input') this.#sum += input.value
  }

  settle(out: number[]): void {
    this.settled++
    if (this.#sum > 0) out.push(this.#sum)
    this.#sum = 0
  }
}

test('LaneTurn: a turn is settled once after its inputs, again after answers, and not when nothing came', (t) => {
  const machine = new Adder()
  const turn = new LaneTurn<Input, number>(machine, () => 0)
  for (const value of [1, 2, 4]) turn.step({ kind: 'input', value })
  const performed: number[] = []
  turn.perform((effect) => {
    performed.push(effect)
    if (effect === 7) for (const value of [30, 3]) turn.step({ kind: 'input', value })
  })
  t.deepEqual(performed, [7, 33])
  t.is(machine.settled, 2)
  turn.perform((effect) => void performed.push(effect))
  t.is(machine.settled, 2)
})
