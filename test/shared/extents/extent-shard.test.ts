import test from 'ava'
import fc from 'fast-check'
import { ExtentShard } from '../../../src/shared/extents/extent-shard.js'
import { REFUSED_PINNED, REFUSED_TABLE_FULL, REFUSED_TOO_LARGE } from '../../../src/shared/extents/refusals.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'
import { NaiveShard } from './naive-shard.js'

const UNITS = 24
const REASONS = { 'too large': REFUSED_TOO_LARGE, pinned: REFUSED_PINNED, 'table full': REFUSED_TABLE_FULL }

interface Model {
  readonly naive: NaiveShard
  /** The real extent of each name, for live extents. */
  readonly real: Map<number, number>
  nextName: number
}

function pick(model: Model, choice: number, which: (name: number) => boolean): number {
  const names = [...model.real.keys()].filter(which)
  return names[choice % names.length] as number
}

const published = (model: Model) => (name: number) => model.naive.extents.get(name)?.published === true
const inFlight = (model: Model) => (name: number) => !published(model)(name)
const pinned = (model: Model) => (name: number) => (model.naive.extents.get(name)?.pins ?? 0) > 0
const evictable = (model: Model) => (name: number) => published(model)(name) && !pinned(model)(name)

function onOne(
  label: string,
  which: (model: Model) => (name: number) => boolean,
  run: (model: Model, shard: ExtentShard, name: number, extent: number) => void,
): fc.Arbitrary<fc.Command<Model, ExtentShard>> {
  return fc.nat(99).map((choice) =>
    step<Model, ExtentShard>(
      `${label}(${choice})`,
      (model, shard) => {
        const name = pick(model, choice, which(model))
        run(model, shard, name, model.real.get(name) as number)
      },
      (model) => [...model.real.keys()].some(which(model)),
    ),
  )
}

function reserve(alignmentBytes: number): fc.Arbitrary<fc.Command<Model, ExtentShard>> {
  // Mostly small extents, and now and then one as large as the shard or larger.
  const size = fc.oneof(
    { weight: 9, arbitrary: fc.integer({ min: 1, max: 8 }) },
    fc.integer({ min: 1, max: UNITS + 1 }),
  )
  return fc.tuple(size, fc.nat(1)).map(([units, slack]) =>
    step<Model, ExtentShard>(`reserve(${units} units - ${slack})`, (model, shard) => {
      const name = model.nextName++
      const evicted: number[] = []
      const extent = shard.reserve(units * alignmentBytes - slack, name, evicted)
      const expected = model.naive.reserve(name, units, name)
      if (typeof expected === 'string') {
        expectEqual('the refusal', extent, REASONS[expected])
        expectEqual('evicted by a refusal', evicted, [])
        return
      }
      if (extent <= 0) throw new Error(`refused with ${extent}, the model reserves`)
      expectEqual('evicted', evicted, expected)
      for (const loser of expected) model.real.delete(loser)
      model.real.set(name, extent)
    }),
  )
}

function compare(alignmentBytes: number) {
  return (model: Model, shard: ExtentShard): void => {
    const { naive } = model
    expectEqual('liveExtents', shard.liveExtents, naive.extents.size)
    for (const [name, extent] of naive.extents) {
      const real = model.real.get(name) as number
      expectEqual(`offset of ${name}`, shard.offsetBytes(real), extent.start * alignmentBytes)
      expectEqual(`bytes of ${name}`, shard.bytes(real), extent.units * alignmentBytes)
      expectEqual(`owner of ${name}`, shard.owner(real), extent.owner)
      expectEqual(`published ${name}`, shard.published(real), extent.published)
      expectEqual(`pins of ${name}`, shard.pins(real), extent.pins)
    }
    const counts = {
      used: naive.count(() => true) * alignmentBytes,
      pinned: naive.count((extent) => extent.pins > 0) * alignmentBytes,
      inFlight: naive.count((extent) => !extent.published) * alignmentBytes,
      skipped: naive.skipped.filter((skip) => skip).length * alignmentBytes,
    }
    expectEqual(
      'bytes',
      { used: shard.usedBytes, pinned: shard.pinnedBytes, inFlight: shard.inFlightBytes, skipped: shard.skippedBytes },
      counts,
    )
    expectEqual('free bytes', shard.freeBytes, UNITS * alignmentBytes - counts.used - counts.skipped)
  }
}

type Make = new (capacityBytes: number, alignmentBytes: number, extentsMax: number) => ExtentShard

