import test from 'ava'
import fc from 'fast-check'
import { STORAGE_COUNT } from '../../../src/manager/storage/counters.js'
import { ERROR_CODES, type ErrorCode } from '../../../src/shared/base/errors.js'
import type { GroupSpec } from '../../../src/shared/layout/regions.js'
import type { MessageOf, WireReply } from '../../../src/shared/layout/wire/messages.js'
import { holds } from '../../support/model-commands.js'
import { BLOCK_BYTES, keyBytes, QueryRig } from './rig.js'

/** Attention, a window of two blocks, and a state every two blocks. */
const HYBRID: readonly GroupSpec[] = [
  { kind: 'full-attention', blockTokens: 16, windowTokens: 0 },
  { kind: 'sliding-window', blockTokens: 16, windowTokens: 30 },
  { kind: 'checkpoint', blockTokens: 32, windowTokens: 0 },
]
const BLOCKS = 8

/** Asks about the whole request, all groups from their first block. */
function question(requestId = 1, allowSsd = true, blocks = BLOCKS): Omit<MessageOf<'query'>, 'kind'> {
  const groups = HYBRID.map(({ blockTokens }, group) => {
    const count = (blocks * 16) / blockTokens
    return { group, firstBlock: 0, keys: keyBytes(...Array.from({ length: count }, (_, block) => block)) }
  })
  return { requestId, revision: 0, allowSsd, groups }
}

function publishAll(rig: QueryRig, presence: readonly (readonly number[])[]): void {
  for (const [group, present] of presence.entries()) {
    for (const [block, there] of present.entries()) if (there === 1) rig.publish(group, block)
  }
}

const bits = (text: string) => [...text].map(Number)

function loading(reply: WireReply): number {
  if (reply.kind !== 'loading') throw new Error(`expected reads, got ${JSON.stringify(reply)}`)
  return reply.ticket
}

function ready(reply: WireReply): MessageOf<'ready'> {
  if (reply.kind !== 'ready') throw new Error(`expected a hit, got ${JSON.stringify(reply)}`)
  return reply
}

const lists = ({ boundaries, otherBoundaries }: MessageOf<'ready'>) => [[...boundaries], [...otherBoundaries]]

test('query: READY lists what the lease serves and what another query could have, and holds no more than it needs', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('11111111'), bits('11011110'), bits('1011')])
  const found = ready(rig.query(question()))
  t.deepEqual(lists(found), [[96], [32]])
  t.deepEqual(rig.heldSources(found.lease), { 0: [0, 1, 2, 3, 4, 5], 1: [4, 5], 2: [2] })
  t.is(rig.machine.context.queryBudget.total.chargedBytes, 9 * BLOCK_BYTES)
  t.is(found.blocksDram, 9)
  // What `otherBoundaries` promises: without the keys behind it, the same query is served there.
  const smaller = ready(rig.query(question(2, true, 2)))
  t.deepEqual(lists(smaller), [[32], []])
  t.deepEqual(rig.heldSources(smaller.lease), { 0: [0, 1], 1: [0, 1], 2: [0] })
})

test('query: blocks that are needed and not found are misses, blocks that are not needed are nothing', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('11111111'), bits('11011110'), bits('1011')])
  rig.query(question())
  // At the end of its keys the request needs 8 blocks of attention, 2 of the window and 1 state: 9 of 11 are hits.
  t.is(rig.tally.of(STORAGE_COUNT.blockHits), 9)
  t.is(rig.tally.of(STORAGE_COUNT.blockMisses), 2)
  t.is(rig.tally.of(STORAGE_COUNT.requestsRam), 9)
  const none = new QueryRig(HYBRID)
  publishAll(none, [bits('11111111'), bits('11111111'), bits('0000')])
  t.is(none.query(question()).kind, 'miss')
  t.is(none.tally.of(STORAGE_COUNT.blockHits), 0)
  t.is(none.tally.of(STORAGE_COUNT.blockMisses), 11)
})

