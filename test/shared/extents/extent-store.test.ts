import test from 'ava'
import fc from 'fast-check'
import { ExtentShard } from '../../../src/shared/extents/extent-shard.js'
import { ExtentStore } from '../../../src/shared/extents/extent-store.js'
import { REFUSED_PINNED, REFUSED_TOO_LARGE } from '../../../src/shared/extents/refusals.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

const SIZES = [3, 5, 8]

/** Owners live in the naive store: shard, bytes, and whether a lease pins them. Order of insertion is age. */
interface Model {
  readonly live: Map<number, { shard: number; extent: number; units: number; pinned: boolean }>
  next: number
  nextOwner: number
}

/** A store over shards whose extents are all one unit: a shard refuses exactly when pins fill it. */
function storeProperty(Store: typeof ExtentStore) {
  const reserve = fc.constant(
    step<Model, ExtentStore>('reserve(1 unit)', (model, store) => {
      const owner = model.nextOwner++
      const evicted: number[] = []
      const got = store.reserve(512, owner, evicted)
      const pinnedIn = (shard: number) =>
        [...model.live.values()].filter((extent) => extent.shard === shard && extent.pinned).length
      const order = SIZES.map((_, tried) => (model.next + tried) % SIZES.length)
      const expected = order.find((shard) => pinnedIn(shard) < (SIZES[shard] as number))
      if (expected === undefined) {
        expectEqual('refusal', got, { refused: REFUSED_PINNED })
        return
      }
      if ('refused' in got) throw new Error(`refused with ${got.refused}, shard ${expected} has room`)
      expectEqual('shard', got.shard, expected)
      for (const loser of evicted) {
        const lost = model.live.get(loser)
        expectEqual('the evicted extent', [lost?.shard, lost?.pinned], [expected, false])
        model.live.delete(loser)
      }
      store.shard(got.shard).publish(got.extent)
      model.live.set(owner, { shard: got.shard, extent: got.extent, units: 1, pinned: false })
      model.next = (expected + 1) % SIZES.length
    }),
  )
  const flip = (pinned: boolean) =>
    fc.nat(99).map((choice) =>
      step<Model, ExtentStore>(
        pinned ? 'unpin' : 'pin',
        (model, store) => {
          const among = [...model.live.values()].filter((extent) => extent.pinned === pinned)
          const extent = among[choice % among.length] as (typeof among)[number]
          extent.pinned = !pinned
          const shard = store.shard(extent.shard)
          if (pinned) shard.unpin(extent.extent)
          else shard.pin(extent.extent)
        },
        (model) => [...model.live.values()].some((extent) => extent.pinned === pinned),
      ),
    )
  return modelProperty<Model, ExtentStore>(
    [reserve, reserve, flip(false), flip(false), flip(true)],
    () => ({
      model: { live: new Map(), next: 0, nextOwner: 1 },
      real: new Store(SIZES.map((units) => new ExtentShard(units * 512, 512, 100))),
    }),
    (model, store) => {
      expectEqual('liveExtents', store.liveExtents, model.live.size)
      expectEqual('usedBytes', store.usedBytes, model.live.size * 512)
      const pinned = [...model.live.values()].filter((extent) => extent.pinned).length
      expectEqual('pinnedBytes', store.pinnedBytes, pinned * 512)
      expectEqual('conservation', store.usedBytes + store.freeBytes + store.skippedBytes, store.capacityBytes)
      for (const [owner, extent] of model.live) {
        expectEqual('owner', store.shard(extent.shard).owner(extent.extent), owner)
      }
    },
    100,
  )
}

test('ExtentStore: reservations go round the shards and pass over those that pins fill', (t) => {
  t.true(holds(storeProperty(ExtentStore), 200))
})

test('broken twin: a store that asks one shard only is caught', (t) => {
  class OneShard extends ExtentStore {
    override reserve(bytes: number, owner: number, evicted: number[]) {
      const extent = this.shard(owner % this.shardCount).reserve(bytes, owner, evicted)
      return extent > 0
        ? { shard: owner % this.shardCount, extent }
        : { refused: REFUSED_PINNED as typeof REFUSED_PINNED }
    }
  }
  t.true(catches(storeProperty(OneShard)))
})

test('ExtentStore: pinned shards are counted when they refuse, and never block the others', (t) => {
  const store = new ExtentStore([new ExtentShard(512, 512, 4), new ExtentShard(1024, 512, 4)])
  const first = store.reserve(512, 1, [])
  t.deepEqual(first, { shard: 0, extent: 1 })
  for (let owner = 2; owner < 10; owner++) {
    const got = store.reserve(512, owner, [])
    if ('refused' in got) {
      t.fail('a shard with room was not asked')
      return
    }
    t.is(got.shard, 1)
    store.shard(1).publish(got.extent)
  }
  t.is(store.pinnedRefusals, 7)
})

test('ExtentStore: a group too large for one shard may fit another, and too large for all says so', (t) => {
  const store = new ExtentStore([new ExtentShard(512, 512, 4), new ExtentShard(1024, 512, 4)])
  t.deepEqual(store.reserve(1024, 1, []), { shard: 1, extent: 1 })
  t.deepEqual(store.reserve(2048, 2, []), { refused: REFUSED_TOO_LARGE })
  t.deepEqual(store.reserve(1024, 3, []), { refused: REFUSED_PINNED })
})
