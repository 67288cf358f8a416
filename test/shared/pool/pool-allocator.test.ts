import test from 'ava'
import fc from 'fast-check'
import { PAGE_BYTES } from '../../../src/shared/base/units.js'
import { PoolAllocator } from '../../../src/shared/pool/pool-allocator.js'
import { CLASSES, ClassSet, classOf, isExact, PAGES_MAX } from '../../../src/shared/pool/size-classes.js'
import { catches, expectEqual, holds, modelProperty, step } from '../../support/model-commands.js'

/** The pool as a list: offset to pages. */
interface Model {
  readonly pages: number
  readonly live: Map<number, number>
  peak: number
}

function usedPages(model: Model): number {
  return [...model.live.values()].reduce((sum, pages) => sum + pages, 0)
}

/** Lengths of the maximal runs that no allocation covers. */
function holes(model: Model): number[] {
  const found: number[] = []
  let end = 0
  for (const [first, pages] of [...model.live].sort(([a], [b]) => a - b)) {
    if (first > end) found.push(first - end)
    end = first + pages
  }
  return model.pages > end ? [...found, model.pages - end] : found
}

function poolProperty(Pool: typeof PoolAllocator, pages: number, sizes: fc.Arbitrary<number>) {
  const allocate = fc.tuple(sizes, fc.nat(PAGE_BYTES - 1)).map(([wanted, slack]) =>
    step<Model, PoolAllocator>(`allocate(${wanted} pages - ${slack})`, (model, pool) => {
      const offset = pool.allocate(wanted * PAGE_BYTES - slack)
      const fits = holes(model).some((hole) => hole >= wanted)
      if (offset < 0) {
        if (fits) throw new Error('refused although a hole fits')
        return
      }
      const first = offset / PAGE_BYTES
      if (!Number.isInteger(first) || first + wanted > model.pages) throw new Error(`${offset} is not in the pool`)
      for (const [other, length] of model.live) {
        if (first < other + length && other < first + wanted) throw new Error(`${offset} overlaps another allocation`)
      }
      model.live.set(first, wanted)
      model.peak = Math.max(model.peak, usedPages(model))
    }),
  )
  const free = fc.nat(999).map((choice) =>
    step<Model, PoolAllocator>(
      `free(${choice})`,
      (model, pool) => {
        const first = [...model.live.keys()][choice % model.live.size] as number
        model.live.delete(first)
        pool.free(first * PAGE_BYTES)
      },
      (model) => model.live.size > 0,
    ),
  )
  const shrink = fc.tuple(fc.nat(999), fc.nat(999), fc.nat(PAGE_BYTES - 1)).map(([choice, part, slack]) =>
    step<Model, PoolAllocator>(
      `shrink(${choice}, ${part}, ${slack})`,
      (model, pool) => {
        const [first, pages] = [...model.live][choice % model.live.size] as [number, number]
        const kept = 1 + (part % pages)
        model.live.set(first, kept)
        const given = pool.shrink(first * PAGE_BYTES, kept * PAGE_BYTES - slack)
        expectEqual('given back', given, (pages - kept) * PAGE_BYTES)
      },
      (model) => model.live.size > 0,
    ),
  )
  return modelProperty<Model, PoolAllocator>(
    [allocate, allocate, free, shrink],
    () => ({ model: { pages, live: new Map(), peak: 0 }, real: new Pool(pages * PAGE_BYTES + PAGE_BYTES - 1) }),
    (model, pool) => {
      const used = usedPages(model) * PAGE_BYTES
      expectEqual('usedBytes', pool.usedBytes, used)
      expectEqual('freeBytes', pool.freeBytes, pages * PAGE_BYTES - used)
      expectEqual('peakBytes', pool.peakBytes, model.peak * PAGE_BYTES)
      expectEqual('allocations', pool.allocations, model.live.size)
      expectEqual('largestFreeBytes', pool.largestFreeBytes, Math.max(0, ...holes(model)) * PAGE_BYTES)
      for (const [first, length] of model.live) {
        expectEqual('bytesAt', pool.bytesAt(first * PAGE_BYTES), length * PAGE_BYTES)
      }
    },
    120,
  )
}

const small = fc.integer({ min: 1, max: 8 })
const mixed = fc.oneof(
  fc.integer({ min: 1, max: 256 }),
  fc.constantFrom(255, 256, 257, 271, 272, 273, 287, 288, 300, 511, 512, 513, 600),
)

test('PoolAllocator: any commands leave it equal to a list of allocations, small pool', (t) => {
  t.true(holds(poolProperty(PoolAllocator, 32, small), 300))
})

test('PoolAllocator: any commands leave it equal to a list of allocations, runs around and beyond 1 MiB', (t) => {
  t.true(holds(poolProperty(PoolAllocator, 3000, mixed), 200))
})

test('broken twin: a pool that rounds one byte too early is caught', (t) => {
  class Short extends PoolAllocator {
    override allocate(bytes: number): number {
      return super.allocate(Math.max(1, bytes - 1))
    }
  }
  // The slack that shows it: exactly one byte on the last page.
  const oneByteMore = fc.integer({ min: 1, max: 8 }).map((pages) => pages + 1)
  t.true(catches(poolProperty(Short, 32, oneByteMore), 20_000))
})

test('broken twin: a pool that counts right and answers one page too low is caught', (t) => {
  class Low extends PoolAllocator {
    override allocate(bytes: number): number {
      const offset = super.allocate(bytes)
      return offset > 0 ? offset - PAGE_BYTES : offset
    }
  }
  t.true(catches(poolProperty(Low, 32, small)))
})

