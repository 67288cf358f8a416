import test from 'ava'
import fc from 'fast-check'
import { askedTokens, type GroupPresence, legalBoundaries, neededAt } from '../../../src/shared/planning/recovery.js'
import { catches, holds } from '../../support/model-commands.js'

const LIMIT = 160

const group: fc.Arbitrary<GroupPresence> = fc
  .record({
    kind: fc.constantFrom('full-attention', 'sliding-window', 'checkpoint'),
    blockTokens: fc.constantFrom(1, 2, 4, 4, 4, 8, 12),
    window: fc.integer({ min: 1, max: 40 }),
    firstBlock: fc.constantFrom(0, 0, 0, 1, 2, 5),
    // Mostly there: with many gaps nothing is ever legal.
    present: fc.array(fc.constantFrom(1, 1, 1, 1, 1, 0), { maxLength: 14 }),
  })
  .map(({ window, kind, ...rest }) => ({
    ...rest,
    kind: kind as GroupPresence['kind'],
    windowTokens: kind === 'sliding-window' ? window : 0,
  }))
const requests = fc.array(group, { minLength: 1, maxLength: 4 })

/** The definition, token by token: 'own' where the engine has the block, else whether it was found. */
function holdsBlock({ firstBlock, present }: GroupPresence, block: number): 'own' | boolean {
  if (block < firstBlock) return 'own'
  return present[block - firstBlock] === 1
}

/** The blocks that resuming at `tokens` reads, from what each kind of layer looks at. */
function blocksRead({ kind, blockTokens, windowTokens }: GroupPresence, tokens: number): number[] {
  if (kind === 'checkpoint') return [tokens / blockTokens - 1]
  const from = kind === 'full-attention' ? 0 : Math.max(0, tokens - Math.ceil(windowTokens / blockTokens) * blockTokens)
  const blocks = new Set<number>()
  for (let token = from; token < tokens; token++) blocks.add(Math.floor(token / blockTokens))
  return [...blocks]
}

function naivelyLegal(groups: readonly GroupPresence[], tokens: number): boolean {
  return groups.every((each) => {
    if (tokens % each.blockTokens !== 0) return false
    return blocksRead(each, tokens).every((block) => {
      const has = holdsBlock(each, block)
      return has === 'own' ? each.kind !== 'checkpoint' : has
    })
  })
}

/** A boundary that needs nothing of the store is where the engine is already. */
function needsStore(groups: readonly GroupPresence[], tokens: number): boolean {
  return groups.some((each) => blocksRead(each, tokens).some((block) => block >= each.firstBlock))
}

function naive(groups: readonly GroupPresence[]): number[] {
  const tokens = Array.from({ length: LIMIT * 2 }, (_, index) => index + 1)
  return tokens.filter((each) => naivelyLegal(groups, each) && needsStore(groups, each))
}

type Legal = (groups: readonly GroupPresence[], limit?: number) => number[]

function isTheSet(legal: Legal): fc.IProperty<[readonly GroupPresence[], number]> {
  return fc.property(requests, fc.integer({ min: 1, max: LIMIT }), (groups, limit) => {
    const all = naive(groups)
    const cut = all.filter((tokens) => tokens <= limit)
    return (
      JSON.stringify(legal(groups)) === JSON.stringify(all) &&
      JSON.stringify(legal(groups, limit)) === JSON.stringify(cut)
    )
  })
}

test('recovery: legal boundaries are those of the naive definition, over all tokens', (t) => {
  t.true(holds(isTheSet(legalBoundaries), 4000))
  const some = fc.sample(requests, { numRuns: 400, seed: 1 }).filter((groups) => naive(groups).length > 1)
  t.true(some.length > 40, 'the property sees requests with several boundaries')
})

test('recovery: a twin that takes the least of the largest boundaries is caught', (t) => {
  const leastOfLargest: Legal = (groups, limit) => {
    const largest = groups.map((each) => legalBoundaries([each], limit).at(-1) ?? 0)
    const most = Math.min(...largest)
    return most === 0 ? [] : [...legalBoundaries(groups, most).filter((tokens) => tokens < most), most]
  }
  t.true(catches(isTheSet(leastOfLargest)))
})

