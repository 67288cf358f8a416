import test from 'ava'
import fc from 'fast-check'
import { WorkspaceReleases } from '../../../src/manager/lanes/workspace-releases.js'
import { demand } from '../../support/demand.js'

const LANES = 2

/** Ranks of one device, and lanes that hold memory from their first coding on until they hear a question. */
class Model {
  readonly releases: Pick<WorkspaceReleases, 'left' | 'answered' | 'open'>
  readonly ranks = new Set<object>()
  readonly leaving = new Set<object>()
  readonly held = new Array<boolean>(LANES).fill(false)
  /** Lanes that were asked and have not heard it, and those that have and are not heard yet. */
  readonly asked: number[] = []
  readonly answers: number[] = []
  questions = 0

  constructor(make: (ask: () => void) => Pick<WorkspaceReleases, 'left' | 'answered' | 'open'>) {
    this.releases = make(() => {
      demand(this.asked.length + this.answers.length === 0, 'one round at a time')
      this.questions += 1
      for (let lane = 0; lane < LANES; lane++) this.asked.push(lane)
    })
  }

  come(): void {
    this.ranks.add({})
  }

  /** A rank that stays has something coded. */
  code(pick: number): void {
    if ([...this.ranks].some((rank) => !this.leaving.has(rank))) this.held[pick % LANES] = true
  }

  leave(pick: number): void {
    const staying = [...this.ranks].filter((rank) => !this.leaving.has(rank))
    const rank = staying[pick % Math.max(1, staying.length)]
    if (rank === undefined) return
    this.leaving.add(rank)
    this.#settle(rank)
  }

  hear(): void {
    const lane = this.asked.shift()
    if (lane === undefined) return
    this.held[lane] = false
    this.answers.push(lane)
  }

  answer(): void {
    if (this.answers.shift() === undefined) return
    for (const rank of this.releases.answered()) this.#settle(rank)
  }

  /** As the manager does, whenever something of the rank has ended. */
  #settle(rank: object): void {
    if (!this.leaving.has(rank) || !this.releases.left(rank, this.ranks.size)) return
    this.ranks.delete(rank)
    this.leaving.delete(rank)
    if (this.ranks.size === 0) demand(!this.held.includes(true), 'the last rank leaves when nothing is held')
  }

  rest(): void {
    for (let round = 0; round < 20; round++) {
      this.leave(round)
      this.hear()
      this.answer()
    }
    demand(this.ranks.size === 0 && this.releases.open === 0, 'everybody leaves')
  }
}

type Step = { act: 'come' | 'hear' | 'answer' } | { act: 'code' | 'leave'; pick: number }

function property(make: ConstructorParameters<typeof Model>[0]) {
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ act: fc.constantFrom('come' as const, 'hear' as const, 'answer' as const) }),
    fc.record({ act: fc.constantFrom('code' as const, 'leave' as const), pick: fc.nat({ max: 9 }) }),
  )
  return fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    const model = new Model(make)
    for (const each of steps) {
      if (each.act === 'code' || each.act === 'leave') model[each.act](each.pick)
      else model[each.act]()
    }
    model.rest()
  })
}

test('WorkspaceReleases: whatever comes and leaves, the last rank leaves when the lanes hold nothing', (t) => {
  fc.assert(
    property((ask) => new WorkspaceReleases(LANES, ask)),
    { numRuns: 2000 },
  )
  t.pass()
})

test('WorkspaceReleases: the property catches a twin that lets a rank leave with the round of another', (t) => {
  class Hasty extends WorkspaceReleases {
    override left(hold: object, ranks: number): boolean {
      return (this.open > 0 && ranks > 1 && super.left(hold, 3)) || super.left(hold, ranks)
    }
  }
  const found = fc.check(
    property((ask) => new Hasty(LANES, ask)),
    { numRuns: 5000, seed: 20261201 },
  )
  t.regex(String(found.errorInstance), /nothing is held|left|everybody/)
})

test('WorkspaceReleases: while another rank stays nobody is asked, and two that leave share a round', (t) => {
  let asked = 0
  const releases = new WorkspaceReleases(LANES, () => {
    asked += 1
  })
  const [a, b, c] = [{}, {}, {}]
  t.true(releases.left(a, 3), 'two stay')
  t.is(asked, 0)
  t.true(releases.left(b, 2))
  t.false(releases.left(c, 1))
  t.false(releases.left(c, 1), 'once')
  t.is(asked, 1)
  t.is(releases.open, 2)
  t.deepEqual(releases.answered(), [])
  t.deepEqual(releases.answered(), [c])
  t.true(releases.left(c, 1))
  t.is(releases.open, 0)
  t.throws(() => releases.answered(), { message: /when it was asked to/ })
})