test('query: smaller boundaries whose blocks the lease holds are served by it', (t) => {
  const groups: readonly GroupSpec[] = [HYBRID[0] as GroupSpec, { ...(HYBRID[1] as GroupSpec), windowTokens: 128 }]
  const rig = new QueryRig(groups)
  publishAll(rig, [bits('1111111'), bits('1111111')])
  const { groups: asked, ...rest } = question()
  const found = ready(rig.query({ ...rest, groups: asked.slice(0, 2) }))
  t.deepEqual(lists(found), [[16, 32, 48, 64, 80, 96, 112], []])
})

test('query: full attention alone lists its largest boundary only', (t) => {
  const rig = new QueryRig(HYBRID.slice(0, 1))
  publishAll(rig, [bits('11101')])
  t.deepEqual(lists(ready(rig.query({ ...question(), groups: question().groups.slice(0, 1) }))), [[48], []])
})

test('query: a boundary above the budget gives way to the largest below it', (t) => {
  const rig = new QueryRig(HYBRID, { queryBudgetBytes: 6 * BLOCK_BYTES })
  publishAll(rig, [bits('11111111'), bits('11111111'), bits('1111')])
  const found = ready(rig.query(question()))
  t.deepEqual(lists(found), [[32], []])
  t.is(rig.machine.context.queryBudget.total.chargedBytes, 5 * BLOCK_BYTES)
  rig.ask({ kind: 'release', what: 'lease', id: found.lease })
  t.is(rig.machine.context.queryBudget.total.chargedBytes, 0)
})

test('query: only needed blocks are read, and one that fails takes away the boundaries that need it alone', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('11111111'), bits('11111111'), bits('1111')])
  rig.dropDram()
  const ticket = loading(rig.query(question()))
  const asked = () => rig.reads.map(({ group, key }) => `${group}:${key}`).join(' ')
  t.is(asked(), '0:0 0:1 0:2 0:3 0:4 0:5 0:6 1:6 0:7 1:7 2:3')
  rig.endRead(
    rig.reads.findIndex(({ group, key }) => group === 1 && key === 6),
    'io_read_failed',
  )
  // 128 is gone. 96 needs blocks 4 and 5 of the window and state 2; what only 128 needed is not waited for.
  t.is(asked(), '0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 1:7 2:3 1:4 1:5 2:2')
  while (rig.reads.length > 0) rig.endRead(0)
  const found = ready(rig.ask({ kind: 'query_poll', ticket }))
  t.deepEqual(lists(found), [[96], [32, 64]])
  t.is(found.blocksSsd, 9)
  t.is(rig.machine.context.queryBudget.total.chargedBytes, 9 * BLOCK_BYTES)
})

test('query: when the last boundary fails the answer is a miss and nothing is held', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('11'), bits('11'), bits('1')])
  rig.dropDram()
  const ticket = loading(rig.query(question()))
  rig.endRead(
    rig.reads.findIndex(({ group }) => group === 2),
    'checksum_mismatch',
  )
  t.is(rig.ask({ kind: 'query_poll', ticket }).kind, 'miss')
  while (rig.reads.length > 0) rig.endRead(0)
  t.is(rig.machine.context.queryBudget.total.chargedBytes, 0)
  t.is(rig.storage.gauges().interests, 0)
})

test('query: a boundary falls back only on blocks that are still the generation that was found', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('1111'), bits('1111'), bits('11')])
  rig.dropDram()
  const ticket = loading(rig.query(question()))
  const state = new Int32Array(1)
  const seal = [...rig.machine.context.instances][0]?.seal
  rig.storage.lookup(seal?.classes[2] as number, keyBytes(0), 1, state)
  rig.storage.invalidate(state[0] as number)
  rig.publish(2, 0)
  rig.endRead(
    rig.reads.findIndex(({ group, key }) => group === 2 && key === 1),
    'checksum_mismatch',
  )
  while (rig.reads.length > 0) rig.endRead(0)
  t.is(rig.ask({ kind: 'query_poll', ticket }).kind, 'miss')
  const again = loading(rig.query(question(2)))
  while (rig.reads.length > 0) rig.endRead(0)
  t.deepEqual(lists(ready(rig.ask({ kind: 'query_poll', ticket: again }))), [[32], []])
})

