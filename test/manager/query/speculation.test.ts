import test, { type ExecutionContext } from 'ava'
import { VERB_COUNT } from '../../../src/manager/counters.js'
import type { ManagerOptions } from '../../../src/manager/options.js'
import { REUSE_SERIES_FIRST } from '../../../src/manager/series.js'
import { ERROR_CODES, type ErrorCode } from '../../../src/shared/base/errors.js'
import { RESIDENT_CLASS } from '../../../src/shared/directory/resident-table.js'
import { EMPTY_LIST } from '../../../src/shared/layout/records.js'
import type { GroupSpec } from '../../../src/shared/layout/regions.js'
import type { MessageKind, MessageOf, WireReply } from '../../../src/shared/layout/wire/messages.js'
import { RESERVATION_PHASES } from '../../../src/shared/scheduling/query-budget.js'
import { BLOCK_BYTES, keyBytes, QueryRig } from './rig.js'

const ATTENTION: GroupSpec = { kind: 'full-attention', blockTokens: 16, windowTokens: 0 }
const SECOND_US = 1_000_000

/** A Manager with `blocks` published blocks that are on SSD alone. */
function rigOf(blocks: number, options: Partial<ManagerOptions> = {}, ranks = 1): QueryRig {
  const rig = new QueryRig([ATTENTION], options, ranks)
  for (let block = 0; block < blocks; block++) rig.publish(0, block)
  rig.dropDram()
  return rig
}

/** The blocks `first … end - 1` of a request. */
function blocks(first: number, end: number): MessageOf<'prepare'>['groups'] {
  const keys = keyBytes(...Array.from({ length: end - first }, (_, i) => first + i))
  return [{ group: 0, firstBlock: first, keys }]
}

function expect<K extends MessageKind>(reply: WireReply, kind: K): MessageOf<K> {
  if (reply.kind !== kind) throw new Error(`expected ${kind}, got ${JSON.stringify(reply)}`)
  return reply as MessageOf<K>
}

function refused(t: ExecutionContext, code: ErrorCode, reply: WireReply): void {
  t.is(reply.kind === 'error' ? reply.code : reply.kind, ERROR_CODES[code])
}

const at = (rig: QueryRig, nowUs: number) => rig.step({ kind: 'tick', nowUs })

/** Blocks that are charged: all and speculation, then by phase. Counters of instance and Manager agree. */
function charged(rig: QueryRig): Record<string, number> {
  const { queryBudget, instances } = rig.machine.context
  const result: Record<string, number> = {
    all: queryBudget.total.chargedBytes / BLOCK_BYTES,
    guesses: queryBudget.speculative.chargedBytes / BLOCK_BYTES,
  }
  for (const { budget } of instances) {
    if (budget.total.chargedBytes !== queryBudget.total.chargedBytes) throw new Error('the instance is charged less')
    if (budget.speculative.chargedBytes !== queryBudget.speculative.chargedBytes) throw new Error('guesses differ')
  }
  for (const phase of RESERVATION_PHASES) {
    if (queryBudget.phaseBytes(phase) > 0) result[phase] = queryBudget.phaseBytes(phase) / BLOCK_BYTES
  }
  return result
}

const prepare = (rig: QueryRig, requestId: number, groups: MessageOf<'prepare'>['groups'], revision = 0, rank = 0) =>
  rig.ask({ kind: 'prepare', requestId, revision, groups }, rank)
const claim = (rig: QueryRig, ticket: number, groups: MessageOf<'claim'>['groups'], requestId = 1, revision = 0) =>
  rig.ask({ kind: 'claim', ticket, requestId, revision, groups })
const query = (rig: QueryRig, groups: MessageOf<'query'>['groups'], requestId = 1, rank = 0) =>
  rig.ask({ kind: 'query', requestId, revision: 0, allowSsd: true, groups }, rank)

/** Restores every block of a lease as a rank; returns the job. */
function restore(rig: QueryRig, lease: number, count: number, rank = 0, generation = 1): number {
  const pairs = Uint32Array.from(Array.from({ length: count }, (_, i) => [i, i]).flat())
  expect(rig.ask({ kind: 'restore', slot: 0, generation, lease, fence: 0, groups: [{ group: 0, pairs }] }, rank), 'ack')
  const effect = rig.restores.at(-1)
  if (effect?.kind !== 'to-dram-worker' || effect.request.kind !== 'restore') throw new Error('no restore was sent')
  return effect.request.job
}