function behavesLikeTheModel(Shard: Make, alignmentBytes: number, extentsMax: number) {
  return modelProperty<Model, ExtentShard>(
    [
      reserve(alignmentBytes),
      reserve(alignmentBytes),
      onOne('publish', inFlight, (model, shard, name, extent) => {
        const naive = model.naive.extents.get(name)
        if (naive !== undefined) naive.published = true
        shard.publish(extent)
      }),
      onOne('abort', inFlight, (model, shard, name, extent) => {
        model.naive.remove(name)
        model.real.delete(name)
        shard.abort(extent)
      }),
      onOne('pin', published, (model, shard, name, extent) => {
        const naive = model.naive.extents.get(name)
        if (naive !== undefined) naive.pins++
        shard.pin(extent)
      }),
      onOne('unpin', pinned, (model, shard, name, extent) => {
        const naive = model.naive.extents.get(name)
        if (naive !== undefined) naive.pins--
        shard.unpin(extent)
      }),
      onOne('release', evictable, (model, shard, name, extent) => {
        model.naive.remove(name)
        model.real.delete(name)
        shard.release(extent)
      }),
    ],
    () => ({
      model: { naive: new NaiveShard(UNITS, extentsMax), real: new Map(), nextName: 1 },
      real: new Shard(UNITS * alignmentBytes + alignmentBytes - 1, alignmentBytes, extentsMax),
    }),
    compare(alignmentBytes),
  )
}

test('ExtentShard: any commands leave it equal to the naive shard', (t) => {
  t.true(holds(behavesLikeTheModel(ExtentShard, 512, 100), 400))
})

test('ExtentShard: with few extent numbers it takes them from the oldest extents', (t) => {
  t.true(holds(behavesLikeTheModel(ExtentShard, 4096, 5), 300))
})

test('ExtentShard: offsets beyond 2^32 bytes are exact', (t) => {
  t.true(holds(behavesLikeTheModel(ExtentShard, 2 ** 40, 100), 150))
})

test('broken twin: a shard that skips the pin check is caught', (t) => {
  class Overwriting extends ExtentShard {
    protected override mayOverwrite(): boolean {
      return true
    }
  }
  t.true(catches(behavesLikeTheModel(Overwriting, 512, 100)))
})

test('broken twin: a shard that overwrites what is in flight is caught', (t) => {
  class Hasty extends ExtentShard {
    protected override mayOverwrite(extent: number): boolean {
      return this.pins(extent) === 0
    }
  }
  t.true(catches(behavesLikeTheModel(Hasty, 512, 100)))
})

test('broken twin: a shard that lets an extent straddle the physical end is caught', (t) => {
  class Straddling extends ExtentShard {
    constructor(capacityBytes: number, alignmentBytes: number, extentsMax: number) {
      super(capacityBytes + alignmentBytes, alignmentBytes, extentsMax)
    }
    override get freeBytes(): number {
      return super.freeBytes - this.alignmentBytes
    }
  }
  t.true(catches(behavesLikeTheModel(Straddling, 512, 100)))
})

test('ExtentShard: a full lap reuses the start and counts the tail that was too short', (t) => {
  const shard = new ExtentShard(10 * 512, 512, 100)
  const evicted: number[] = []
  for (const owner of [1, 2, 3]) shard.publish(shard.reserve(3 * 512, owner, evicted))
  t.deepEqual([shard.usedBytes, shard.skippedBytes, shard.freeBytes], [9 * 512, 0, 512])
  const fourth = shard.reserve(2 * 512, 4, evicted)
  t.is(shard.offsetBytes(fourth), 0)
  t.deepEqual(evicted, [1])
  t.deepEqual([shard.usedBytes, shard.skippedBytes, shard.freeBytes], [8 * 512, 512, 512])
})

test('ExtentShard: one pinned extent at the front costs its own bytes, where a FIFO ring refuses every write', (t) => {
  const shard = new ExtentShard(100 * 512, 512, 1000)
  const evicted: number[] = []
  const front = shard.reserve(512, 0, evicted)
  shard.publish(front)
  shard.pin(front)
  // Upstream's ring: the tail cannot pass the front while it is read, so a lap after it nothing fits.
  let fifoHead = 1
  let refusedByFifo = 0
  for (let owner = 1; owner <= 1000; owner++) {
    if (fifoHead + 1 <= 100) fifoHead++
    else refusedByFifo++
    const extent = shard.reserve(512, owner, evicted)
    t.true(extent > 0)
    t.not(shard.offsetBytes(extent), 0)
    shard.publish(extent)
  }
  t.is(refusedByFifo, 901)
  t.is(evicted.length, 901)
  t.false(evicted.includes(0))
  t.is(shard.skippedBytes, 0)
  t.is(shard.liveExtents, 100)
})