test('recovery: twins that count leading blocks, or take any earlier checkpoint, are caught', (t) => {
  const leading: Legal = (groups, limit) =>
    legalBoundaries(
      groups.map((each) => ({ ...each, kind: 'full-attention' as const })),
      limit,
    )
  const nearest: Legal = (groups, limit) =>
    legalBoundaries(
      groups.map((each) => {
        if (each.kind !== 'checkpoint') return each
        const first = Array.from(each.present).indexOf(1)
        return { ...each, present: Array.from(each.present, (_, at) => (first !== -1 && at >= first ? 1 : 0)) }
      }),
      limit,
    )
  t.true(catches(isTheSet(leading)))
  t.true(catches(isTheSet(nearest)))
})

test('recovery: what a boundary needs are the blocks that it reads and the engine has not', (t) => {
  const property = fc.property(group, fc.integer({ min: 1, max: LIMIT }), (each, tokens) => {
    const needed = neededAt(each, tokens)
    if (needed === null) {
      const own = each.kind === 'checkpoint' && tokens / each.blockTokens <= each.firstBlock
      return own || tokens % each.blockTokens !== 0 || tokens > askedTokens(each)
    }
    const expected = blocksRead(each, tokens).map((block) => block - each.firstBlock)
    const blocks = Array.from({ length: needed.end - needed.first }, (_, index) => needed.first + index)
    return JSON.stringify(blocks) === JSON.stringify(expected.filter((block) => block >= 0))
  })
  t.true(holds(property, 4000))
})

test('recovery: needed blocks never become fewer as boundaries rise', (t) => {
  const count = (each: GroupPresence, tokens: number) => {
    const needed = neededAt(each, tokens)
    return needed === null ? null : needed.end - needed.first
  }
  const property = fc.property(group, (each) => {
    let before = 0
    for (let tokens = each.blockTokens; tokens <= LIMIT; tokens += each.blockTokens) {
      const now = count(each, tokens)
      if (now === null) continue
      if (now < before) return false
      before = now
    }
    return true
  })
  t.true(holds(property, 2000))
})

const presence = (change: Partial<GroupPresence>): GroupPresence => ({
  kind: 'full-attention',
  blockTokens: 16,
  windowTokens: 0,
  firstBlock: 0,
  present: [],
  ...change,
})
const bits = (text: string) => [...text].map(Number)

test('recovery: a hybrid resumes where attention, window and state agree, and nowhere between', (t) => {
  const attention = presence({ present: bits('11111111') })
  const window = presence({ kind: 'sliding-window', windowTokens: 30, present: bits('11011110') })
  const state = presence({ kind: 'checkpoint', blockTokens: 32, present: bits('1011') })
  t.deepEqual(legalBoundaries([attention]), [16, 32, 48, 64, 80, 96, 112, 128])
  t.deepEqual(legalBoundaries([window]), [16, 32, 80, 96, 112])
  t.deepEqual(legalBoundaries([state]), [32, 96, 128])
  t.deepEqual(legalBoundaries([attention, window, state]), [32, 96])
  t.deepEqual(legalBoundaries([attention, window, { ...state, present: bits('0001') }]), [])
})

test('recovery: a checkpoint that the engine did not ask for is never assumed, earlier attention is', (t) => {
  const state = presence({ kind: 'checkpoint', firstBlock: 2, present: bits('01') })
  t.deepEqual(legalBoundaries([state]), [64])
  t.deepEqual(legalBoundaries([presence({ present: bits('1111') }), state]), [64])
  t.deepEqual(legalBoundaries([presence({ firstBlock: 3, present: bits('11') })]), [64, 80])
  t.deepEqual(
    legalBoundaries([presence({ kind: 'sliding-window', windowTokens: 64, firstBlock: 3, present: [1] })]),
    [64],
  )
})

test('recovery: block sizes without a common multiple in reach have no boundary, at any size', (t) => {
  const primes = [1_048_573, 1_048_571, 1_048_559, 1_048_549]
  const groups = primes.map((blockTokens) => presence({ blockTokens, firstBlock: 2 ** 32 - 20, present: bits('1111') }))
  t.deepEqual(legalBoundaries(groups), [])
  t.deepEqual(legalBoundaries(groups.slice(0, 1), 2 ** 32), [])
})