const restored = (rig: QueryRig, job: number) =>
  rig.step({
    kind: 'dram-worker',
    device: 0,
    reply: { kind: 'restore-done', job, status: 0, bytes: 1, latencyUs: 1, list: EMPTY_LIST },
  })

test('PREPARE reads into DRAM, holds and charges speculation; CLAIM converts the bytes without freeing them', (t) => {
  const rig = rigOf(4)
  const first = expect(prepare(rig, 1, blocks(0, 4)), 'prepared')
  t.deepEqual([first.blocks, first.blocksReady, first.loading, first.expiresInMs], [4, 0, true, 1000])
  t.deepEqual(charged(rig), { all: 4, guesses: 4, preparing: 4 })
  while (rig.reads.length > 0) rig.endRead(0)
  t.deepEqual(charged(rig), { all: 4, guesses: 4, prepared: 4 })
  const done = expect(rig.ask({ kind: 'prepare_poll', ticket: first.ticket }), 'prepared')
  t.deepEqual([done.blocksReady, done.loading], [4, false])
  t.is(rig.storage.gauges().interests, 4)
  t.deepEqual(rig.storage.dropDram().evictedBlocks, 0, 'what is prepared is held')
  const ready = expect(claim(rig, first.ticket, blocks(0, 4)), 'ready')
  t.deepEqual([ready.blocksDram, ready.blocksSsd, [...ready.boundaries]], [4, 0, [64]])
  t.deepEqual(charged(rig), { all: 4, guesses: 0, ready: 4 })
  t.is(rig.storage.gauges().interests, 4)
  refused(t, 'ticket_unknown', claim(rig, first.ticket, blocks(0, 4)))
  const job = restore(rig, ready.lease, 4)
  t.deepEqual(charged(rig), { all: 4, guesses: 0, restoring: 4 })
  restored(rig, job)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
})

test('CLAIM of a preparation that still reads goes on reading as the request', (t) => {
  const rig = rigOf(3)
  const { ticket } = expect(prepare(rig, 1, blocks(0, 3)), 'prepared')
  rig.endRead(0)
  const loading = expect(claim(rig, ticket, blocks(0, 3)), 'loading')
  t.deepEqual(charged(rig), { all: 3, guesses: 0, preloading: 3 })
  while (rig.reads.length > 0) rig.endRead(0)
  const ready = expect(rig.ask({ kind: 'query_poll', ticket: loading.ticket }), 'ready')
  t.is(ready.blocksDram + ready.blocksSsd, 3)
  t.is(rig.storage.cache.order.blocks(RESIDENT_CLASS.probationary), 3, 'what a request waits for is no guess any more')
})

test('PREPARE lives a second without a poll; a poll or the same PREPARE gives it another', (t) => {
  const rig = rigOf(2)
  const { ticket } = expect(prepare(rig, 1, blocks(0, 2)), 'prepared')
  at(rig, SECOND_US - 1)
  expect(rig.ask({ kind: 'prepare_poll', ticket }), 'prepared')
  at(rig, 2 * SECOND_US - 2)
  t.is(expect(prepare(rig, 1, blocks(0, 2)), 'prepared').ticket, ticket)
  at(rig, 3 * SECOND_US - 3)
  t.is(rig.machine.context.preparations.count, 1)
  at(rig, 3 * SECOND_US - 2)
  t.is(rig.machine.context.preparations.count, 0)
  refused(t, 'ticket_unknown', rig.ask({ kind: 'prepare_poll', ticket }))
  refused(t, 'ticket_unknown', claim(rig, ticket, blocks(0, 2)))
  t.deepEqual(charged(rig), { all: 2, guesses: 2, preparing: 2 }, 'its reads are on their way: charged until they end')
  rig.endRead(0)
  t.deepEqual(charged(rig), { all: 1, guesses: 1, preparing: 1 })
  rig.endRead(0)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
  t.is(rig.storage.gauges().interests, 0)
  t.is(rig.machine.context.fillWaiters.count, 0)
})

