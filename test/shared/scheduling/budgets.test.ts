import test from 'ava'
import fc from 'fast-check'
import { ByteBudget } from '../../../src/shared/scheduling/byte-budget.js'
import { ByteWindow } from '../../../src/shared/scheduling/byte-window.js'
import { Permits } from '../../../src/shared/scheduling/permits.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

const broken = { code: 'invariant' }
const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0)

/** Charges as a list, one for the budget under test and one for its sibling under the same parent. */
interface Charges {
  readonly mine: number[]
  readonly siblings: number[]
  peak: number
  parentPeak: number
}
interface Budgets {
  readonly mine: ByteBudget
  readonly sibling: ByteBudget
  readonly parent: ByteBudget
}

function budgetProperty(Budget: typeof ByteBudget) {
  const charge = fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 14 })).map(([own, bytes]) =>
    step<Charges, Budgets>(`charge(${own ? 'mine' : 'sibling'}, ${bytes})`, (model, real) => {
      const list = own ? model.mine : model.siblings
      const budget = own ? real.mine : real.sibling
      const limit = own ? 10 : 6
      const total = sum(model.mine) + sum(model.siblings)
      const fits = sum(list) + bytes <= limit && total + bytes <= 12
      const verdict = bytes > limit || bytes > 12 ? 'too-large' : fits ? 'fits' : 'busy'
      expectEqual('verdict', budget.verdict(bytes), verdict)
      expectEqual('charge', budget.charge(bytes), fits)
      if (!fits) return
      list.push(bytes)
      model.peak = Math.max(model.peak, sum(model.mine))
      model.parentPeak = Math.max(model.parentPeak, total + bytes)
    }),
  )
  const refund = fc.tuple(fc.boolean(), fc.nat(99)).map(([own, choice]) =>
    step<Charges, Budgets>(
      `refund(${own ? 'mine' : 'sibling'}, ${choice})`,
      (model, real) => {
        const list = own ? model.mine : model.siblings
        const [bytes] = list.splice(choice % list.length, 1)
        ;(own ? real.mine : real.sibling).refund(bytes as number)
      },
      (model) => (own ? model.mine : model.siblings).length > 0,
    ),
  )
  return modelProperty<Charges, Budgets>(
    [charge, refund],
    () => {
      const parent = new Budget(12)
      return {
        model: { mine: [], siblings: [], peak: 0, parentPeak: 0 },
        real: { parent, mine: new Budget(10, parent), sibling: new Budget(6, parent) },
      }
    },
    (model, { mine, sibling, parent }) => {
      const [own, other] = [sum(model.mine), sum(model.siblings)]
      expectEqual('charged', [mine.chargedBytes, sibling.chargedBytes, parent.chargedBytes], [own, other, own + other])
      expectEqual('peaks', [mine.peakBytes, parent.peakBytes], [model.peak, model.parentPeak])
    },
  )
}

test('ByteBudget: charges, refunds and peaks equal a list of charges, here and in the parent', (t) => {
  t.true(holds(budgetProperty(ByteBudget), 300))
})

test('broken twin: a budget that lets one byte too many in is caught', (t) => {
  class OneMore extends ByteBudget {
    constructor(limitBytes: number, parent: ByteBudget | null = null) {
      super(limitBytes + 1, parent)
    }
  }
  t.true(catches(budgetProperty(OneMore)))
})

test('broken twin: a budget that refunds less than it charged is caught', (t) => {
  class Leaking extends ByteBudget {
    override refund(bytes: number): void {
      super.refund(Math.max(0, bytes - 1))
    }
  }
  t.true(catches(budgetProperty(Leaking)))
})

test('ByteBudget: it is never negative and a refusal charges nobody', (t) => {
  const parent = new ByteBudget(10)
  const child = new ByteBudget(100, parent)
  t.false(child.charge(11))
  t.is(child.verdict(11), 'too-large')
  t.is(child.chargedBytes, 0)
  t.true(child.charge(10))
  t.is(child.verdict(1), 'busy')
  t.throws(() => child.refund(11), broken)
  t.throws(() => child.charge(-1), broken)
  t.throws(() => child.charge(Number.NaN), broken)
  child.refund(10)
  t.throws(() => child.refund(1), broken)
  t.deepEqual([child.chargedBytes, parent.chargedBytes, parent.peakBytes], [0, 0, 10])
})

