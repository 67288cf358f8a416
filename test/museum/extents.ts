import { ExtentShard } from '../../src/shared/extents/extent-shard.js'
import type { Exhibit } from './exhibit.js'
import { demand, named } from './named.js'

const ALIGNMENT = 4096
const CAPACITY = 64 * ALIGNMENT
const ROUNDS = 1_000

/** Objects of odd sizes until the shard has gone round often; what lives is aligned and within the cap. */
function fill(Shard: typeof ExtentShard, bytesOf: (round: number) => number, count: () => void): void {
  const shard = new Shard(CAPACITY, ALIGNMENT, 256)
  const live = new Map<number, number>()
  for (let round = 0; round < ROUNDS; round++) {
    count()
    const evicted: number[] = []
    const extent = shard.reserve(bytesOf(round), round, evicted)
    for (const owner of evicted) live.delete(owner)
    demand(extent >= 0, 'an object that fits is taken')
    const offset = shard.offsetBytes(extent)
    const bytes = shard.bytes(extent)
    demand(offset % ALIGNMENT === 0 && bytes % ALIGNMENT === 0, `direct I/O is aligned: ${bytes} bytes at ${offset}`)
    live.set(round, bytes)
    const used = [...live.values()].reduce((sum, each) => sum + each, 0)
    demand(
      offset + bytes <= CAPACITY && used <= CAPACITY,
      `the cap holds: ${used} of ${CAPACITY} bytes, end ${offset + bytes}`,
    )
    shard.publish(extent)
  }
}

/** Packs objects one behind the other. */
class PacksTightly extends ExtentShard {
  constructor(capacityBytes: number, _: number, extentsMax: number) {
    super(capacityBytes, 1, extentsMax)
  }
}

/** Evicts only at four times its cap. */
class OvershootsItsCap extends ExtentShard {
  constructor(capacityBytes: number, alignmentBytes: number, extentsMax: number) {
    super(4 * capacityBytes, alignmentBytes, extentsMax)
  }
}

/** Bugs of where objects lie on the SSD. */
export const EXTENTS: readonly Exhibit[] = [
  named({
    id: 'sglang#35231',
    what: 'objects of 2,560 bytes lie one behind the other, so that direct I/O refuses each',
    where: 'ExtentShard',
    foundBy: 'check: every extent is aligned',
    shows: /direct I\/O is aligned/,
    bound: ROUNDS,
    shipped: ExtentShard,
    twin: PacksTightly,
    check: (Shard, count) => fill(Shard, () => 2_560, count),
  }),
  named({
    id: 'LMCache#4725',
    what: 'the tier takes far more than its cap',
    where: 'ExtentShard',
    foundBy: 'check: live extents stay within the capacity',
    shows: /the cap holds/,
    bound: ROUNDS,
    shipped: ExtentShard,
    twin: OvershootsItsCap,
    check: (Shard, count) => fill(Shard, (round) => 1 + ((round * 7919) % (5 * ALIGNMENT)), count),
  }),
]
