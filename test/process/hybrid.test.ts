import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { QueryResult } from '../../src/client/index.js'
import { folderOf } from '../support/folder.js'
import {
  contentOf,
  HYBRID_LAYERS,
  HybridEngine,
  type HybridLayer,
  type HybridPair,
  type HybridRank,
  type HybridRankShape,
} from '../support/hybrid-engine.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'

/**
 * A hybrid model through a real Manager: attention, a window of two blocks, a state of 9 MiB every two blocks. Blocks
 * 0 to 7 are published in part, so that 32 and 96 tokens are where the request can be resumed.
 */

const TENSOR_PARALLEL: readonly HybridRankShape[] = [0, 1].map((tpRank) => ({
  tpRank,
  ppRank: 0,
  layers: HYBRID_LAYERS,
}))
/** The window lives on the first stage, the state on the second, attention on both. */
const PIPELINE: readonly HybridRankShape[] = [
  { tpRank: 0, ppRank: 0, layers: HYBRID_LAYERS.filter(({ layer }) => /attention.0|window/.test(layer)) },
  { tpRank: 0, ppRank: 1, layers: HYBRID_LAYERS.filter(({ layer }) => /attention.1|state/.test(layer)) },
]

/** The SSD write queue is a quarter of the pool: both states of all ranks must fit into it, or one is dropped. */
const FLAGS = ['--pool-size', '256mb', '--ssd-cache-capacity', '256mb']

type Ready = Extract<QueryResult, { kind: 'ready' }>

async function ready(engine: HybridEngine, blocks: number): Promise<Ready> {
  const found = await engine.query(blocks)
  if (found.kind !== 'ready') throw new Error(`expected a hit, got ${found.kind}`)
  return found
}

const lists = ({ boundaries, otherBoundaries }: Ready) => [[...boundaries], [...otherBoundaries]]

/** Blocks that resuming at `tokens` needs, into pages from the last down. */
function pairsAt(tokens: number): HybridPair[] {
  const end = tokens / 16
  const attention = Array.from({ length: end }, (_, block) => ({ group: 0, source: block, page: 15 - block }))
  const window = [end - 2, end - 1].map((block, index) => ({ group: 1, source: block, page: 9 - 2 * index }))
  return [...attention, ...window, { group: 2, source: end / 2 - 1, page: 1 }]
}

async function restoresAll(t: ExecutionContext, engine: HybridEngine, { lease }: Ready, tokens: number): Promise<void> {
  const pairs = pairsAt(tokens)
  await Promise.all(engine.ranks.map((rank) => rank.restore(lease, pairs)))
  for (const rank of engine.ranks) t.deepEqual(rank.wrong(pairs), [], `${JSON.stringify(rank.shape.layers[0])}`)
}

/** All of attention, states 0 and 2, and the window without what one of the ranks leaves out. */
async function publishInPart(engine: HybridEngine): Promise<void> {
  for (const rank of engine.ranks) {
    await rank.publish(0, [0, 1, 2, 3, 4, 5, 6, 7])
    await rank.publish(1, windowOf(engine, rank))
    await rank.publish(2, [0, 2])
  }
}

/** What only some ranks bring is nobody's: the last one with a window leaves blocks 2 and 7 out. */
function windowOf({ ranks }: HybridEngine, rank: HybridRank): number[] {
  const last = ranks.filter((each) => each.has(1)).at(-1)
  return last === rank ? [0, 1, 3, 4, 5, 6] : [0, 1, 2, 3, 4, 5, 6, 7]
}

/** The missing blocks of the window come after all, so that nothing waits for its other half. */
async function publishTheRest({ ranks }: HybridEngine): Promise<void> {
  await ranks
    .filter((rank) => rank.has(1))
    .at(-1)
    ?.publish(1, [2, 7])
}

/** Turns one bit of a stored layer in the shard file. */
function rot(folder: string, shape: HybridRankShape, layer: HybridLayer, block: number): void {
  const path = join(folder, 'shard.dat')
  const start = contentOf(shape, layer, block).subarray(0, 512)
  const at = readFileSync(path).indexOf(start)
  if (at === -1) throw new Error(`${layer.layer} ${block} is not in the file`)
  const fd = openSync(path, 'r+')
  writeSync(fd, Uint8Array.of((start[100] as number) ^ 1), 0, 1, at + 100)
  fsyncSync(fd)
  closeSync(fd)
}