test('ExtentShard: a shard full of pins refuses, changes nothing, and takes the first run that opens', (t) => {
  const shard = new ExtentShard(8 * 512, 512, 100)
  const evicted: number[] = []
  const extents = [0, 1, 2, 3].map((owner) => shard.reserve(1024, owner, evicted))
  for (const extent of extents) {
    shard.publish(extent)
    shard.pin(extent)
  }
  t.is(shard.reserve(1024, 4, evicted), REFUSED_PINNED)
  shard.unpin(extents[2] as number)
  t.is(shard.reserve(2048, 4, evicted), REFUSED_PINNED)
  const fits = shard.reserve(1024, 4, evicted)
  t.is(shard.offsetBytes(fits), 2048)
  t.deepEqual(evicted, [2])
  t.is(shard.pinnedSkips, 2)
})

/** Counts how often the shard looks at an extent. */
class Watched extends ExtentShard {
  looks = 0
  protected override mayOverwrite(extent: number): boolean {
    this.looks++
    return super.mayOverwrite(extent)
  }
}

test('ExtentShard: a lap looks at each extent at most once, however many are pinned', (t) => {
  const shard = new Watched(1000 * 512, 512, 2000)
  const evicted: number[] = []
  for (let owner = 0; owner < 1000; owner++) {
    const extent = shard.reserve(512, owner, evicted)
    shard.publish(extent)
    if (owner % 3 !== 0) shard.pin(extent)
  }
  shard.looks = 0
  // 334 extents are free to go, so this is ten laps.
  for (let owner = 0; owner < 3340; owner++) shard.publish(shard.reserve(512, owner, evicted))
  t.is(evicted.length, 3340)
  t.true(shard.looks <= 10 * 1000, `${shard.looks} looks`)
})

test('ExtentShard: a refusal is not walked again until enough room opens', (t) => {
  const shard = new Watched(1000 * 512, 512, 2000)
  const evicted: number[] = []
  const extents = Array.from({ length: 1000 }, (_, owner) => shard.reserve(512, owner, evicted))
  for (const extent of extents) {
    shard.publish(extent)
    shard.pin(extent)
  }
  t.is(shard.reserve(1024, 0, evicted), REFUSED_PINNED)
  shard.looks = 0
  for (const extent of extents) {
    shard.unpin(extent)
    t.is(shard.reserve(1024, 0, evicted), REFUSED_PINNED)
    shard.pin(extent)
  }
  t.true(shard.looks <= 4 * 1000, `${shard.looks} looks`)
})

test('ExtentShard: four billion units, the last one included', (t) => {
  const shard = new ExtentShard(2 ** 32 * 512 - 512, 512, 10)
  const evicted: number[] = []
  const large = [1, 2, 3].map((owner) => shard.reserve(2 ** 30 * 512, owner, evicted))
  const last = shard.reserve((2 ** 30 - 1) * 512, 4, evicted)
  t.is(shard.offsetBytes(last) + shard.bytes(last), 2 ** 32 * 512 - 512)
  t.is(shard.freeBytes, 0)
  for (const extent of [...large, last]) shard.publish(extent)
  t.is(shard.offsetBytes(shard.reserve(2 ** 31 * 512, 5, evicted)), 0)
  t.deepEqual(evicted, [1, 2])
  t.throws(() => new ExtentShard(2 ** 32 * 512, 512, 10), { code: 'config_bad_value' })
  t.throws(() => new ExtentShard(511, 512, 10), { code: 'config_bad_value' })
})

test('ExtentShard: what a bug would do stops at an invariant', (t) => {
  const shard = new ExtentShard(4096, 512, 4)
  const extent = shard.reserve(512, 1, [])
  const broken = { code: 'invariant' }
  t.throws(() => shard.pin(extent), broken)
  t.throws(() => shard.release(extent), broken)
  shard.publish(extent)
  t.throws(() => shard.publish(extent), broken)
  t.throws(() => shard.abort(extent), broken)
  t.throws(() => shard.unpin(extent), broken)
  shard.pin(extent)
  t.throws(() => shard.release(extent), broken)
  shard.unpin(extent)
  shard.release(extent)
  t.throws(() => shard.release(extent), broken)
  t.throws(() => shard.offsetBytes(extent), broken)
  t.throws(() => shard.offsetBytes(0), broken)
  t.throws(() => shard.reserve(0, 1, []), broken)
})