function permitsProperty(Kind: typeof Permits) {
  const acquire = fc.constant(
    step<{ out: number; peak: number }, Permits>('acquire', (model, permits) => {
      expectEqual('acquire', permits.acquire(), model.out < 8)
      if (model.out < 8) model.out++
      model.peak = Math.max(model.peak, model.out)
    }),
  )
  const release = fc.constant(
    step<{ out: number; peak: number }, Permits>(
      'release',
      (model, permits) => {
        model.out--
        permits.release()
      },
      (model) => model.out > 0,
    ),
  )
  return modelProperty<{ out: number; peak: number }, Permits>(
    [acquire, acquire, release],
    () => ({ model: { out: 0, peak: 0 }, real: new Kind(8) }),
    (model, permits) => {
      const { outstanding, available, peak } = permits
      expectEqual('permits', [outstanding, available, peak], [model.out, 8 - model.out, model.peak])
    },
  )
}

test('Permits: at most the cap is outstanding, and granted equals returned and outstanding', (t) => {
  t.true(holds(permitsProperty(Permits), 200))
  const permits = new Permits(1)
  t.throws(() => permits.release(), broken)
})

test('broken twin: permits with a cap one too high are caught', (t) => {
  class Nine extends Permits {
    constructor(limit: number) {
      super(limit + 1)
    }
    override get available(): number {
      return super.available - 1
    }
  }
  t.true(catches(permitsProperty(Nine)))
})

interface Flights {
  readonly pieces: number[]
  limit: number
  peak: number
}

function windowProperty(Window: typeof ByteWindow) {
  const enter = fc.integer({ min: 1, max: 15 }).map((bytes) =>
    step<Flights, ByteWindow>(`enter(${bytes})`, (model, window) => {
      const mayEnter = model.pieces.length === 0 || sum(model.pieces) + bytes <= model.limit
      expectEqual('enter', window.enter(bytes), mayEnter)
      if (mayEnter) model.pieces.push(bytes)
      model.peak = Math.max(model.peak, sum(model.pieces))
    }),
  )
  const leave = fc.nat(99).map((choice) =>
    step<Flights, ByteWindow>(
      `leave(${choice})`,
      (model, window) => window.leave(model.pieces.splice(choice % model.pieces.length, 1)[0] as number),
      (model) => model.pieces.length > 0,
    ),
  )
  const resize = fc.nat(20).map((limit) =>
    step<Flights, ByteWindow>(`resize(${limit})`, (model, window) => {
      model.limit = limit
      window.resize(limit)
    }),
  )
  return modelProperty<Flights, ByteWindow>(
    [enter, enter, leave, resize],
    () => ({ model: { pieces: [], limit: 10, peak: 0 }, real: new Window(10) }),
    (model, window) => {
      const { inFlight, inFlightBytes, peakBytes, limitBytes } = window
      expectEqual(
        'window',
        [inFlight, inFlightBytes, peakBytes, limitBytes],
        [model.pieces.length, sum(model.pieces), model.peak, model.limit],
      )
    },
  )
}

test('ByteWindow: pieces enter up to a limit that may shrink, and one alone always enters', (t) => {
  t.true(holds(windowProperty(ByteWindow), 300))
})

test('broken twin: a window that forgets that it shrank is caught', (t) => {
  class Stubborn extends ByteWindow {
    #said = 10
    override get limitBytes(): number {
      return this.#said
    }
    override resize(limitBytes: number): void {
      this.#said = limitBytes
      super.resize(Math.max(limitBytes, super.limitBytes))
    }
  }
  t.true(catches(windowProperty(Stubborn)))
})

test('ByteWindow: only what entered leaves', (t) => {
  const window = new ByteWindow(4)
  t.throws(() => window.leave(1), broken)
  t.true(window.enter(10))
  t.false(window.enter(1))
  t.throws(() => window.leave(9), broken)
})