test('query: without SSD only boundaries whose blocks are all in DRAM are legal', (t) => {
  const rig = new QueryRig(HYBRID)
  publishAll(rig, [bits('1111'), bits('1111'), bits('01')])
  rig.dropDram()
  rig.publish(2, 0)
  t.is(rig.query(question(1, false)).kind, 'miss')
  const all = new QueryRig(HYBRID)
  publishAll(all, [bits('1111'), bits('1111'), bits('11')])
  t.deepEqual(lists(ready(all.query(question(1, false)))), [[64], [32]])
})

test('restore: sources that the lease does not hold are refused by name, and every rank redeems once', (t) => {
  const rig = new QueryRig(HYBRID, {}, 2)
  publishAll(rig, [bits('11111111'), bits('11011110'), bits('1011')])
  const { lease } = ready(rig.query(question()))
  const restore = (rank: number, generation: number, group: number, ...pairs: number[]) =>
    rig.ask(
      { kind: 'restore', slot: 0, generation, lease, fence: 0, groups: [{ group, pairs: Uint32Array.from(pairs) }] },
      rank,
    )
  const refused = (code: ErrorCode, text: RegExp, reply: WireReply) => {
    if (reply.kind !== 'error') return t.fail(`expected ${code}, got ${reply.kind}`)
    t.is(reply.code, ERROR_CODES[code])
    t.regex(reply.message, text)
  }
  refused('source_out_of_range', /source 3 of group 1: the lease holds 4 to 5/, restore(0, 1, 1, 3, 0))
  refused('source_out_of_range', /source 6 of group 1: the lease holds 4 to 5/, restore(0, 1, 1, 6, 0))
  refused('source_out_of_range', /source 0 of group 2: the lease holds 2 to 2/, restore(0, 1, 2, 0, 0))
  refused('source_out_of_range', /source 6 of group 0: the lease holds 0 to 5/, restore(0, 1, 0, 6, 0))
  t.is(restore(0, 1, 1, 4, 0, 5, 1).kind, 'ack')
  refused(
    'lease_already_redeemed',
    /rank 0/,
    rig.ask({
      kind: 'restore',
      slot: 1,
      generation: 1,
      lease,
      fence: 0,
      groups: [],
    }),
  )
  t.is(restore(1, 1, 2, 2, 0).kind, 'ack')
  t.is(rig.machine.context.leaseRecords.count, 0, 'the second rank was the last')
  t.is(rig.restores.length, 2)
})

// --- any presence, any residence, any failures -------------------------------------------------------------------

interface Scene {
  readonly presence: readonly (readonly number[])[]
  /** 1: on SSD alone when the query comes. */
  readonly onSsd: readonly (readonly number[])[]
  /** 1: reading it fails. */
  readonly rotten: readonly (readonly number[])[]
  readonly firstBlocks: readonly number[]
  readonly status: ErrorCode
  readonly order: readonly number[]
}

const columns = (...weights: number[]) =>
  fc.tuple(
    ...[8, 8, 4].map((length) => fc.array(fc.constantFrom(...weights), { minLength: length, maxLength: length })),
  )

const scenes: fc.Arbitrary<Scene> = fc.record({
  presence: columns(1, 1, 1, 1, 1, 0),
  onSsd: columns(1, 0),
  rotten: columns(0, 0, 0, 0, 1),
  firstBlocks: fc.constantFrom([0, 0, 0], [2, 2, 1], [2, 0, 0], [0, 2, 0]),
  status: fc.constantFrom('io_read_failed', 'checksum_mismatch', 'io_short'),
  order: fc.array(fc.nat(40), { minLength: 1, maxLength: 12 }),
})

/** Blocks of a group that resuming at `tokens` needs: the definition, for this instance alone. */
function needs(group: number, tokens: number): number[] {
  const end = tokens / 16
  const all = Array.from({ length: end }, (_, block) => block)
  if (group === 0) return all
  return group === 1 ? all.slice(-2) : [end / 2 - 1]
}