for (const [name, shapes] of [
  ['two tensor-parallel ranks', TENSOR_PARALLEL],
  ['two pipeline stages', PIPELINE],
] as const) {
  test.serial(`hybrid, ${name}: every legal boundary is answered, and restored byte for byte from SSD`, async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: FLAGS })
    const engine = await HybridEngine.start(manager.socketPath, shapes)
    t.is((await engine.query(8)).kind, 'miss')
    await publishInPart(engine)
    await engine.toSsd()

    const found = await ready(engine, 8)
    t.deepEqual(lists(found), [[96], [32]])
    t.deepEqual([found.blocksDram, found.blocksSsd], [0, 9])
    await eventually(
      'what the boundary needs and nothing else was read',
      async () => (await manager.metric('orbitkv_cache_resident_blocks')) === 9,
    )
    const first = engine.ranks[0] as HybridRank
    const outside = first.client.restore({ lease: found.lease, groups: [{ group: 1, pairs: Uint32Array.of(3, 0) }] })
    const error = await t.throwsAsync(outside, { code: 'source_out_of_range' })
    t.regex(error?.message ?? '', /source 3 of group 1: the lease holds 4 to 5/)
    await restoresAll(t, engine, found, 96)
    await t.throwsAsync(first.restore(found.lease, pairsAt(96)), { code: 'lease_already_redeemed' })

    const smaller = await ready(engine, 2)
    t.deepEqual(lists(smaller), [[32], []])
    await restoresAll(t, engine, smaller, 32)
    t.is((await engine.query(1)).kind, 'miss', 'there is no state after one block')

    await publishTheRest(engine)
    for (const rank of engine.ranks) await rank.publish(2, [1])
    const more = await ready(engine, 8)
    t.deepEqual(lists(more), [[96], [32, 64]])
    await restoresAll(t, engine, more, 96)
    await engine.stop()
    await endsClean(t, manager)
  })
}

test.serial('hybrid: a state that has rotted on SSD takes away its own boundary and no other', async (t) => {
  const folder = folderOf(t)
  const manager = await ManagerChild.start(t, { folder, flags: FLAGS })
  const engine = await HybridEngine.start(manager.socketPath, TENSOR_PARALLEL)
  await publishInPart(engine)
  await engine.toSsd()
  rot(folder, TENSOR_PARALLEL[1] as HybridRankShape, HYBRID_LAYERS.at(-1) as HybridLayer, 2)
  const found = await ready(engine, 8)
  t.deepEqual(lists(found), [[32], []])
  await restoresAll(t, engine, found, 32)
  await publishTheRest(engine)
  await engine.stop()
  await endsClean(t, manager)
})

test.serial(
  'hybrid, explicit route: a rotten block fails its restore, then the next query has what is left',
  async (t) => {
    const folder = folderOf(t)
    const manager = await ManagerChild.start(t, { folder, flags: [...FLAGS, '--ssd-read-path', 'uring'] })
    const engine = await HybridEngine.start(manager.socketPath, TENSOR_PARALLEL)
    await publishInPart(engine)
    await engine.toSsd()
    const whole = await ready(engine, 8)
    t.deepEqual(lists(whole), [[96], [32]])
    await restoresAll(t, engine, whole, 96)

    rot(folder, TENSOR_PARALLEL[0] as HybridRankShape, HYBRID_LAYERS[2] as HybridLayer, 5)
    const torn = await ready(engine, 8)
    t.deepEqual(lists(torn), [[96], [32]], 'only reading finds it')
    const [first, second] = engine.ranks as [HybridRank, HybridRank]
    await t.throwsAsync(first.restore(torn.lease, pairsAt(96)), { code: 'checksum_mismatch' })
    await engine.settled()
    await second.client.release('lease', torn.lease)
    const left = await ready(engine, 8)
    t.deepEqual(lists(left), [[32], []])
    await restoresAll(t, engine, left, 32)
    await publishTheRest(engine)
    await engine.stop()
    await endsClean(t, manager)
  },
)