test('PREPARE: four a session; another session has its own; RELEASE makes room', (t) => {
  const rig = rigOf(6, {}, 2)
  for (let request = 1; request <= 4; request++) {
    expect(prepare(rig, request, blocks(request - 1, request)), 'prepared')
  }
  expect(prepare(rig, 5, blocks(4, 5)), 'busy')
  expect(prepare(rig, 5, blocks(4, 5), 0, 1), 'prepared')
  const { ticket } = expect(prepare(rig, 1, blocks(0, 1)), 'prepared')
  expect(rig.ask({ kind: 'release', what: 'ticket', id: ticket }), 'ack')
  expect(prepare(rig, 5, blocks(4, 5)), 'prepared')
  t.is(rig.machine.context.preparations.count, 5)
})

test('PREPARE: other keys under the same revision are refused, a newer revision replaces, an older one is refused', (t) => {
  const rig = rigOf(4)
  const { ticket } = expect(prepare(rig, 1, blocks(0, 2), 3), 'prepared')
  refused(t, 'ticket_mismatch', prepare(rig, 1, blocks(0, 3), 3))
  refused(t, 'ticket_mismatch', claim(rig, ticket, blocks(0, 3)))
  refused(
    t,
    'ticket_mismatch',
    claim(rig, ticket, [{ ...(blocks(0, 2)[0] as { keys: Uint8Array }), group: 0, firstBlock: 1 }]),
  )
  refused(t, 'ticket_unknown', prepare(rig, 1, blocks(0, 2), 2))
  const newer = expect(prepare(rig, 1, blocks(0, 3), 4), 'prepared')
  t.not(newer.ticket, ticket)
  refused(t, 'ticket_unknown', claim(rig, ticket, blocks(0, 2)))
  t.is(rig.machine.context.preparations.count, 1)
  expect(claim(rig, newer.ticket, blocks(0, 3)), 'loading')
})

test('PREPARE of what nobody published is a miss and holds nothing', (t) => {
  const rig = rigOf(1)
  expect(prepare(rig, 1, blocks(5, 8)), 'miss')
  t.is(rig.machine.context.preparations.count, 0)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
})

test('speculation has a quarter of the budget: more is cut, what does not fit now waits, requests do not care', (t) => {
  const rig = rigOf(20, { queryBudgetBytes: 32 * BLOCK_BYTES, queryInstanceBudgetBytes: 32 * BLOCK_BYTES })
  t.is(expect(prepare(rig, 1, blocks(0, 20)), 'prepared').blocks, 8)
  expect(prepare(rig, 2, blocks(0, 1)), 'busy')
  expect(rig.ask({ kind: 'warm', groups: blocks(10, 11) }), 'busy')
  expect(query(rig, blocks(0, 20)), 'loading')
  t.deepEqual(charged(rig), { all: 28, guesses: 8, preparing: 8, preloading: 20 })
  expect(query(rig, blocks(0, 5), 2), 'busy')
  t.is(rig.verbs.of(VERB_COUNT.budgetWaits), 1)
  t.is(rig.verbs.of(VERB_COUNT.budgetBypasses), 0)
})

test('a request above what the instance may ever hold is cut and counted; the rest is neither hit nor miss', (t) => {
  const rig = rigOf(8, { queryBudgetBytes: 16 * BLOCK_BYTES, queryInstanceBudgetBytes: 4 * BLOCK_BYTES })
  const { ticket } = expect(query(rig, blocks(0, 8)), 'loading')
  while (rig.reads.length > 0) rig.endRead(0)
  t.deepEqual([...expect(rig.ask({ kind: 'query_poll', ticket }), 'ready').boundaries], [64])
  t.is(rig.verbs.of(VERB_COUNT.budgetBypasses), 1)
  t.is(rig.verbs.of(VERB_COUNT.unreadBlocks), 4)
  t.is(rig.machine.context.queryBudget.instancePeakBytes, 4 * BLOCK_BYTES)
})