function legalIn({ firstBlocks }: Scene, has: (group: number, block: number) => boolean): number[] {
  const legal: number[] = []
  for (let tokens = 32; tokens <= BLOCKS * 16; tokens += 32) {
    const ok = [0, 1, 2].every((group) =>
      needs(group, tokens).every((block) => {
        const own = block < (firstBlocks[group] as number)
        return own ? group !== 2 : has(group, block)
      }),
    )
    if (ok) legal.push(tokens)
  }
  return legal
}

/** Blocks that the lease must hold: needed at the boundary and not the engine's own. */
const leased = ({ firstBlocks }: Scene, group: number, tokens: number) =>
  needs(group, tokens).filter((block) => block >= (firstBlocks[group] as number))

function plays(scene: Scene): boolean {
  const rig = new QueryRig(HYBRID)
  const at = (columns: Scene['presence'], group: number, block: number) => columns[group]?.[block] === 1
  const each = (visit: (group: number, block: number) => void) => {
    for (const [group, column] of scene.presence.entries()) {
      for (const [block, there] of column.entries()) if (there === 1) visit(group, block)
    }
  }
  each((group, block) => {
    if (at(scene.onSsd, group, block)) rig.publish(group, block)
  })
  rig.dropDram()
  each((group, block) => {
    if (!at(scene.onSsd, group, block)) rig.publish(group, block)
  })
  const groups = question().groups.map(({ group, keys }) => {
    const firstBlock = scene.firstBlocks[group] as number
    return { group, firstBlock, keys: keys.slice(firstBlock * 32) }
  })
  let answer = rig.query({ ...question(), groups })
  const failed = new Set<string>()
  for (let turn = 0; rig.reads.length > 0; turn++) {
    const index = (scene.order[turn % scene.order.length] as number) % rig.reads.length
    const { group, key } = rig.reads[index] as QueryRig['reads'][number]
    if (!at(scene.rotten, group, key)) rig.endRead(index)
    else {
      rig.endRead(index, scene.status)
      failed.add(`${group}:${key}`)
    }
  }
  if (answer.kind === 'loading') answer = rig.ask({ kind: 'query_poll', ticket: answer.ticket })
  const good = legalIn(scene, (group, block) => {
    const unreadable = at(scene.rotten, group, block) && at(scene.onSsd, group, block)
    return at(scene.presence, group, block) && !unreadable
  })
  const known = legalIn(scene, (group, block) => at(scene.presence, group, block) && !failed.has(`${group}:${block}`))
  const last = good.at(-1)
  const { interests } = rig.storage.gauges()
  const charged = rig.machine.context.queryBudget.total.chargedBytes
  if (last === undefined) return answer.kind === 'miss' && interests === 0 && charged === 0
  const { lease, boundaries, otherBoundaries, blocksDram, blocksSsd } = ready(answer)
  const needed = [0, 1, 2].map((group) => leased(scene, group, last))
  const serves = (tokens: number) =>
    [0, 1, 2].every((group) => leased(scene, group, tokens).every((block) => needed[group]?.includes(block)))
  const upTo = known.filter(
    (tokens) => tokens <= last && [0, 1, 2].some((group) => leased(scene, group, tokens).length > 0),
  )
  const held = rig.heldSources(lease)
  const total = needed.flat().length
  const resident = needed.flatMap((blocks, group) => blocks.filter((block) => !at(scene.onSsd, group, block))).length
  const asExpected =
    JSON.stringify([...boundaries]) === JSON.stringify(upTo.filter(serves)) &&
    JSON.stringify([...otherBoundaries]) === JSON.stringify(upTo.filter((tokens) => !serves(tokens))) &&
    needed.every(
      (blocks, group) =>
        JSON.stringify(held[group]) ===
        JSON.stringify(blocks.map((block) => block - (scene.firstBlocks[group] as number))),
    ) &&
    interests === total &&
    charged === total * BLOCK_BYTES &&
    blocksDram === resident &&
    blocksSsd === total - resident
  if (!asExpected) return false
  rig.ask({ kind: 'release', what: 'lease', id: lease })
  return rig.storage.gauges().interests === 0 && rig.machine.context.queryBudget.total.chargedBytes === 0
}

test('query: whatever is present, resident or unreadable, the answer is exactly the legal set and its lease', (t) => {
  t.true(holds(fc.property(scenes, plays), 400))
})
