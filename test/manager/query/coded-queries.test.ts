import test from 'ava'
import type { GroupSpec } from '../../../src/shared/layout/regions.js'
import { BLOCK_BYTES, keyBytes, QueryRig } from './rig.js'

/** One block is a window: a later boundary may need fewer bytes than an earlier one. */
const WINDOW: GroupSpec = { kind: 'sliding-window', blockTokens: 16, windowTokens: 16 }
const FULL: GroupSpec = { kind: 'full-attention', blockTokens: 16, windowTokens: 0 }
const HALF = BLOCK_BYTES / 2

/** A Manager that stores by FP8: blocks 0 … n - 1 of its group, encoded where `encoded` says so, on the SSD alone. */
function rigOf(group: GroupSpec, encoded: readonly boolean[], options = {}): QueryRig {
  const rig = new QueryRig([group], { codec: { name: 'fp8' }, ...options }, 1, 'bfloat16')
  for (const [block, each] of encoded.entries()) rig.publish(0, block, each)
  rig.dropDram()
  return rig
}

const charged = (rig: QueryRig) => rig.machine.context.queryBudget.total.chargedBytes
const ask = (rig: QueryRig, blocks: number) => {
  const keys = keyBytes(...Array(blocks).keys())
  const groups = [{ group: 0, firstBlock: 0, keys }]
  return rig.query({ requestId: 1, revision: 0, allowSsd: true, groups })
}

test('coded queries: each block is charged and read in its own length', (t) => {
  const rig = rigOf(FULL, [true, false, true])
  t.is(ask(rig, 3).kind, 'loading')
  t.is(charged(rig), HALF + BLOCK_BYTES + HALF)
  t.deepEqual(
    rig.reads.map(({ bytes }) => bytes),
    [HALF, BLOCK_BYTES, HALF],
  )
  for (let left = rig.reads.length; left > 0; left--) rig.endRead(0)
  t.is(ask(rig, 3).kind, 'ready')
  t.is(charged(rig), 2 * BLOCK_BYTES)
})

test('coded queries: a budget admits as many blocks as fit it encoded', (t) => {
  const budget = { queryBudgetBytes: 2 * BLOCK_BYTES, queryInstanceBudgetBytes: 2 * BLOCK_BYTES }
  for (const [encoded, tokens] of [
    [[true, true, true, true], 64],
    [[true, true, true, false], 48],
    [[false, true, true, true], 48],
    [[false, false, true, true], 32],
  ] as const) {
    const rig = rigOf(FULL, encoded, budget)
    ask(rig, 4)
    for (let left = rig.reads.length; left > 0; left--) rig.endRead(0)
    const ready = ask(rig, 4)
    t.is(ready.kind === 'ready' ? ready.boundaries.at(-1) : ready.kind, tokens, `${encoded}`)
  }
})

test('coded queries: a query falls back to what its charge covers, and never holds more than it charged', (t) => {
  const cheaper = rigOf(WINDOW, [true, false])
  ask(cheaper, 2)
  t.is(charged(cheaper), BLOCK_BYTES)
  cheaper.endRead(0, 'io_read_failed')
  t.is(charged(cheaper), HALF, 'the window before it is encoded')
  cheaper.endRead(0)
  t.is(ask(cheaper, 2).kind, 'ready')

  const dearer = rigOf(WINDOW, [false, true])
  ask(dearer, 2)
  t.is(charged(dearer), HALF)
  dearer.endRead(0, 'io_read_failed')
  t.is(ask(dearer, 2).kind, 'miss', 'the window before it is twice what was charged')
  t.is(charged(dearer), 0)
  t.is(dearer.storage.gauges().interests, 0)
})

test('coded queries: a hint is charged what it reads', (t) => {
  const rig = rigOf(FULL, [true, false, true])
  const groups = [{ group: 0, firstBlock: 0, keys: keyBytes(0, 1, 2) }]
  const reply = rig.ask({ kind: 'warm', groups })
  t.like(reply, { kind: 'warming', accepted: 3 })
  t.is(charged(rig), 2 * BLOCK_BYTES)
  rig.endRead(0)
  t.is(charged(rig), 2 * BLOCK_BYTES - HALF)
  rig.endRead(0)
  rig.endRead(0)
  t.is(charged(rig), 0)
})

test('queries: without a codec a class says once how long its blocks are, with one each block says it', (t) => {
  const plain = new QueryRig([FULL], {}, 1, 'bfloat16')
  t.is(plain.storage.blockBytes(0), BLOCK_BYTES)
  t.is(rigOf(FULL, [true]).storage.blockBytes(0), null)
})