test('PoolAllocator: a double free, a free inside an allocation and a free of a hole are invariants', (t) => {
  const pool = new PoolAllocator(64 * PAGE_BYTES)
  const broken = { code: 'invariant' }
  const [a, b] = [pool.allocate(4 * PAGE_BYTES), pool.allocate(4 * PAGE_BYTES)]
  for (const offset of [a + PAGE_BYTES, a + 1, b + 4 * PAGE_BYTES, -PAGE_BYTES, 64 * PAGE_BYTES, Number.NaN]) {
    t.throws(() => pool.free(offset), broken, `offset ${offset}`)
  }
  pool.free(a)
  t.throws(() => pool.free(a), broken)
  pool.free(b)
  t.throws(() => pool.free(b), broken)
  t.throws(() => pool.allocate(0), broken)
  t.is(pool.largestFreeBytes, 64 * PAGE_BYTES)
})

test('broken twin: a pool whose shrunk end stays used is caught', (t) => {
  class Clinging extends PoolAllocator {
    override shrink(offsetBytes: number, bytes: number): number {
      return this.bytesAt(offsetBytes) - Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
    }
  }
  t.true(catches(poolProperty(Clinging, 32, small)))
})

test('broken twin: a pool that gives one page too many back is caught', (t) => {
  class Generous extends PoolAllocator {
    override shrink(offsetBytes: number, bytes: number): number {
      return super.shrink(offsetBytes, Math.max(1, bytes - PAGE_BYTES))
    }
  }
  t.true(catches(poolProperty(Generous, 32, small)))
})

test('PoolAllocator: an allocation shrinks to no more than it has, to something, and only where it begins', (t) => {
  const pool = new PoolAllocator(16 * PAGE_BYTES)
  const broken = { code: 'invariant' }
  const offset = pool.allocate(4 * PAGE_BYTES)
  for (const bytes of [0, -1, 4 * PAGE_BYTES + 1, Number.NaN, 1.5]) {
    t.throws(() => pool.shrink(offset, bytes), broken, `${bytes} bytes`)
  }
  t.throws(() => pool.shrink(offset + PAGE_BYTES, 1), broken)
  t.is(pool.shrink(offset, 3 * PAGE_BYTES + 1), 0, 'its last page is in use')
  t.is(pool.shrink(offset, 1), 3 * PAGE_BYTES)
  t.is(pool.largestFreeBytes, 15 * PAGE_BYTES, 'what it gave back joined the hole behind it')
  pool.free(offset)
  t.throws(() => pool.shrink(offset, 1), broken)
  t.deepEqual([pool.usedBytes, pool.allocations, pool.largestFreeBytes], [0, 0, 16 * PAGE_BYTES])
})

test('PoolAllocator: every piece freed in any order leaves one hole', (t) => {
  t.true(
    holds(
      fc.property(fc.shuffledSubarray([...Array(40).keys()], { minLength: 40 }), (order) => {
        const pool = new PoolAllocator(40 * PAGE_BYTES)
        const offsets = order.map(() => pool.allocate(1))
        expectEqual('full', pool.allocate(1), -1)
        for (const index of order) pool.free(offsets[index] as number)
        expectEqual('one hole', pool.largestFreeBytes, 40 * PAGE_BYTES)
        expectEqual('at rest', [pool.usedBytes, pool.allocations], [0, 0])
      }),
      100,
    ),
  )
})

test('PoolAllocator: offsets beyond 2^32 bytes are exact', (t) => {
  const pool = new PoolAllocator(12 * 2 ** 30)
  const offsets = Array.from({ length: 12 }, () => pool.allocate(2 ** 30))
  t.deepEqual(
    offsets,
    offsets.map((_, index) => index * 2 ** 30),
  )
  t.is(pool.allocate(1), -1)
  pool.free(5 * 2 ** 30)
  t.is(pool.allocate(4096), 5 * 2 ** 30)
})

test('size classes: every length has the class of its size, up to 1 MiB one of its own', (t) => {
  let previous = -1
  for (let pages = 1; pages < 70_000; pages++) {
    const sizeClass = classOf(pages)
    if (pages <= 256) t.is(sizeClass, pages - 1)
    if (sizeClass < previous || sizeClass > previous + 1) t.fail(`class ${sizeClass} of ${pages} pages`)
    if (isExact(sizeClass) !== pages <= 256) t.fail(`exact ${pages}`)
    previous = sizeClass
  }
  t.is(classOf(PAGES_MAX), CLASSES - 1)
})

test('ClassSet: next and last equal a search through a plain set', (t) => {
  const member = fc.oneof(fc.nat(CLASSES - 1), fc.constantFrom(0, 31, 32, 63, 64, CLASSES - 1))
  t.true(
    holds(
      fc.property(fc.array(fc.tuple(fc.boolean(), member), { maxLength: 40 }), member, (changes, from) => {
        const set = new ClassSet()
        const plain = new Set<number>()
        for (const [add, sizeClass] of changes) {
          if (add) {
            set.add(sizeClass)
            plain.add(sizeClass)
          } else if (plain.delete(sizeClass)) {
            set.delete(sizeClass)
          }
          const above = [...plain].filter((each) => each >= from)
          expectEqual('next', set.next(from), above.length === 0 ? -1 : Math.min(...above))
          expectEqual('last', set.last(), Math.max(-1, ...plain))
        }
      }),
      300,
    ),
  )
})