test('WARM reads into the class that goes first, holds nothing, and gives each byte back as it lands', (t) => {
  const rig = rigOf(3)
  rig.publish(0, 3)
  t.like(rig.ask({ kind: 'warm', groups: blocks(0, 4) }), { kind: 'warming', accepted: 3, resident: 1, skipped: 0 })
  t.deepEqual(charged(rig), { all: 3, guesses: 3, warming: 3 })
  t.is(rig.verbs.of(VERB_COUNT.warmForegroundSkips), 1)
  rig.endRead(0)
  t.deepEqual(charged(rig), { all: 2, guesses: 2, warming: 2 })
  rig.endRead(0)
  rig.endRead(0)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
  t.is(rig.storage.gauges().interests, 0)
  t.is(rig.machine.context.warmings.count, 0)
  t.is(rig.storage.cache.order.blocks(RESIDENT_CLASS.reclaimable), 3)
  t.is(rig.storage.cache.guesses.pendingBytes, 3 * BLOCK_BYTES)
  const ready = expect(query(rig, blocks(0, 4)), 'ready')
  t.is(ready.blocksDram, 4)
  t.is(rig.storage.cache.order.blocks(RESIDENT_CLASS.reclaimable), 0)
  restored(rig, restore(rig, ready.lease, 4))
  t.is(rig.storage.cache.guesses.pendingBytes, 0)
})

test('WARM: sixteen a session and as many in all as the Manager admits; a hint ends after five seconds', (t) => {
  const rig = rigOf(40, { warmingsMax: 20 }, 2)
  for (let block = 0; block < 16; block++)
    expect(rig.ask({ kind: 'warm', groups: blocks(block, block + 1) }), 'warming')
  expect(rig.ask({ kind: 'warm', groups: blocks(30, 31) }), 'busy')
  for (let block = 16; block < 20; block++) {
    expect(rig.ask({ kind: 'warm', groups: blocks(block, block + 1) }, 1), 'warming')
  }
  expect(rig.ask({ kind: 'warm', groups: blocks(30, 31) }, 1), 'busy')
  at(rig, 5 * SECOND_US - 1)
  t.is(rig.machine.context.warmings.count, 20)
  at(rig, 5 * SECOND_US)
  t.is(rig.machine.context.warmings.count, 0)
  t.is(charged(rig)['all'], 20, 'what was submitted is charged until it ends')
  while (rig.reads.length > 0) rig.endRead(0)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
})

test('neither PREPARE nor WARM makes a page look used', (t) => {
  const rig = new QueryRig([ATTENTION])
  for (let block = 0; block < 3; block++) rig.publish(0, block)
  const oldest = () => rig.storage.entries.residents.entry(rig.storage.entries.residents.oldest())
  const before = oldest()
  const { ticket } = expect(prepare(rig, 1, blocks(0, 1)), 'prepared')
  rig.ask({ kind: 'warm', groups: blocks(0, 2) })
  t.is(oldest(), before)
  rig.ask({ kind: 'release', what: 'ticket', id: ticket })
  const { lease } = expect(query(rig, blocks(0, 1)), 'ready')
  t.not(oldest(), before, 'a request does')
  rig.ask({ kind: 'release', what: 'lease', id: lease })
})

test('a read of two owners: one leaves and the other still gets its bytes; the last to leave is charged to the end', (t) => {
  const rig = rigOf(2, {}, 2)
  const mine = expect(query(rig, blocks(0, 2), 1, 0), 'loading')
  const theirs = expect(query(rig, blocks(0, 2), 1, 1), 'loading')
  t.is(rig.reads.length, 4, 'identical reads, of two granules a block, are shared')
  t.deepEqual(charged(rig), { all: 4, guesses: 0, preloading: 4 })
  rig.ask({ kind: 'release', what: 'ticket', id: mine.ticket }, 0)
  t.deepEqual(charged(rig), { all: 2, guesses: 0, preloading: 2 }, 'the other owner pays for what is on its way')
  rig.endRead(0)
  rig.endRead(0)
  expect(rig.ask({ kind: 'query_poll', ticket: theirs.ticket }, 1), 'loading')
  rig.ask({ kind: 'release', what: 'ticket', id: theirs.ticket }, 1)
  t.deepEqual(charged(rig), { all: 1, guesses: 0, preloading: 1 })
  // The same request number again does not get what the old one was reading.
  const again = expect(query(rig, blocks(0, 2), 1, 1), 'loading')
  t.not(again.ticket, theirs.ticket)
  rig.endRead(0)
  rig.endRead(0)
  t.is(expect(rig.ask({ kind: 'query_poll', ticket: again.ticket }, 1), 'ready').blocksDram, 1)
  t.deepEqual(charged(rig), { all: 2, guesses: 0, ready: 2 })
})

test('batches: the next is submitted when the last has ended; after the last batch the answer is what was read', (t) => {
  const rig = rigOf(6, { queryReadBatchBytes: 2 * BLOCK_BYTES, queryReadBatchesMax: 2 })
  const { ticket } = expect(query(rig, blocks(0, 7)), 'loading')
  t.deepEqual(
    rig.reads.map(({ key }) => key),
    [0, 1],
  )
  rig.endRead(0)
  t.is(rig.reads.length, 1)
  rig.endRead(0)
  t.deepEqual(
    rig.reads.map(({ key }) => key),
    [2, 3],
  )
  rig.endRead(1)
  rig.endRead(0)
  t.is(rig.reads.length, 0, 'nothing new is submitted after the stop')
  t.deepEqual([...expect(rig.ask({ kind: 'query_poll', ticket }), 'ready').boundaries], [64])
  t.deepEqual(charged(rig), { all: 4, guesses: 0, ready: 4 })
  rig.machine.refreshGauges()
  t.is(rig.verbs.of(VERB_COUNT.unreadBlocks), 2)
  t.is(rig.verbs.of(REUSE_SERIES_FIRST + 1), 5, 'four were read and one is missing: what was not read does not count')
})

test('deadline: one batch is read, nothing after it; the answer is a miss, charged until the batch has ended', (t) => {
  const rig = rigOf(4, { queryReadBatchBytes: BLOCK_BYTES, queryReadTimeoutUs: 250_000 })
  const { ticket } = expect(query(rig, blocks(0, 4)), 'loading')
  at(rig, 249_999)
  expect(rig.ask({ kind: 'query_poll', ticket }), 'loading')
  at(rig, 250_000)
  expect(rig.ask({ kind: 'query_poll', ticket }), 'miss')
  t.deepEqual(charged(rig), { all: 1, guesses: 0, preloading: 1 })
  t.is(rig.reads.length, 1)
  rig.endRead(0)
  t.is(rig.reads.length, 0)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
  rig.machine.refreshGauges()
  t.is(rig.verbs.of(VERB_COUNT.unreadBlocks), 4)
  t.is(rig.verbs.of(REUSE_SERIES_FIRST + 1), 0, 'what was not read is neither hit nor miss')
  t.is(rig.storage.gauges().interests, 0)
})

test('deadline: a query that was read in time is answered, however late it is polled', (t) => {
  const rig = rigOf(2, { queryReadTimeoutUs: 250_000 })
  const { ticket } = expect(query(rig, blocks(0, 2)), 'loading')
  rig.endRead(0)
  rig.endRead(0)
  at(rig, SECOND_US)
  t.deepEqual([...expect(rig.ask({ kind: 'query_poll', ticket }), 'ready').boundaries], [32])
})

test('a lease stays charged until every rank that redeemed it has its bytes', (t) => {
  const rig = rigOf(2, {}, 2)
  rig.publish(0, 2)
  const ready = expect(query(rig, blocks(2, 3)), 'ready')
  const first = restore(rig, ready.lease, 1, 0)
  const second = restore(rig, ready.lease, 1, 1)
  t.is(rig.machine.context.leaseRecords.count, 0)
  t.deepEqual(charged(rig), { all: 1, guesses: 0, restoring: 1 })
  restored(rig, second)
  t.deepEqual(charged(rig), { all: 1, guesses: 0, restoring: 1 })
  restored(rig, first)
  t.deepEqual(charged(rig), { all: 0, guesses: 0 })
})

test('a session that ends takes its preparations and hints along', (t) => {
  const rig = rigOf(4)
  expect(prepare(rig, 1, blocks(0, 2)), 'prepared')
  expect(rig.ask({ kind: 'warm', groups: blocks(2, 4) }), 'warming')
  rig.step({ kind: 'connection-ended', connection: 0 })
  const { preparations, warmings, queryBudget, fillWaiters } = rig.machine.context
  t.deepEqual([preparations.count, warmings.count], [0, 0])
  t.is(queryBudget.total.chargedBytes, 4 * BLOCK_BYTES, 'the device has not let go')
  while (rig.reads.length > 0) rig.endRead(0)
  t.is(queryBudget.total.chargedBytes, 0)
  t.is(fillWaiters.count, 0)
  t.is(rig.storage.gauges().interests, 0)
})
